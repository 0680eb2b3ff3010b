// One session, as people see it: a live terminal, with input, Ctrl-C, stop, earlier output and a search.

import { get, post } from "./api.js";
import { button, fill, h } from "./dom.js";
import * as format from "./format.js";
import { paneFrame } from "./session_parts.js";
import { createTerminal, isComponentThere, LEAVE_HINT } from "./terminal.js";

const TAIL_BYTES = 256 * 1024;
const EARLIER_BYTES = 1024 * 1024;
const LOOK_AGAIN_MS = 3_000;
const PORTS_EVERY_MS = 5_000;

/**
 * The output of one session, with what a person can do to it. `onClose` is called when they close it.
 * @param {Session} session
 * @param {App} app
 * @param {() => void} onClose
 */
export function createPane(session, app, onClose) {
  let current = session;
  let terminal;
  let unfollow = () => {};
  let isDisposed = false;
  let again;
  let portsAgain;
  let from = Math.max(session.kept_from, session.output_bytes - TAIL_BYTES, 0);
  const note = h("div", { class: "pane-note", hidden: true });
  const drawer = h("div", { class: "drawer", hidden: true });
  const ports = h("div", { class: "pane-note row tight", hidden: true, aria: { label: "Ports" } });
  const path = `sessions/${encodeURIComponent(session.id)}`;
  const keyboard = createKeyboard(path, app);
  const leaveHint = h("p", { class: "pane-hint small muted", hidden: !session.pty }, LEAVE_HINT);
  const interrupt = button("Ctrl-C", () => (current.pty ? keyboard.type("\u0003") : stop("INT")), {
    kind: "tiny",
    title: "Interrupt the program",
  });
  const stopButton = button("Stop", () => stop("TERM"), { kind: "tiny danger", icon: "stop" });
  const earlier = button("", () => showEarlier(), { kind: "ghost", icon: "up", label: "Show earlier output" });

  const search = button("", () => toggleSearch(), { icon: "search", label: "Search in the output", kind: "ghost" });
  const close = button("", onClose, { icon: "close", label: "Close this pane", kind: "ghost" });
  const { element, screen, line, paint } = paneFrame(session, {
    actions: [earlier, interrupt, stopButton, search, close],
    onLine: (text) => keyboard.type(text),
    above: [drawer, note, ports],
    below: [leaveHint],
  });

  async function stop(signal) {
    await app.attempt(() => post(`${path}/stop`, { signal }), signal === "INT" ? undefined : "The session has ended");
  }

  async function begin() {
    const made = await createTerminal(screen, {
      isPty: session.pty,
      onData: session.pty ? (data) => keyboard.type(data) : undefined,
      onResize: (cols, rows) => {
        if (session.pty && current.running) post(`${path}/resize`, { cols, rows }).catch(() => {});
      },
    });
    if (isDisposed) {
      made.dispose();
      return;
    }
    terminal = made;
    if (terminal.kind === "text") {
      say(session.pty ? "The terminal component is not there yet, so this is plain text with colours." : "");
      again = setTimeout(lookAgain, LOOK_AGAIN_MS);
    }
    terminal.fit();
    follow();
  }

  /** Change over to the terminal as soon as it is there. */
  async function lookAgain() {
    if (isDisposed) return;
    if (!(await isComponentThere())) {
      again = setTimeout(lookAgain, LOOK_AGAIN_MS);
      return;
    }
    unfollow();
    terminal.dispose();
    say("");
    await begin();
    paintHead();
  }

  function follow() {
    unfollow();
    unfollow = app.stream.follow(session.id, from, hear, () =>
      say("The daemon was started again, and this session ended with it."),
    );
  }

  async function hear(name, data) {
    if (name === "output") {
      const isPlainError = data.stream === "stderr" && !data.chunk.includes("\u001b");
      await terminal.write(isPlainError ? `\u001b[31m${data.chunk}\u001b[39m` : data.chunk);
    } else if (name === "gap")
      await terminal.write(
        `\r\n\u001b[2m[${format.bytes(data.next_offset - data.offset)} of older output were deleted]\u001b[22m\r\n`,
      );
    else if (name === "exit") update({ ...current, running: false, exit_code: data.exit_code, signal: data.signal });
  }

  /** Which ports the session listens on, each a link to what it serves there. */
  async function lookForPorts() {
    if (isDisposed || !current.running) {
      ports.hidden = true;
      return;
    }
    if (!document.hidden) {
      const found = await get(`${path}/ports`).catch(() => ({ ports: [] }));
      const links = found.ports.map((each) =>
        h("a", { href: each.path, target: "_blank", rel: "noopener noreferrer", title: each.process }, `:${each.port}`),
      );
      ports.hidden = links.length === 0;
      fill(ports, "Listens on ", links);
    }
    portsAgain = setTimeout(lookForPorts, PORTS_EVERY_MS);
  }

  function showEarlier() {
    const before = from;
    from = Math.max(0, from - EARLIER_BYTES);
    if (from === before) return;
    terminal.reset();
    follow();
    paintHead();
  }

  function say(text) {
    note.hidden = !text;
    note.textContent = text;
  }

  function update(next) {
    current = next;
    paintHead();
  }

  function paintHead() {
    const how = current.signal ? `ended by ${current.signal}` : `exit ${current.exit_code}`;
    paint(current, `${current.running ? `pid ${current.pid}` : how}${current.pty ? " · terminal" : ""}`);
    interrupt.disabled = stopButton.disabled = !current.running;
    line.hidden = current.pty && terminal?.kind !== "text";
    earlier.hidden = from === 0;
  }

  function toggleSearch() {
    drawer.hidden = !drawer.hidden;
    if (drawer.hidden) return;
    const found = h("div", { class: "found", role: "status" });
    const wanted = h("input", {
      class: "input",
      type: "search",
      placeholder: "Search all that is kept of the output",
      aria: { label: "Search in the output" },
    });
    const search = async (event) => {
      event.preventDefault();
      const text = wanted.value;
      const answer = text && (await app.attempt(() => get(`${path}/search`, { text })));
      if (answer) paintMatches(found, answer, text.length);
    };
    const submit = h("button", { class: "button", type: "submit" }, "Search");
    fill(
      drawer,
      h("form", { class: "row", on: { submit: search } }, h("div", { class: "grow" }, wanted), submit),
      found,
    );
    wanted.focus();
  }

  paintHead();
  begin();
  lookForPorts();
  return {
    element,
    update,
    gone: () => say("The output of this session was deleted."),
    dispose() {
      isDisposed = true;
      clearTimeout(again);
      clearTimeout(portsAgain);
      unfollow();
      terminal?.dispose();
    },
  };
}

function paintMatches(element, { total, matches }, length) {
  const rest = total > matches.length ? `, the last ${matches.length} of them` : "";
  fill(
    element,
    h("p", { class: "small muted" }, total === 0 ? "No line has that." : format.plural(total, "line") + rest),
    matches.map(({ line, text, at }) =>
      h(
        "div",
        { class: "found-line mono" },
        h("span", { class: "muted" }, line),
        h("span", {}, text.slice(0, at), h("mark", {}, text.slice(at, at + length)), text.slice(at + length)),
      ),
    ),
  );
}

/** Sends what is typed, in order, and as much at once as has come together while the daemon answered. */
function createKeyboard(path, app) {
  let waiting = "";
  let isSending = false;
  return {
    async type(text) {
      waiting += text;
      if (isSending) return;
      isSending = true;
      while (waiting) {
        const now = waiting;
        waiting = "";
        await app.attempt(() => post(`${path}/input`, { input: now }));
      }
      isSending = false;
    },
  };
}
