// The frame of the page: navigation, the view that is open, messages, dialogs, and the login.

import { ApiError, explain, get, logOut } from "./api.js";
import { approvalBanner, wantsNotifications } from "./approvals.js";
import { button, field, fill, h, icon, select } from "./dom.js";
import { loginView } from "./login.js";
import { readSetting, writeSetting } from "./settings.js";
import { createStore } from "./store.js";
import { createStream } from "./stream.js";

// A slow hand on a slow machine; only a pointer whose release never comes waits for it.
const LONGEST_PRESS_MS = 10_000;
const FIRST_VIEW = ["tools", "Tools", "tools"];
const VIEWS = [
  ["boxes", "Boxes", "box"],
  FIRST_VIEW,
  ["sessions", "Sessions", "sessions"],
  ["activity", "Activity", "activity"],
  ["changes", "Files changed", "changes"],
  ["files", "Files", "files"],
  ["try", "Try", "try"],
  ["connect", "Connect", "connect"],
  ["health", "Health", "health"],
];

// On a gateway, views that a box has, too; and those that only a box has: there the tools of a gateway work.
const PER_BOX = ["sessions", "files", "activity", "health"];
const ONLY_ON_BOXES = ["sessions", "files"];
const NOT_ON_GATEWAYS = ["changes"];

const THEME_KEY = "mcp-agent-theme";

function start(root) {
  applyTheme(readSetting(THEME_KEY));
  const store = createStore();
  const stream = createStream(store, undefined, listensAlone());
  const main = h("main", { id: "main", tabIndex: -1 });
  const nav = h("nav", { class: "nav", aria: { label: "Views" } });
  const state = h("div", { class: "connection", role: "status" });
  const toasts = h("div", { class: "toasts", role: "status", aria: { live: "polite" } });
  const problems = h("div", { class: "banners" });
  const banner = approvalBanner(
    /** @type {any} */ ({
      store,
      say: (text, kind) => say(toasts, text, kind),
      ask,
      attempt: (work, done) => app.attempt(work, done),
    }),
  );
  fill(
    root,
    h(
      "div",
      { class: "frame" },
      h(
        "header",
        { class: "side" },
        h(
          "a",
          { class: "brand", href: "#/tools" },
          h("img", { src: "/ui/icon.svg", alt: "", width: 26, height: 26 }),
          h("span", {}, "mcp-agent"),
        ),
        nav,
        h(
          "div",
          { class: "side-foot" },
          state,
          banner.buttons,
          themeButton(),
          button("", () => leave(), { icon: "close", label: "Log this browser out", kind: "ghost" }),
        ),
      ),
      h("div", { class: "content" }, banner.element, problems, main),
    ),
    toasts,
  );

  let current;
  let leaveView = () => {};
  let opening = 0;
  const app = {
    store,
    stream,
    say: (text, kind) => say(toasts, text, kind),
    ask: (options) => ask(options),
    copy: async (text) => {
      try {
        await navigator.clipboard.writeText(text);
        app.say("Copied");
      } catch {
        // Browsers have a clipboard for pages of this machine and for https alone.
        app.say("The browser does not let the page copy", "bad");
      }
    },
    attempt: async (work, done) => {
      try {
        const answer = await work();
        if (done) app.say(done);
        return answer;
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) store.set("connection", "out");
        app.say(explain(error), "bad");
        return undefined;
      }
    },
    watch: () => {},
    go: (path) => {
      location.hash = `#/${path}`;
    },
    rest: () => location.hash.replace(/^#\//, "").split("/").slice(1).map(decodeURIComponent),
  };

  const isOut = () => store.state.connection === "out";

  let title = "mcp-agent";
  function paintTitle() {
    const count = store.state.approvals?.length ?? 0;
    document.title = count > 0 ? `(${count}) ${title}` : title;
  }

  async function route() {
    const id = location.hash.replace(/^#\//, "").split("/")[0] || "tools";
    const found = VIEWS.find(([name]) => name === id) ?? FIRST_VIEW;
    for (const link of nav.children) link.toggleAttribute("aria-current", false);
    const link = nav.querySelector(`[data-id="${found[0]}"]`);
    link?.setAttribute("aria-current", "page");
    // On a phone the views are a row that is wider than the screen.
    link?.scrollIntoView({ block: "nearest", inline: "center" });
    title = `${found[1]} · mcp-agent`;
    paintTitle();
    if (isOut()) return;
    if (id === "ask") {
      // It opens the page at a question. The answer is a click.
      banner.show(app.rest()[0]);
      history.replaceState(null, "", `#/${found[0]}`);
    }
    if (current?.id === found[0] && current.update?.(app.rest())) return;
    const turn = ++opening;
    if (store.state.gateway && ONLY_ON_BOXES.includes(found[0])) {
      leaveView();
      current = undefined;
      fill(
        main,
        h(
          "div",
          { class: `view view-${found[0]}` },
          h(
            "div",
            { class: "page-head" },
            h("div", {}, h("h1", {}, found[1]), h("p", {}, "They are on the boxes of the fleet: choose one.")),
          ),
          boxBar(found[0]),
        ),
      );
      return;
    }
    const view = (await import(`./views/${found[0]}.js`)).default;
    if (turn !== opening || isOut()) return;
    leaveView();
    const ends = [];
    const mine = {
      ...app,
      watch: (keys, paint) => {
        ends.push(store.watch(keys, paint));
        paint(new Set(keys));
      },
      onLeave: (end) => ends.push(end),
    };
    const page = h("div", { class: `view view-${found[0]}` });
    fill(
      main,
      PER_BOX.includes(found[0]) && store.state.gateway && h("div", { class: "view box-place" }, boxBar(found[0])),
      page,
    );
    leaveView = () => {
      for (const end of ends.splice(0)) end();
    };
    const made = view.mount(page, mine);
    const { leave, update } = typeof made === "function" ? { leave: made, update: undefined } : (made ?? {});
    if (leave) ends.push(leave);
    current = { id: view.id, update };
  }

  /** On a gateway: whose sessions, files, calls and state the view shows, and the way to those of a box. */
  function boxBar(id) {
    const bar = h("div", { class: "box-bar", hidden: true });
    async function paint() {
      const { boxes } = await get("boxes").catch(() => ({ boxes: [] }));
      bar.hidden = false;
      const first = ONLY_ON_BOXES.includes(id) ? "Choose a box" : `${store.state.gateway} (this gateway)`;
      const names = [["", first], ...boxes.map((box) => [box.name, box.away ? `${box.name} (away)` : box.name])];
      fill(
        bar,
        icon("box", 18),
        select(names, "", (name) => name && app.go(`boxes/${encodeURIComponent(name)}/${id}`), {
          aria: { label: "Box" },
        }),
      );
    }
    paint();
    return bar;
  }

  function paintNav() {
    const current = nav.querySelector("[aria-current]")?.dataset.id;
    fill(
      nav,
      VIEWS.filter(([id]) => (store.state.gateway ? !NOT_ON_GATEWAYS.includes(id) : id !== "boxes")).map(
        ([id, title, name]) =>
          h(
            "a",
            { href: `#/${id}`, data: { id }, aria: { current: id === current ? "page" : undefined } },
            icon(name),
            h("span", {}, title),
          ),
      ),
    );
  }

  async function leave() {
    await logOut().catch(() => {});
    store.set("connection", "out");
  }

  function paintConnection() {
    const { connection } = store.state;
    const texts = { connecting: "Connecting…", live: "Live", lost: "Reconnecting…", out: "Logged out" };
    fill(state, h("span", { class: `dot ${connection}` }), h("span", { class: "connection-text" }, texts[connection]));
    document.body.dataset.connection = connection;
    if (connection === "out") {
      leaveView();
      current = undefined;
      stream.close();
      store.set("approvals", []);
      fill(main, loginView());
    }
  }

  function paintProblems() {
    const board = store.state.board;
    const errors = (board?.problems ?? []).filter((problem) => problem.severity === "error");
    fill(
      problems,
      errors.length > 0 &&
        h(
          "section",
          { class: "banner bad", role: "alert" },
          icon("alert", 20),
          h(
            "div",
            {},
            h("strong", {}, "tools.json has a mistake. The last good configuration stays in force."),
            h("p", { class: "mono small" }, board?.path),
            h(
              "ul",
              {},
              errors.map((problem) => h("li", {}, h("code", {}, problem.pointer || "/"), " ", problem.message)),
            ),
          ),
        ),
    );
  }

  // An address of its own would lead to another view.
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  paintNav();
  store.watch(["gateway"], () => {
    paintNav();
    if (store.state.gateway) {
      current = undefined;
      route();
    }
  });
  store.watch(["connection"], paintConnection);
  store.watch(["board"], paintProblems);
  store.watch(["approvals"], paintTitle);
  paintConnection();
  window.addEventListener("hashchange", route);
  // The click comes behind the release of the pointer; a pointer that stays down holds nothing up for long. One timer:
  // that of an earlier press would end the hold of a later one.
  let releasing;
  const releaseIn = (ms) => {
    clearTimeout(releasing);
    releasing = setTimeout(store.release, ms);
  };
  window.addEventListener(
    "pointerdown",
    () => {
      store.hold();
      releaseIn(LONGEST_PRESS_MS);
    },
    true,
  );
  for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, () => releaseIn(0), true);
  route();
  stream.run();
}

/** Of the tabs that are hidden, one hears of calls that wait: a browser has six connections to a daemon. */
function listensAlone() {
  let isFirst = false;
  navigator.locks?.request("mcp-agent-notify", () => {
    isFirst = true;
    return new Promise(() => {});
  });
  return () => isFirst && wantsNotifications();
}

function themeButton() {
  const name = () => (isDark() ? "sun" : "moon");
  const element = button(
    "",
    () => {
      const next = isDark() ? "light" : "dark";
      writeSetting(THEME_KEY, next);
      applyTheme(next);
      element.replaceChildren(icon(name(), 16));
    },
    { icon: name(), label: "Light or dark", kind: "ghost" },
  );
  return element;
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function applyTheme(theme) {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}

function say(toasts, text, kind = "good") {
  const toast = h("div", { class: `toast ${kind}` }, icon(kind === "bad" ? "alert" : "check", 16), h("span", {}, text));
  const close = button("", () => toast.remove(), { icon: "close", label: "Close", kind: "ghost" });
  toast.append(close);
  toasts.append(toast);
  while (toasts.children.length > 4) toasts.firstChild.remove();
  setTimeout(() => toast.remove(), kind === "bad" ? 12_000 : 4_000);
}

/** A dialog with fields. Resolves to their values, or undefined if it was closed. */
function ask({ title, text, fields = [], action = "OK", kind = "primary" }) {
  return new Promise((resolve) => {
    const inputs = fields.map((each) => [
      each.name,
      each.input ??
        h("input", {
          class: "input",
          value: each.value ?? "",
          required: each.required ?? true,
          maxLength: each.maxLength ?? 200,
          name: each.name,
          autocomplete: "off",
        }),
      each,
    ]);
    const dialog = h(
      "dialog",
      {
        class: "dialog",
        aria: { label: title },
        on: {
          close: () => {
            dialog.remove();
            resolve(undefined);
          },
        },
      },
      h(
        "form",
        {
          method: "dialog",
          on: {
            submit: (event) => {
              event.preventDefault();
              resolve(Object.fromEntries(inputs.map(([name, input]) => [name, input.value])));
              dialog.close();
            },
          },
        },
        h("h2", {}, title),
        text && h("p", { class: "muted" }, text),
        inputs.map(([, input, each]) => field(each.label, input, each.hint)),
        h(
          "div",
          { class: "row end" },
          button("Cancel", () => dialog.close()),
          h("button", { class: `button ${kind}`, type: "submit" }, action),
        ),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
    inputs[0]?.[1].focus();
    inputs[0]?.[1].select?.();
  });
}

start(document.getElementById("app"));
