// Boxes, on a gateway: all machines of the fleet; and one of them, with its sessions, files, calls and facts.

import { get, hasCode } from "../api.js";
import { boxSessions } from "../box_sessions.js";
import { button, empty, fill, h, icon, table, tile } from "../dom.js";
import { mountFiles } from "../file_browser.js";
import * as format from "../format.js";
import { repeat } from "../timing.js";

const REFRESH_MS = 3_000;
const MOST_CALLS = 200;
const TABS = [
  ["sessions", "Sessions"],
  ["files", "Files"],
  ["activity", "Activity"],
  ["health", "Health"],
];

export default { id: "boxes", mount };

/**
 * @param {HTMLElement} root
 * @param {App} app
 */
function mount(root, app) {
  const [name, tab] = app.rest();
  return name ? showBox(root, app, name, TABS.some(([id]) => id === tab) ? tab : "sessions") : showList(root);
}

function showList(root) {
  const search = h("input", {
    class: "input",
    type: "search",
    placeholder: "Filter: name, label, folder",
    aria: { label: "Filter the boxes" },
    on: { input: () => load() },
  });
  const summary = h("p", { role: "status" });
  const list = h("div", { class: "card box-list" });
  fill(
    root,
    h(
      "div",
      { class: "page-head" },
      h("div", {}, h("h1", {}, "Boxes"), summary),
      h("div", { class: "search" }, icon("search", 16), search),
    ),
    list,
  );
  let turn = 0;

  async function load() {
    const mine = ++turn;
    try {
      const found = await get("boxes", { text: search.value.trim() });
      if (mine === turn) paint(found);
    } catch {
      // The connection says so already.
    }
  }

  function paint(found) {
    const all = format.plural(found.total, "box", "boxes");
    const away = found.away ? `, ${found.away} not heard of for ${found.away_s} s` : "";
    summary.textContent = `${all} in the fleet of the gateway ${found.gateway}${away}.`;
    if (found.boxes.length === 0) {
      fill(
        list,
        search.value.trim()
          ? empty("box", "No box fits", "Try another word: of a name, a label or a folder.")
          : empty(
              "box",
              "No box yet",
              "A machine joins with mcp-agent serve --fleet and the address of NATS. docs/fleet.md has the steps.",
            ),
      );
      return;
    }
    fill(
      list,
      h(
        "div",
        { class: "box-row box-head small muted", aria: { hidden: "true" } },
        ["Box", "Labels", "Load", "Sessions", "Calls", "Folder", "Version", "Heard of"].map((text) =>
          h("span", {}, text),
        ),
      ),
      found.boxes.map((box) =>
        h(
          "a",
          {
            class: `box-row ${box.away ? "is-away" : ""}`,
            href: `#/boxes/${encodeURIComponent(box.name)}/sessions`,
            data: { box: box.name },
          },
          h(
            "span",
            { class: "row tight box-name" },
            presence(box),
            h("strong", { class: "clip" }, box.name),
            box.away && h("span", { class: "chip bad" }, "away"),
          ),
          h("span", { class: "row tight box-labels" }, labels(box)),
          h("span", { class: "box-load", title: "Load of the last minute" }, fact("Load"), box.load.toFixed(2)),
          h("span", { class: "box-sessions" }, fact("Sessions"), format.count(box.sessions)),
          h("span", { class: "box-calls" }, fact("Calls"), format.count(box.calls)),
          h("span", { class: "mono small clip box-folder", title: box.directory }, box.directory),
          h("span", { class: "small muted box-version" }, box.version),
          h("span", { class: "small muted nowrap box-heard" }, heard(box)),
        ),
      ),
      found.found > found.boxes.length &&
        h("p", { class: "muted body" }, `${format.count(found.found - found.boxes.length)} more: filter them.`),
    );
  }

  return repeat(load, REFRESH_MS);
}

function showBox(root, app, name, tab) {
  const state = h("div", { class: "row" });
  const body = h("div", { class: "stack box-body" });
  fill(
    root,
    h(
      "div",
      { class: "page-head" },
      h(
        "div",
        { class: "stack tight" },
        h("a", { class: "row tight small", href: "#/boxes" }, icon("left", 14), "All boxes"),
        h("h1", {}, name),
        state,
      ),
      h(
        "nav",
        { class: "tabs", aria: { label: `Views of ${name}` } },
        TABS.map(([id, text]) =>
          button(text, () => app.go(`boxes/${encodeURIComponent(name)}/${id}`), {
            aria: { pressed: String(id === tab) },
          }),
        ),
      ),
    ),
    body,
  );
  let box;
  const onBox = [];
  const endFacts = repeat(async () => {
    try {
      box = await get(`boxes/${encodeURIComponent(name)}`);
      fill(state, presence(box), h("span", { class: "small muted nowrap" }, heard(box)), labels(box));
      for (const paint of onBox) paint(box);
    } catch (error) {
      if (hasCode(error, "NOT_FOUND"))
        fill(state, h("span", { class: "dot bad" }), h("span", {}, "This box has left the fleet."));
    }
  }, REFRESH_MS);
  const parts = { sessions: boxSessions, files: boxFiles, activity: boxActivity, health: boxHealth };
  const part =
    parts[tab](body, app, name, (paint) => {
      onBox.push(paint);
      if (box) paint(box);
    }) ?? {};
  return {
    leave() {
      endFacts();
      part.leave?.();
    },
    update: ([otherName, otherTab, ...rest]) => otherName === name && otherTab === tab && part.update?.(rest),
  };
}

function boxFiles(body, app, name, onBox) {
  const place = h("div", { class: "stack" });
  fill(
    body,
    h(
      "p",
      { class: "muted" },
      "As the tools see them, under the rules of the box. Images, downloads and artifacts are shown on the page of " +
        "the box itself; box_copy brings a file to another box.",
    ),
    place,
  );
  let files;
  onBox((box) => {
    const base = `#/boxes/${encodeURIComponent(name)}/files`;
    files ??= mountFiles(place, app, { base, parts: app.rest().slice(2), box: name, start: box.directory });
  });
  return {
    leave: () => files?.leave(),
    update(parts) {
      files?.update(parts);
      return true;
    },
  };
}

function boxActivity(body, app, name) {
  const place = h("div", { class: "card scroll-x box-log" });
  fill(
    body,
    h(
      "p",
      { class: "muted" },
      "Calls that this gateway has sent there. The box has a log of its own, with the calls of other gateways and of " +
        "its own clients too: ",
      h("code", {}, "mcp-agent audit"),
      " on the box shows it.",
    ),
    place,
  );
  app.watch(["lines"], () => {
    const lines = app.store.state.lines.filter((line) => line.box === name).slice(0, MOST_CALLS);
    if (lines.length === 0) {
      fill(place, empty("activity", "No call yet", "As soon as a client calls a tool there, it is listed here."));
      return;
    }
    fill(
      place,
      table(
        ["Time", "Tool", "Caller", "Outcome", "#Took"],
        lines.map((line) => [
          h("span", { class: "nowrap muted" }, format.clock(line.at)),
          h("span", { class: "mono" }, line.tool),
          [line.client, line.program].filter(Boolean).join(" · "),
          h("span", { class: `chip ${line.outcome === "ok" ? "good" : "bad"}` }, line.outcome),
          h("span", { class: "muted nowrap" }, format.duration(line.ms)),
        ]),
      ),
    );
  });
}

function boxHealth(body, _app, name, onBox) {
  const facts = h("div", { class: "stack" });
  fill(
    body,
    facts,
    h(
      "section",
      { class: "card" },
      h("header", {}, h("h2", {}, "Only at the box itself")),
      h(
        "div",
        { class: "body stack" },
        h(
          "p",
          {},
          "A gateway sees of a box what the box lets gateways do. Its switches, deny rules, tokens, changed files, " +
            "artifacts, limits and the calls of others are on its own Tools page:",
        ),
        h("pre", { class: "command" }, `ssh ${name} mcp-agent open`),
      ),
    ),
  );
  onBox((box) => {
    const byCategory = group(box.tools);
    fill(
      facts,
      h(
        "div",
        { class: "tiles" },
        tile("State", h("span", { class: "row" }, presence(box), box.away ? "Away" : "There"), heard(box)),
        tile("Load", box.load.toFixed(2), "of the last minute"),
        tile(
          "Runs",
          format.plural(box.sessions, "session"),
          `${format.plural(box.calls, "call")} of gateways under way`,
        ),
        tile("Version", box.version, `start ${box.boot}`),
        tile("Folder", h("span", { class: "mono break box-path" }, box.directory), "relative paths count from here"),
      ),
      h(
        "section",
        { class: "card" },
        h("header", {}, h("h2", {}, "Tools that gateways may use there")),
        h(
          "div",
          { class: "body stack" },
          [...byCategory].map(([category, tools]) =>
            h(
              "div",
              { class: "stack tight" },
              h("h3", { class: "small muted" }, category),
              h(
                "div",
                { class: "box-tools" },
                tools.map((each) => h("span", { class: `chip ${each.effect}` }, each.name)),
              ),
            ),
          ),
        ),
      ),
    );
  });
}

function group(tools) {
  const found = new Map();
  for (const each of tools) found.set(each.category ?? "other", [...(found.get(each.category ?? "other") ?? []), each]);
  return found;
}

function presence(box) {
  return h("span", { class: `dot ${box.away ? "bad" : "good"}`, title: box.away ? "Away" : "There" });
}

function heard(box) {
  return box.away
    ? `not heard of for ${format.age(box.heard_s)}`
    : `heard of ${box.heard_s < 1.5 ? "just now" : `${Math.round(box.heard_s)} s ago`}`;
}

function labels(box) {
  return Object.entries(box.labels).map(([key, value]) => h("span", { class: "chip accent" }, `${key}=${value}`));
}

function fact(text) {
  return h("span", { class: "box-fact small muted" }, text);
}
