// Tools: profiles side by side, with a switch for every category, tool and effect, and the deny rules.

import { get, post } from "../api.js";
import { button, empty, fill, h, icon, select, toggle } from "../dom.js";
import * as format from "../format.js";
import { readSetting, writeSetting } from "../settings.js";

const PRESETS = [
  { id: "full-access", icon: "tools", title: "Full access dev box", text: "Files, shell, browser: every tool is on." },
  {
    id: "browser-only",
    icon: "connect",
    title: "Browser-only box",
    text: "Only the browser tools are on, nothing else.",
  },
];
const EFFECTS = { read: "Everything that reads", write: "Everything that writes", execute: "Everything that executes" };
const NO_BROWSER = "No browser is mounted: clients will see no tool.";
const COLUMNS_KEY = "mcp-agent-columns";

export default { id: "tools", mount };

/**
 * @param {HTMLElement} root
 * @param {App} app
 */
function mount(root, app) {
  const searchInput = h("input", {
    class: "input",
    type: "search",
    placeholder: "Search tools",
    aria: { label: "Search tools" },
    on: { input: () => paint() },
  });
  const presets = h("div", { class: "presets" });
  const chips = h("div", { class: "row columns", role: "group", aria: { label: "Profiles to show side by side" } });
  const board = h("div", {
    class: "card board-card",
    tabIndex: 0,
    role: "region",
    aria: { label: "Switches of every profile" },
  });
  const rules = h("section", { class: "card" });
  let shown = new Set(JSON.parse(readSetting(COLUMNS_KEY) ?? "[]"));
  let ruleProfile;

  fill(
    root,
    h(
      "div",
      { class: "page-head" },
      h(
        "div",
        {},
        h("h1", {}, "Tools"),
        h(
          "p",
          {},
          "What each profile lets its clients use. A change is saved at once, and every connected client has it " +
            "within a second.",
        ),
      ),
    ),
    presets,
    h("div", { class: "row between" }, chips, h("div", { class: "search" }, icon("search", 16), searchInput)),
    h("div", { class: "gap" }),
    board,
    h("div", { class: "gap" }),
    rules,
  );

  const change = (path, body, done) =>
    app.attempt(async () => {
      await post(path, body);
      app.store.set("board", await get("switchboard"));
    }, done);

  function paint() {
    const state = app.store.state.board;
    if (!state) {
      fill(board, h("div", { class: "empty" }, "Loading…"));
      return;
    }
    const profiles = state.profiles
      .filter((each) => isShown(state, each))
      .sort((a, b) => Number(b.id === state.active) - Number(a.id === state.active));
    keepFocus(root, () => {
      paintPresets(state);
      paintChips(state);
      paintBoard(state, profiles);
      paintRules(state, profiles);
    });
  }

  const isNarrow = () => matchMedia("(max-width: 860px)").matches;
  const isShown = (state, profile) => {
    if (isNarrow()) return profile.id === ([...shown].at(-1) ?? state.active);
    return profile.id === state.active || shown.has(profile.id) || (!profile.shipped && shown.size === 0);
  };

  function paintPresets(state) {
    fill(
      presets,
      PRESETS.map((preset) => {
        const id = state.presets[preset.id];
        const profile = state.profiles.find((each) => each.id === id);
        const isInForce = state.active === id && isAsShipped(state, profile, preset.id);
        return h(
          "section",
          { class: "card preset" },
          h("span", { class: "badge" }, icon(preset.icon, 20)),
          h(
            "div",
            { class: "grow" },
            h("h2", {}, preset.title),
            h("p", {}, preset.text),
            lacksBrowser(state, preset) && h("p", { class: "small warn-text" }, NO_BROWSER),
          ),
          isInForce
            ? h("span", { class: "chip good" }, icon("check", 13), "In use")
            : button("Use", () => usePreset(state, preset, profile), {
                disabled: state.pinned,
                aria: { label: `Use ${preset.title}` },
              }),
        );
      }),
    );
  }

  /** With the shell off, other tools may still run commands: say which, and offer to switch them off as well. */
  function leftoverRow(state, profile, columns) {
    const names = stillExecuting(state, profile);
    if (names.length === 0) return undefined;
    const text = `The shell tools are off in ${profile.label}, and ${names.join(", ")} can still execute.`;
    const label = names.length === 1 ? `Switch ${names[0]} off, too` : "Switch them off, too";
    const off = button(label, () => switchOff(profile, names), { kind: "tiny" });
    return h(
      "tr",
      {},
      h("td", { class: "leftover", colSpan: columns }, h("p", { class: "note warn row between" }, text, off)),
    );
  }

  const switchOff = (profile, targets) => change("switch", { profile: profile.id, targets, enabled: false });

  const switchTool = (profile, target, enabled) => change("switch", { profile: profile.id, target, enabled });

  /** The switch of a tool, a category or an effect, with its third position: on, and every call asks first. */
  function withAsk(element, asks, isOn, label, body, above = false) {
    element.classList.toggle("asks", asks);
    const next = asks ? (above ? "never" : false) : true;
    const askButton = button("ask", () => change("switch", { ...body, enabled: true, ask: next }), {
      kind: "ask-button",
      disabled: !isOn,
      aria: { pressed: String(asks), label: `${label}: ask first` },
      data: { key: `ask-${element.dataset.key}` },
    });
    return h("span", { class: "with-ask" }, element, askButton);
  }

  /** Switch a category or an effect. If every one of its tools is off by its own switch, they go on with it. */
  function switchGroup(profile, { targets = /** @type {string[]} */ ([]), ...wanted }, tools) {
    const all = [...targets, ...tools.map((tool) => tool.name)];
    return change("switch", { profile: profile.id, targets: all, ...wanted });
  }

  async function usePreset(state, preset, profile) {
    const warnings = [
      lacksBrowser(state, preset) && `${NO_BROWSER} mcp-agent mount add brings one.`,
      profile &&
        !isAsShipped(state, profile, preset.id) &&
        `This also resets every switch of the profile ${profile.label}. Its deny rules stay.`,
    ].filter(Boolean);
    const ask = { title: `Use ${preset.title}?`, text: warnings.join(" "), action: "Use" };
    if (warnings.length > 0 && !(await app.ask(ask))) return;
    await change("profiles/preset", { preset: preset.id }, `${preset.title} is in use`);
  }

  function paintChips(state) {
    fill(
      chips,
      state.profiles.map((profile) => {
        const isOn = isShown(state, profile);
        return button(
          profile.label,
          () => {
            if (isNarrow()) shown = new Set([profile.id]);
            else {
              if (shown.size === 0)
                shown = new Set(state.profiles.filter((each) => isShown(state, each)).map((each) => each.id));
              if (isOn) shown.delete(profile.id);
              else shown.add(profile.id);
              shown.add(state.active);
            }
            writeSetting(COLUMNS_KEY, JSON.stringify([...shown]));
            paint();
          },
          {
            kind: "tiny",
            aria: { pressed: String(isOn) },
            title: profile.description,
            icon: profile.id === state.active ? "check" : undefined,
            data: { key: `chip-${profile.id}` },
          },
        );
      }),
    );
  }

  function paintBoard(state, profiles) {
    const wanted = searchInput.value.trim().toLowerCase();
    const matches = (tool) => !wanted || `${tool.name} ${tool.description}`.toLowerCase().includes(wanted);
    const categories = state.categories
      .map((each) => ({ ...each, found: each.tools.filter(matches) }))
      .filter((each) => each.found.length > 0 || (!wanted && each.mounted));
    const facts = h("th", { class: "facts-head number", scope: "col" }, "Tokens");
    const used = h("th", { class: "facts-head number", scope: "col" }, "Used");
    const table = h(
      "table",
      { class: "board" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h(
            "th",
            { scope: "col" },
            `${format.plural(
              state.categories.reduce((sum, each) => sum + each.tools.length, 0),
              "tool",
            )}`,
          ),
          facts,
          used,
          profiles.map((profile) => profileHead(state, profile)),
        ),
      ),
      !wanted &&
        h(
          "tbody",
          { class: "group" },
          h(
            "tr",
            {},
            h("th", { scope: "rowgroup" }, h("span", { class: "category-name" }, "By effect")),
            h("td", { class: "fact" }),
            h("td", { class: "fact" }),
            profiles.map((profile) => h("td", { class: active(state, profile) })),
          ),
          state.effects.map((effect) => effectRow(state, profiles, effect)),
        ),
      categories.map((category) => categoryBody(state, profiles, category)),
    );
    fill(
      board,
      table,
      categories.length === 0 &&
        empty("search", "No tool fits", `Nothing is called or described like “${searchInput.value.trim()}”.`),
    );
  }

  const active = (state, profile) => (profile.id === state.active ? "is-active" : "");

  function profileHead(state, profile) {
    const isActive = profile.id === state.active;
    return h(
      "th",
      { scope: "col", class: active(state, profile) },
      h(
        "div",
        { class: "profile-head" },
        h(
          "span",
          { class: "profile-name" },
          h("span", { class: "clip", title: profile.id }, profile.label),
          profileMenu(profile, isActive),
        ),
        h(
          "span",
          { class: "small muted nowrap" },
          `${profile.visible.length} on · ${format.count(profile.tokens)} tokens`,
        ),
        !profile.enabled
          ? button("Switch on", () => change("profiles/update", { profile: profile.id, enabled: true }), {
              kind: "tiny",
            })
          : isActive
            ? h("span", { class: "chip accent" }, icon("check", 13), state.pinned ? "Active (pinned)" : "Active")
            : button(
                "Make active",
                () => change("profiles/use", { profile: profile.id }, `${profile.label} is active`),
                {
                  kind: "tiny",
                  disabled: state.pinned,
                  aria: { label: `Make ${profile.label} active` },
                },
              ),
      ),
    );
  }

  function profileMenu(profile, isActive) {
    const inFile = !profile.shipped;
    const act = (work) => () => {
      menu.open = false;
      work();
    };
    const menu = h(
      "details",
      {
        class: "menu",
        data: { key: `menu-${profile.id}` },
        on: {
          toggle: () => {
            if (menu.open) closeOnOutside(menu);
          },
        },
      },
      h(
        "summary",
        { class: "button ghost tiny", role: "button", aria: { label: `More for ${profile.label}` } },
        icon("more", 16),
      ),
      h(
        "div",
        { class: "menu-list" },
        button(
          "Duplicate…",
          act(async () => {
            const answer = await app.ask({
              title: `Duplicate ${profile.label}`,
              fields: [{ name: "label", label: "Name of the copy", value: `${profile.label} copy`, maxLength: 80 }],
              action: "Duplicate",
            });
            if (!answer) return;
            await change("profiles/create", { from: profile.id, label: answer.label }, `Created ${answer.label}`);
          }),
          { icon: "copy" },
        ),
        button(
          "Rename…",
          act(async () => {
            const answer = await app.ask({
              title: `Rename ${profile.label}`,
              text: `Its id stays ${profile.id}: tokens and addresses name it.`,
              fields: [{ name: "label", label: "Name", value: profile.label, maxLength: 80 }],
              action: "Rename",
            });
            if (answer)
              await change(
                "profiles/update",
                { profile: profile.id, label: answer.label },
                `It is called ${answer.label} now`,
              );
          }),
        ),
        button(
          profile.enabled ? "Switch the profile off" : "Switch the profile on",
          act(() => change("profiles/update", { profile: profile.id, enabled: !profile.enabled })),
        ),
        inFile &&
          button(
            profile.builtin ? "Reset to built-in…" : "Delete…",
            act(async () => {
              const title = profile.builtin ? `Reset ${profile.label}?` : `Delete ${profile.label}?`;
              const text = profile.builtin
                ? "Its switches and rules become those that it was shipped with."
                : "Clients whose token names it will see no tools.";
              if (await app.ask({ title, text, action: profile.builtin ? "Reset" : "Delete", kind: "danger" }))
                await change(
                  "profiles/delete",
                  { profile: profile.id },
                  profile.builtin ? `${profile.label} is reset` : `${profile.label} is deleted`,
                );
            }),
            { kind: "danger", disabled: isActive, title: isActive ? "Make another profile active first" : undefined },
          ),
      ),
    );
    return menu;
  }

  function effectRow(state, profiles, effect) {
    const tools = state.categories.flatMap((each) => each.tools).filter((tool) => tool.effect === effect);
    return h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        h("span", { class: "effect-name" }, h("span", { class: `chip ${effect}` }, effect), EFFECTS[effect]),
      ),
      h("td", { class: "fact" }),
      h("td", { class: "fact" }, format.plural(tools.length, "tool")),
      profiles.map((profile) => {
        const hasTool = hasToolOn(profile, tools);
        const label = `${EFFECTS[effect]} in ${profile.label}`;
        const set = (enabled) => switchGroup(profile, { effects: [effect], enabled }, enabled && !hasTool ? tools : []);
        const data = { key: `effect-${effect}-${profile.id}` };
        return h(
          "td",
          { class: active(state, profile) },
          withAsk(
            toggle(hasTool && profile.effects[effect], label, set, { data }),
            profile.asks.effects.includes(effect),
            hasTool && profile.effects[effect],
            label,
            { profile: profile.id, effects: [effect] },
          ),
        );
      }),
    );
  }

  function categoryBody(state, profiles, category) {
    const tokens = category.tools.reduce((sum, tool) => sum + tool.tokens, 0);
    const mount = state.mounts[category.id];
    return h(
      "tbody",
      { class: "group" },
      h(
        "tr",
        {},
        h(
          "th",
          { scope: "rowgroup" },
          h(
            "span",
            { class: "row" },
            h("span", { class: "category-name" }, category.label),
            h("span", { class: "small muted" }, format.plural(category.tools.length, "tool")),
            mount && h("span", { class: `chip ${mount.state === "failed" ? "bad" : ""}` }, `mounted · ${mount.state}`),
          ),
        ),
        h("td", { class: "fact" }, format.count(tokens)),
        h("td", { class: "fact" }),
        profiles.map((profile) => {
          const hasTool = hasToolOn(profile, category.tools);
          const isOn = hasTool && (profile.categories[category.id] ?? true);
          return h(
            "td",
            { class: active(state, profile) },
            withAsk(
              toggle(
                isOn,
                `${category.label} in ${profile.label}`,
                (enabled) =>
                  switchGroup(profile, { targets: [category.id], enabled }, enabled && !hasTool ? category.tools : []),
                {
                  class: `switch ${profile.enabled ? "" : "overruled"}`,
                  data: { key: `category-${category.id}-${profile.id}` },
                },
              ),
              profile.asks.categories.includes(category.id),
              isOn,
              `${category.label} in ${profile.label}`,
              { profile: profile.id, target: category.id },
            ),
          );
        }),
      ),
      category.id === "shell" && profiles.map((profile) => leftoverRow(state, profile, profiles.length + 3)),
      category.found.map((tool) => toolRow(state, profiles, category, tool)),
    );
  }

  function toolRow(state, profiles, category, tool) {
    return h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        h("span", { class: "tool-name" }, tool.name, h("span", { class: `chip ${tool.effect}` }, tool.effect)),
        toolText(tool),
      ),
      h("td", { class: "fact" }, format.count(tool.tokens)),
      h("td", { class: "fact" }, tool.used ? `${format.short(tool.used)}×` : "–"),
      profiles.map((profile) => {
        const isOn = profile.on.includes(tool.name);
        const isOverruled = isOn && !profile.visible.includes(tool.name);
        const label = `${tool.name} in ${profile.label}${isOverruled ? ", off by a switch above it" : ""}`;
        return h(
          "td",
          { class: active(state, profile) },
          withAsk(
            toggle(isOn && !isOverruled, label, () => switchTool(profile, tool.name, !isOn), {
              class: `switch ${isOverruled ? "overruled" : ""}`,
              title: isOverruled ? "Off by a switch above it, and on again with that" : undefined,
              data: { key: `tool-${tool.name}-${profile.id}` },
            }),
            profile.asks.tools.includes(tool.name),
            isOn && !isOverruled,
            `${tool.name} in ${profile.label}`,
            { profile: profile.id, target: tool.name },
            profile.asks.effects.includes(tool.effect) || profile.asks.categories.includes(category.id),
          ),
        );
      }),
    );
  }

  function paintRules(state, profiles) {
    if (rules.contains(document.activeElement) && ["INPUT", "TEXTAREA"].includes(document.activeElement?.tagName ?? ""))
      return;
    const profile = state.profiles.find((each) => each.id === ruleProfile) ?? profiles[0];
    fill(
      rules,
      h(
        "header",
        {},
        h("div", { class: "row" }, icon("shield", 20), h("h2", {}, "Deny rules")),
        h(
          "div",
          { class: "row" },
          h("span", { class: "small muted" }, "of the profile"),
          select(
            state.profiles.map((each) => [each.id, each.label]),
            profile.id,
            (id) => {
              ruleProfile = id;
              paint();
            },
            { aria: { label: "Profile of the rules" } },
          ),
        ),
      ),
      h(
        "div",
        { class: "body stack" },
        h(
          "p",
          { class: "note" },
          "Rules stop mistakes, not attackers: a client that may run commands can reach whatever your user can. " +
            "What a client must not reach belongs on another machine, or in a container.",
        ),
        h(
          "div",
          { class: "rules" },
          ruleList(profile, "paths", "Paths", "Globs such as .env* or ~/.ssh; a ! in front makes an exception."),
          ruleList(profile, "commands", "Commands", "Regular expressions such as git push .*--force."),
        ),
      ),
    );
  }

  function ruleList(profile, kind, title, hint) {
    const found = profile.deny[kind];
    const probe = h("input", {
      class: "input",
      placeholder: kind === "paths" ? "~/project/.env" : "git push --force",
      aria: { label: kind === "paths" ? "Path to try" : "Command to try" },
    });
    const verdict = h("div", { role: "status" });
    const tryIt = async (event) => {
      event.preventDefault();
      if (!probe.value.trim()) return;
      const answer = await app.attempt(() => post("rules/try", { profile: profile.id, kind, text: probe.value }));
      if (!answer) return;
      const why = answer.rule
        ? `Denied by the rule ${answer.rule}: ${answer.reason}. It matches ${answer.matched}`
        : answer.message;
      fill(
        verdict,
        h(
          "p",
          { class: `note break ${answer.denied ? "bad" : "good"}` },
          answer.denied ? why : `No rule of ${profile.label} is against ${answer.text}`,
        ),
      );
    };
    return h(
      "section",
      { class: "stack" },
      h(
        "div",
        { class: "row between" },
        h("h3", {}, title),
        button("Add a rule", () => addRule(profile, kind, hint), {
          icon: "plus",
          kind: "tiny",
          aria: { label: `Add a rule for ${kind}` },
        }),
      ),
      found.length === 0
        ? h("p", { class: "muted small" }, `No rule. ${hint}`)
        : h(
            "div",
            {},
            found.map((rule) =>
              h(
                "div",
                { class: "rule" },
                h(
                  "div",
                  { class: "grow" },
                  h(
                    "div",
                    { class: "row" },
                    h("strong", {}, rule.id),
                    rule.patterns.map((pattern) => h("code", { class: "chip break" }, pattern)),
                  ),
                  h("p", { class: "small muted" }, rule.reason),
                ),
                button(
                  "",
                  async () => {
                    if (
                      await app.ask({
                        title: `Remove the rule ${rule.id}?`,
                        text: rule.reason,
                        action: "Remove",
                        kind: "danger",
                      })
                    )
                      await change(
                        "rules/remove",
                        { profile: profile.id, kind, id: rule.id },
                        `The rule ${rule.id} is gone`,
                      );
                  },
                  { icon: "close", kind: "ghost", label: `Remove the rule ${rule.id}` },
                ),
              ),
            ),
          ),
      h(
        "form",
        { class: "row", on: { submit: tryIt } },
        h("div", { class: "grow" }, probe),
        h("button", { class: "button", type: "submit" }, "Try"),
      ),
      verdict,
    );
  }

  async function addRule(profile, kind, hint) {
    const pattern = h("textarea", { class: "input", required: true, name: "pattern" });
    const answer = await app.ask({
      title: kind === "paths" ? `Deny paths in ${profile.label}` : `Deny commands in ${profile.label}`,
      fields: [
        { name: "id", label: "Name of the rule", hint: "A refusal names it." },
        { name: "pattern", label: "Patterns, one a line", input: pattern, hint },
        { name: "reason", label: "Reason", hint: "The model reads it." },
      ],
      action: "Add",
    });
    if (answer)
      await change("rules/add", { profile: profile.id, kind, ...answer }, `The rule ${answer.id} is in force`);
  }

  app.watch(["board"], paint);
  const query = matchMedia("(max-width: 860px)");
  query.addEventListener("change", paint);
  return () => query.removeEventListener("change", paint);
}

/** The first line of what a tool is for; the rest comes at a press. Nothing that only points may move a switch. */
function toolText(tool) {
  const text = h(
    "span",
    { class: "tool-text", title: tool.description, on: { click: () => text.classList.toggle("whole") } },
    tool.description,
  );
  return text;
}

/** Whether one of the tools is on by its own switch; a group without tools is as its switch says. */
function hasToolOn(profile, tools) {
  return tools.length === 0 || tools.some((tool) => profile.on.includes(tool.name));
}

/** Whether the preset would leave its clients without a tool. */
function lacksBrowser(state, preset) {
  return (
    preset.id === "browser-only" && !state.categories.some((each) => each.id === "browser" && each.tools.length > 0)
  );
}

/** The tools that still run something in a profile whose shell tools its owner has switched off. */
function stillExecuting(state, profile) {
  const shell = state.categories.find((each) => each.id === "shell")?.tools ?? [];
  const hasShell = shell.some((tool) => profile.visible.includes(tool.name));
  if (hasShell || profile.shipped || shell.length === 0) return [];
  const others = state.categories.flatMap((each) => each.tools).filter((tool) => tool.effect === "execute");
  return others.map((tool) => tool.name).filter((name) => profile.visible.includes(name));
}

/** Whether every switch is as the preset sets it. */
function isAsShipped(state, profile, preset) {
  if (!profile?.enabled || Object.values(profile.effects).includes(false) || profile.asks.tools.length > 0)
    return false;
  const all = state.categories.flatMap((category) => category.tools.map((tool) => [category.id, tool.name]));
  const wanted = all.filter(([category]) => preset === "full-access" || category === "browser").map(([, name]) => name);
  return wanted.length === profile.visible.length && wanted.every((name) => profile.visible.includes(name));
}

/** Paint anew, and leave the keyboard where it was. */
function keepFocus(root, paint) {
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  const key = root.contains(focused) ? focused?.dataset.key : undefined;
  const scroll = root.querySelector(".board-card")?.scrollLeft;
  const open = root.querySelector("details[open]")?.dataset.key;
  paint();
  if (open) root.querySelector(`details[data-key="${CSS.escape(open)}"]`)?.setAttribute("open", "");
  // Without scrolling: what has the focus may be far from what its person is about to press.
  if (key) root.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  if (scroll) root.querySelector(".board-card").scrollLeft = scroll;
}

function closeOnOutside(menu) {
  const close = (event) => {
    if (event.type === "keydown" ? event.key !== "Escape" : menu.contains(event.target)) return;
    menu.open = false;
    document.removeEventListener("pointerdown", close);
    document.removeEventListener("keydown", close);
  };
  document.addEventListener("pointerdown", close);
  document.addEventListener("keydown", close);
}
