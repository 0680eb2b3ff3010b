// The sessions of a box of the fleet, as its gateway sees them: by calls, again every few moments.

import { explain, get, post } from "./api.js";
import { button, empty, fill, h } from "./dom.js";
import * as format from "./format.js";
import { askForSession, paneFrame, sessionChip } from "./session_parts.js";
import { createTerminal } from "./terminal.js";
import { repeat } from "./timing.js";

const REFRESH_MS = 3_000;
const OUTPUT_MS = 700;
const TAIL_BYTES = 48 * 1024;

const call = (tool, args) => post("call", { tool, arguments: args });

/** @param {HTMLElement} body @param {App} app @param {string} name */
export function boxSessions(body, app, name) {
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
    const answer = await askForSession(app, `Start a session on ${name}`, "the daemon there");
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
        sessionChip(session, session.id === opened, session.running ? "running" : `exit ${session.exit_code}`, () => {
          opened = session.id;
          paint(sessions);
        }),
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
  const send = (text) => app.attempt(() => call("shell_send_input", { session_id: session.id, input: text }));
  const stop = button(
    "Stop",
    () => app.attempt(() => call("shell_stop_session", { session_id: session.id }), "The session has ended"),
    { kind: "tiny danger", icon: "stop" },
  );
  const frame = paneFrame(session, { actions: [stop], onLine: send });

  function paint(current) {
    frame.paint(current, current.running ? `pid ${current.pid} on ${box}` : `exit ${current.exit_code}`);
    stop.disabled = !current.running;
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
      frame.say(explain(error));
    }
  }

  (async () => {
    const made = await createTerminal(frame.screen, { isPty: session.pty });
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
    element: frame.element,
    dispose() {
      isDisposed = true;
      end();
      terminal?.dispose();
    },
  };
}
