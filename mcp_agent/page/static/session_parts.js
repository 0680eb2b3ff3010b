// What a session looks like wherever it is shown: its chip in a list, its pane, and the question how to start one.

import { dot, h } from "./dom.js";

/** Whether it runs or how it ended, as the colour of a dot. */
export const dotKind = (session) => (session.running ? "live" : session.exit_code === 0 ? "" : "bad");

/** A session in a list of them; a press opens it. */
export function sessionChip(session, isOpen, text, onClick) {
  return h(
    "button",
    {
      type: "button",
      class: "session-chip",
      aria: { pressed: String(isOpen) },
      title: session.command,
      data: { session: session.id },
      on: { click: onClick },
    },
    dot(dotKind(session)),
    h("span", { class: "mono clip" }, session.command),
    h("span", { class: "muted small nowrap" }, text),
  );
}

/**
 * The frame of a session: its head with `actions`, the screen, and a line to type into, which `onLine` gets.
 * `above` and `below` are shown around the screen.
 * @param {Session} session
 * @param {{actions: Node[], onLine: (text: string) => void, above?: Node[], below?: Node[]}} parts
 */
export function paneFrame(session, { actions, onLine, above = [], below = [] }) {
  const mark = h("span", { class: "dot" });
  const state = h("span", { class: "muted small nowrap" });
  const screen = h("div", { class: "screen", data: { session: session.id } });
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
          onLine(`${input.value}\n`);
          input.value = "";
        },
      },
    },
    input,
    h("button", { class: "button", type: "submit" }, "Send"),
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
        mark,
        h("strong", { class: "mono clip", title: `${session.command}\nin ${session.cwd}` }, session.command),
        state,
      ),
      h("div", { class: "row tight" }, actions),
    ),
    above,
    screen,
    below,
    line,
  );
  return {
    element,
    screen,
    line,
    /** Show what is known of it now. */
    paint(current, text) {
      mark.className = `dot ${dotKind(current)}`;
      state.textContent = text;
      input.disabled = !current.running;
    },
    say(text) {
      state.textContent = text;
    },
  };
}

/** Ask what to start, and where. Resolves to undefined if nothing is to be started. */
export function askForSession(app, title, whose, more = []) {
  return app.ask({
    title,
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
        hint: `The working folder of ${whose}, if you leave it empty.`,
      },
      ...more,
    ],
    action: "Start",
  });
}
