// Sessions: every one live, several side by side; type into one, send Ctrl-C, stop it, search it, start one.

import { get, post } from "../api.js";
import { button, empty, fill, h } from "../dom.js";
import * as format from "../format.js";
import { createTerminal, isComponentThere } from "../terminal.js";

const TAIL_BYTES = 256 * 1024;
const EARLIER_BYTES = 1024 * 1024;
const MOST_OPEN = 6;
const LOOK_AGAIN_MS = 3_000;

export default { id: "sessions", mount };

function mount(root, app) {
  const panes = new Map();
  const list = h("div", { class: "session-list" });
  const grid = h("div", { class: "panes" });
  const closedByHand = new Set();

  fill(
    root,
    h(
      "div",
      { class: "page-head" },
      h(
        "div",
        {},
        h("h1", {}, "Sessions"),
        h("p", {}, "What a model sees, you see, and either can type. Open several to have them side by side."),
      ),
      button("Start a session", () => start(), { icon: "plus", kind: "primary" }),
    ),
    list,
    grid,
  );

  async function start() {
    const pty = h("input", { type: "checkbox", checked: true, name: "pty" });
    const answer = await app.ask({
      title: "Start a session",
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
          hint: "The working folder of the daemon, if you leave it empty.",
        },
        { name: "pty", label: "With a terminal", input: pty },
      ],
      action: "Start",
    });
    if (!answer) return;
    const session = await app.attempt(() =>
      post("sessions", { command: answer.command, cwd: answer.cwd || undefined, pty: pty.checked }),
    );
    if (session) open(session);
  }

  function open(session) {
    if (panes.has(session.id)) return;
    closedByHand.delete(session.id);
    while (panes.size >= MOST_OPEN) close(panes.keys().next().value);
    const pane = createPane(session, app, () => closeByHand(session.id));
    panes.set(session.id, pane);
    grid.append(pane.element);
    arrange();
  }

  function closeByHand(id) {
    closedByHand.add(id);
    close(id);
  }

  function close(id) {
    panes.get(id)?.dispose();
    panes.get(id)?.element.remove();
    panes.delete(id);
    arrange();
  }

  function arrange() {
    grid.dataset.count = Math.min(panes.size, 4);
    paint();
  }

  function paint() {
    const sessions = app.store.state.sessions;
    if (!sessions) return;
    const sorted = [...sessions].sort((a, b) => b.running - a.running || b.started_at - a.started_at);
    for (const [id, pane] of panes) {
      const session = sessions.find((each) => each.id === id);
      if (session) pane.update(session);
      else pane.gone();
    }
    if (sorted.length === 0) {
      fill(
        list,
        h(
          "div",
          { class: "card" },
          empty(
            "sessions",
            "No session",
            "A client starts one with shell_start_session, or you do. Finished ones stay for an hour.",
            button("Start a session", () => start(), { icon: "plus" }),
          ),
        ),
      );
      return;
    }
    fill(
      list,
      sorted.map((session) => {
        const isOpen = panes.has(session.id);
        return h(
          "button",
          {
            type: "button",
            class: "session-chip",
            aria: { pressed: String(isOpen) },
            title: session.command,
            data: { session: session.id },
            on: { click: () => (isOpen ? closeByHand(session.id) : open(session)) },
          },
          h("span", { class: `dot ${session.running ? "live" : session.exit_code === 0 ? "" : "bad"}` }),
          h("span", { class: "mono clip" }, session.command),
          h("span", { class: "muted small nowrap" }, session.running ? "running" : `exit ${session.exit_code}`),
        );
      }),
    );
  }

  app.watch(["sessions"], () => {
    const running = (app.store.state.sessions ?? []).filter((each) => each.running && !closedByHand.has(each.id));
    // The newest that run are open from the beginning, as many as fit side by side.
    if (panes.size === 0) for (const session of running.slice(-2)) open(session);
    paint();
  });
  return () => {
    for (const id of [...panes.keys()]) {
      panes.get(id).dispose();
      panes.delete(id);
    }
  };
}

function createPane(session, app, onClose) {
  let current = session;
  let terminal;
  let unfollow = () => {};
  let isDisposed = false;
  let again;
  let from = Math.max(session.kept_from, session.output_bytes - TAIL_BYTES, 0);
  const state = h("span", { class: "muted small nowrap" });
  const dot = h("span", { class: "dot" });
  const screen = h("div", { class: "screen", data: { session: session.id } });
  const note = h("div", { class: "pane-note", hidden: true });
  const drawer = h("div", { class: "drawer", hidden: true });
  const keyboard = createKeyboard(session.id, app);
  const input = h("input", {
    class: "input mono",
    placeholder: "Type a line, and Enter",
    autocomplete: "off",
    spellcheck: false,
    aria: { label: `Input for ${session.command}` },
  });
  const line = h(
    "form",
    {
      class: "pane-input",
      on: {
        submit: (event) => {
          event.preventDefault();
          keyboard.type(`${input.value}\n`);
          input.value = "";
        },
      },
    },
    input,
    h("button", { class: "button", type: "submit" }, "Send"),
  );
  const interrupt = button("Ctrl-C", () => (current.pty ? keyboard.type("\u0003") : stop("INT")), {
    kind: "tiny",
    title: "Interrupt the program",
  });
  const stopButton = button("Stop", () => stop("TERM"), { kind: "tiny danger", icon: "stop" });
  const earlier = button("", () => showEarlier(), { kind: "ghost", icon: "up", label: "Show earlier output" });

  const element = h(
    "section",
    { class: "card pane", aria: { label: `Session ${session.command}` } },
    h(
      "header",
      { class: "pane-head" },
      h(
        "div",
        { class: "grow row pane-title" },
        dot,
        h("strong", { class: "mono clip", title: `${session.command}\nin ${session.cwd}` }, session.command),
        state,
      ),
      h(
        "div",
        { class: "row tight" },
        earlier,
        interrupt,
        stopButton,
        button("", () => toggleSearch(), { icon: "search", label: "Search in the output", kind: "ghost" }),
        button("", onClose, { icon: "close", label: "Close this pane", kind: "ghost" }),
      ),
    ),
    drawer,
    note,
    screen,
    line,
  );

  async function stop(signal) {
    await app.attempt(
      () => post(`sessions/${encodeURIComponent(session.id)}/stop`, { signal }),
      signal === "INT" ? undefined : "The session has ended",
    );
  }

  async function begin() {
    const made = await createTerminal(screen, {
      isPty: session.pty,
      onData: session.pty ? (data) => keyboard.type(data) : undefined,
      onResize: (cols, rows) => {
        if (session.pty && current.running)
          post(`sessions/${encodeURIComponent(session.id)}/resize`, { cols, rows }).catch(() => {});
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
      say("The daemon was started again, and this session is gone."),
    );
  }

  async function hear(name, data) {
    if (name === "output") {
      const isPlainError = data.stream === "stderr" && !data.chunk.includes("\u001b");
      await terminal.write(isPlainError ? `\u001b[31m${data.chunk}\u001b[39m` : data.chunk);
    } else if (name === "gap")
      await terminal.write(
        `\r\n\u001b[2m[${format.bytes(data.next_offset - data.offset)} of older output are gone]\u001b[22m\r\n`,
      );
    else if (name === "exit") update({ ...current, running: false, exit_code: data.exit_code, signal: data.signal });
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
    dot.className = `dot ${current.running ? "live" : current.exit_code === 0 ? "" : "bad"}`;
    const how = current.signal ? `ended by ${current.signal}` : `exit ${current.exit_code}`;
    state.textContent = `${current.running ? `pid ${current.pid}` : how}${current.pty ? " · terminal" : ""}`;
    interrupt.disabled = stopButton.disabled = !current.running;
    line.hidden = current.pty && terminal?.kind !== "text";
    input.disabled = !current.running;
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
    fill(
      drawer,
      h(
        "form",
        {
          class: "row",
          on: {
            submit: async (event) => {
              event.preventDefault();
              if (!wanted.value) return;
              const answer = await app.attempt(() =>
                get(`sessions/${encodeURIComponent(session.id)}/search`, { text: wanted.value }),
              );
              if (!answer) return;
              const isCut = answer.total > answer.matches.length;
              fill(
                found,
                h(
                  "p",
                  { class: "small muted" },
                  answer.total === 0
                    ? "No line has that."
                    : format.plural(answer.total, "line") +
                        (isCut ? `, the last ${answer.matches.length} of them` : ""),
                ),
                answer.matches.map((match) =>
                  h(
                    "div",
                    { class: "found-line mono" },
                    h("span", { class: "muted" }, match.line),
                    h(
                      "span",
                      {},
                      match.text.slice(0, match.at),
                      h("mark", {}, match.text.slice(match.at, match.at + wanted.value.length)),
                      match.text.slice(match.at + wanted.value.length),
                    ),
                  ),
                ),
              );
            },
          },
        },
        h("div", { class: "grow" }, wanted),
        h("button", { class: "button", type: "submit" }, "Search"),
      ),
      found,
    );
    wanted.focus();
  }

  paintHead();
  begin();
  return {
    element,
    update,
    gone: () => say("This session is not kept any more."),
    dispose() {
      isDisposed = true;
      clearTimeout(again);
      unfollow();
      terminal?.dispose();
    },
  };
}

/** Sends what is typed, in order, and as much at once as has come together while the daemon answered. */
function createKeyboard(id, app) {
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
        await app.attempt(() => post(`sessions/${encodeURIComponent(id)}/input`, { input: now }));
      }
      isSending = false;
    },
  };
}
