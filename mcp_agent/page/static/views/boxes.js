// Boxes, on a gateway: all machines of the fleet; and one of them, with its sessions, files, calls and facts.

import { explain, get, hasCode, post } from "../api.js";
import { button, empty, fill, h, icon } from "../dom.js";
import { mountFiles } from "../file_browser.js";
import * as format from "../format.js";
import { createTerminal } from "../terminal.js";

const REFRESH_MS = 3_000;
const OUTPUT_MS = 700;
const TAIL_BYTES = 48 * 1024;
const MOST_CALLS = 200;
const TABS = [
  ["sessions", "Sessions"],
  ["files", "Files"],
  ["activity", "Activity"],
  ["health", "Health"],
];

export default { id: "boxes", mount };

const call = (tool, args) => post("call", { tool, arguments: args });

/**
 * @param {HTMLElement} root
 * @param {App} app
 */
function mount(root, app) {
  const [name, tab] = app.rest();
  return name ? showBox(root, app, name, TABS.some(([id]) => id === tab) ? tab : "sessions") : showList(root);
}

/** Call `work` now and again a while after each time it has ended. Returns a function that ends it. */
function repeat(work, pauseMs) {
  let timer;
  let isOver = false;
  (async () => {
    while (!isOver) {
      await work();
      if (!isOver)
        await new Promise((resolve) => {
          timer = setTimeout(resolve, pauseMs);
        });
    }
  })();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
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
            dot(box),
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
      fill(state, dot(box), h("span", { class: "small muted nowrap" }, heard(box)), labels(box));
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

function boxSessions(body, app, name) {
  const list = h("div", { class: "session-list" });
  const place = h("div", { class: "panes", data: { count: 1 } });
  fill(
    body,
    h(
      "div",
      { class: "row between" },
      h(
        "p",
        { class: "muted" },
        "Looked at every few moments, by calls that the rules of the box allow. At the box itself they are live.",
      ),
      button("Start a session", () => start(), { icon: "plus", kind: "primary" }),
    ),
    list,
    place,
  );
  let opened;
  let pane;

  async function start() {
    const answer = await app.ask({
      title: `Start a session on ${name}`,
      fields: [
        {
          name: "command",
          label: "Command",
          value: "bash",
          maxLength: 4000,
          hint: "For sh -c; it runs until it ends, or you stop it.",
        },
        {
          name: "cwd",
          label: "Folder",
          required: false,
          maxLength: 4000,
          hint: "The working folder of the daemon there, if you leave it empty.",
        },
      ],
      action: "Start",
    });
    if (!answer) return;
    const session = await app.attempt(() =>
      call("shell_start_session", {
        box: name,
        command: answer.command,
        pty: true,
        ...(answer.cwd ? { cwd: answer.cwd } : {}),
      }),
    );
    if (!session) return;
    opened = session.session_id;
    await load();
  }

  async function load() {
    try {
      paint((await get(`boxes/${encodeURIComponent(name)}/sessions`)).sessions);
    } catch (error) {
      fill(list, h("p", { class: "note warn" }, explain(error)));
    }
  }

  function paint(sessions) {
    const sorted = [...sessions].sort((a, b) => b.running - a.running || b.started_at - a.started_at);
    opened ??= sorted.find((each) => each.running)?.id;
    fill(
      list,
      sorted.length === 0 &&
        h(
          "div",
          { class: "card" },
          empty("sessions", "No session", "Nothing runs there. Finished ones stay for an hour."),
        ),
      sorted.map((session) =>
        h(
          "button",
          {
            type: "button",
            class: "session-chip",
            aria: { pressed: String(session.id === opened) },
            title: session.command,
            data: { session: session.id },
            on: {
              click: () => {
                opened = session.id;
                paint(sessions);
              },
            },
          },
          h("span", { class: `dot ${session.running ? "live" : session.exit_code === 0 ? "" : "bad"}` }),
          h("span", { class: "mono clip" }, session.command),
          h("span", { class: "muted small nowrap" }, session.running ? "running" : `exit ${session.exit_code}`),
        ),
      ),
    );
    const session = sorted.find((each) => each.id === opened);
    if (session && pane?.id !== session.id) {
      pane?.dispose();
      pane = createPane(session, app, name);
      fill(place, pane.element);
    }
  }

  const end = repeat(load, REFRESH_MS);
  return {
    leave() {
      end();
      pane?.dispose();
    },
  };
}

function createPane(session, app, box) {
  let offset = -TAIL_BYTES;
  let terminal;
  let end = () => {};
  let isDisposed = false;
  const dotOf = h("span", { class: "dot" });
  const state = h("span", { class: "muted small nowrap" });
  const screen = h("div", { class: "screen", data: { session: session.id } });
  const input = h("input", {
    class: "input mono",
    placeholder: "Type a line, and Enter",
    autocomplete: "off",
    spellcheck: false,
    aria: { label: `Input for ${session.command}` },
  });
  const send = (text) => app.attempt(() => call("shell_send_input", { session_id: session.id, input: text }));
  const stop = button(
    "Stop",
    () => app.attempt(() => call("shell_stop_session", { session_id: session.id }), "The session has ended"),
    { kind: "tiny danger", icon: "stop" },
  );
  const element = h(
    "section",
    { class: "card pane", aria: { label: `Session ${session.command}` } },
    h(
      "header",
      { class: "pane-head" },
      h(
        "div",
        { class: "grow row pane-title" },
        dotOf,
        h("strong", { class: "mono clip", title: `${session.command}\nin ${session.cwd}` }, session.command),
        state,
      ),
      h("div", { class: "row tight" }, stop),
    ),
    screen,
    h(
      "form",
      {
        class: "pane-input",
        on: {
          submit: (event) => {
            event.preventDefault();
            send(`${input.value}\n`);
            input.value = "";
          },
        },
      },
      input,
      h("button", { class: "button", type: "submit" }, "Send"),
    ),
  );

  function paint(current) {
    dotOf.className = `dot ${current.running ? "live" : current.exit_code === 0 ? "" : "bad"}`;
    state.textContent = current.running ? `pid ${current.pid} on ${box}` : `exit ${current.exit_code}`;
    stop.disabled = input.disabled = !current.running;
  }

  async function read() {
    try {
      for (let isMore = true; isMore && !isDisposed; ) {
        const found = await get(`boxes/${encodeURIComponent(box)}/sessions/${encodeURIComponent(session.id)}`, {
          since: offset,
        });
        if (isDisposed) return;
        if (offset >= 0 && found.offset > offset)
          await terminal.write(`\r\n[${format.bytes(found.offset - offset)} of older output are gone]\r\n`);
        if (found.text) await terminal.write(found.text);
        offset = found.next_offset;
        isMore = Boolean(found.text) && offset < found.session.output_bytes;
        paint(found.session);
      }
    } catch (error) {
      state.textContent = explain(error);
    }
  }

  (async () => {
    const made = await createTerminal(screen, { isPty: session.pty });
    if (isDisposed) {
      made.dispose();
      return;
    }
    terminal = made;
    terminal.fit();
    end = repeat(read, OUTPUT_MS);
  })();
  paint(session);
  return {
    id: session.id,
    element,
    dispose() {
      isDisposed = true;
      end();
      terminal?.dispose();
    },
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
  const table = h("div", { class: "card scroll-x" });
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
    table,
  );
  app.watch(["lines"], () => {
    const lines = app.store.state.lines.filter((line) => line.box === name).slice(0, MOST_CALLS);
    if (lines.length === 0) {
      fill(table, empty("activity", "No call yet", "As soon as a client calls a tool there, it is listed here."));
      return;
    }
    fill(
      table,
      h(
        "table",
        { class: "table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Time", "Tool", "Caller", "Outcome", "Took"].map((text, index) =>
              h("th", { scope: "col", class: index === 4 ? "number" : "" }, text),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          lines.map((line) =>
            h(
              "tr",
              { class: "box-call" },
              h("td", { class: "nowrap muted" }, format.clock(line.at)),
              h("td", { class: "mono" }, line.tool),
              h("td", {}, [line.client, line.program].filter(Boolean).join(" · ")),
              h("td", {}, h("span", { class: `chip ${line.outcome === "ok" ? "good" : "bad"}` }, line.outcome)),
              h("td", { class: "number muted nowrap" }, format.duration(line.ms)),
            ),
          ),
        ),
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
    const byCategory = Map.groupBy ? Map.groupBy(box.tools, (each) => each.category ?? "other") : group(box.tools);
    fill(
      facts,
      h(
        "div",
        { class: "tiles" },
        tile("State", h("span", { class: "row" }, dot(box), box.away ? "Away" : "There"), heard(box)),
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

function dot(box) {
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

function tile(title, value, text) {
  return h(
    "section",
    { class: "card tile" },
    h("span", { class: "small muted" }, title),
    h("strong", {}, value),
    h("span", { class: "small muted break" }, text ?? ""),
  );
}
