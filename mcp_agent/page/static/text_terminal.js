// Output as text with colours, where there is no terminal component: lines, carriage returns, colours, and nothing that
// moves the cursor elsewhere. The oldest lines are dropped.

import { h } from "./dom.js";

const MOST_LINES = 4_000;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
// One escape sequence, a control character, or a run of text.
const PIECE = new RegExp(
  [
    /\x1b\[([0-?]*)[ -/]*([@-~])/,
    /\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/,
    /\x1b[PX^_][^\x1b]*\x1b\\/,
    /\x1b[^[\]PX^_]/,
    /[\x00-\x1f\x7f]/,
    /[^\x00-\x1f\x1b\x7f]+/,
  ]
    .map((each) => each.source)
    .join("|"),
  "g",
);

export function createText(element) {
  const output = h("div", {
    class: "text-terminal",
    role: "log",
    tabIndex: 0,
    aria: { label: "Output of the session", live: "off" },
  });
  element.append(output);
  let style = {};
  let line = newLine();
  let rest = "";
  let column = 0;

  function newLine() {
    const made = h("div", { class: "text-line" });
    output.append(made);
    while (output.childElementCount > MOST_LINES) output.firstChild.remove();
    return made;
  }

  function add(text) {
    const length = line.textContent.length;
    if (column < length) {
      // After a carriage return: what is written replaces what was there.
      const kept = line.textContent;
      line.replaceChildren(kept.slice(0, column), span(text), kept.slice(column + text.length));
    } else line.append(span(text));
    column += text.length;
  }

  function span(text) {
    const names = Object.entries(style).map(([key, value]) => (value === true ? key : `${key}-${value}`));
    return names.length ? h("span", { class: names.join(" ") }, text) : document.createTextNode(text);
  }

  function colour(parameters) {
    const codes = (parameters || "0").split(/[;:]/).map(Number);
    for (let index = 0; index < codes.length; index += 1) {
      const code = codes[index];
      if (code === 0) style = {};
      else if (code === 1) style.bold = true;
      else if (code === 2) style.dim = true;
      else if (code === 3) style.italic = true;
      else if (code === 4) style.underline = true;
      else if (code === 22) {
        delete style.bold;
        delete style.dim;
      } else if (code === 39) delete style.fg;
      else if (code === 49) delete style.bg;
      else if (code >= 30 && code <= 37) style.fg = COLOURS[code - 30];
      else if (code >= 90 && code <= 97) style.fg = `bright-${COLOURS[code - 90]}`;
      else if (code >= 40 && code <= 47) style.bg = COLOURS[code - 40];
      else if (code === 38 || code === 48) {
        if (codes[index + 1] === 5 && codes[index + 2] < 8)
          style[code === 38 ? "fg" : "bg"] = COLOURS[codes[index + 2]];
        index += codes[index + 1] === 5 ? 2 : 4;
      }
    }
  }

  return {
    kind: "text",
    async write(text) {
      const isAtEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 40;
      const whole = rest + text;
      // A sequence that is not complete waits for its end.
      const cut = /\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*|[PX^_][^\x1b]*)?$/.exec(whole.slice(-4096));
      const end = cut ? whole.length - cut[0].length : whole.length;
      rest = whole.slice(end).slice(0, 4096);
      for (const [piece, parameters, final] of whole.slice(0, end).matchAll(PIECE)) {
        if (final === "m") colour(parameters);
        else if (final === "K" && (parameters === "" || parameters === "0"))
          line.textContent = line.textContent.slice(0, column);
        else if (final === "J" || piece === "\f") {
          output.replaceChildren();
          line = newLine();
        } else if (piece === "\n") {
          line = newLine();
          column = 0;
        } else if (piece === "\r") column = 0;
        else if (piece === "\b") column = Math.max(0, column - 1);
        else if (piece === "\t") add(" ".repeat(8 - (column % 8)));
        else if (piece.charCodeAt(0) >= 32 && piece.charCodeAt(0) !== 127) add(piece);
      }
      if (isAtEnd) output.scrollTop = output.scrollHeight;
    },
    reset() {
      output.replaceChildren();
      line = newLine();
      style = {};
      column = 0;
    },
    fit() {},
    focus: () => output.focus(),
    text: () => [...output.children].map((each) => each.textContent).join("\n"),
    size: () => ({ cols: 120, rows: 40 }),
    dispose: () => output.remove(),
  };
}
