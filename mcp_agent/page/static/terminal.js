// Shows the output of a session: in xterm.js where that is there, else as text with colours.
//
// Both have the same methods: write(text) returns a promise that is done when the text is shown, `fit` adapts the size
// to the element, `dispose` ends it. `kind` says which one it is.

import { h } from "./dom.js";
import { createText } from "./text_terminal.js";

// What a terminal keeps for the program in it, the keyboard cannot leave by: so a Tab after an Escape leaves it.
export const LEAVE_HINT = "Escape, then Tab, leaves the terminal";
const SCROLLBACK_LINES = 10_000;
const DARK = {
  background: "#10141b",
  foreground: "#dde3ec",
  cursor: "#8fa6ff",
  cursorAccent: "#10141b",
  selectionBackground: "#33406b",
  black: "#1c222c",
  red: "#ff7b86",
  green: "#5fd39a",
  yellow: "#f0bb62",
  blue: "#82a6ff",
  magenta: "#c792ea",
  cyan: "#5ccfe6",
  white: "#d5dbe5",
  brightBlack: "#6c7688",
  brightRed: "#ff9da5",
  brightGreen: "#86e6b6",
  brightYellow: "#ffd38a",
  brightBlue: "#a8c0ff",
  brightMagenta: "#dbb3f5",
  brightCyan: "#8ee4f2",
  brightWhite: "#ffffff",
};

const COMPONENT = "/ui/vendor/xterm/xterm.mjs";

let loading;
let attempts = 0;

/** The Terminal class of xterm.js, or undefined where it is not there. */
export function loadComponent() {
  // A browser remembers that a module was not there, by its address.
  loading ??= import(attempts ? `${COMPONENT}?attempt=${attempts}` : COMPONENT)
    .then((module) => {
      document.head.append(h("link", { rel: "stylesheet", href: "/ui/vendor/xterm/xterm.css" }));
      allowStyles();
      return module.Terminal;
    })
    .catch(() => {
      loading = undefined;
      attempts += 1;
      return undefined;
    });
  return loading;
}

/** Whether the component has been fetched in the meantime. */
export async function isComponentThere() {
  return fetch(COMPONENT, { method: "HEAD" }).then(
    (answer) => answer.ok,
    () => false,
  );
}

/**
 * @param {HTMLElement} element
 * @param {{isPty: boolean, onData?: (text: string) => void, onResize?: (cols: number, rows: number) => void}} options
 */
export async function createTerminal(element, { isPty, onData, onResize }) {
  const Terminal = await loadComponent();
  if (!Terminal) return createText(element);
  const terminal = new Terminal({
    // A program without a terminal ends its lines with a line feed alone.
    convertEol: !isPty,
    cursorBlink: false,
    cursorInactiveStyle: isPty ? "outline" : "none",
    disableStdin: !onData,
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
    fontSize: 13,
    lineHeight: 1.25,
    screenReaderMode: matchMedia("(prefers-reduced-motion: reduce)").matches,
    scrollback: SCROLLBACK_LINES,
    theme: DARK,
    linkHandler: null,
  });
  terminal.open(element);
  terminal.textarea?.setAttribute("aria-label", isPty ? "Terminal: type here" : "Output of the session");
  if (onData) terminal.onData(onData);
  let isAfterEscape = false;
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.type !== "keydown" || event.key === "Shift") return true;
    const leaves = event.key === "Tab" && (isAfterEscape || !onData);
    isAfterEscape = event.key === "Escape";
    return !leaves;
  });

  function fit() {
    // The screen is as large as its characters.
    const screen = terminal.element.querySelector(".xterm-screen").getBoundingClientRect();
    const width = element.clientWidth - 14;
    const height = element.clientHeight;
    if (screen.width <= 0 || width <= 0 || height <= 0) return;
    const cols = Math.max(2, Math.floor(width / (screen.width / terminal.cols)));
    const rows = Math.max(2, Math.floor(height / (screen.height / terminal.rows)));
    if (cols === terminal.cols && rows === terminal.rows) return;
    terminal.resize(cols, rows);
    onResize?.(cols, rows);
  }

  const observer = new ResizeObserver(() => fit());
  observer.observe(element);
  return {
    kind: "terminal",
    fit,
    write: (text) => new Promise((done) => terminal.write(text, done)),
    reset: () => terminal.reset(),
    focus: () => terminal.focus(),
    text: () => {
      const buffer = terminal.buffer.active;
      return Array.from(
        { length: buffer.length },
        (_, index) => buffer.getLine(index)?.translateToString(true) ?? "",
      ).join("\n");
    },
    size: () => ({ cols: terminal.cols, rows: terminal.rows }),
    dispose() {
      observer.disconnect();
      terminal.dispose();
    },
  };
}

/** xterm.js makes style elements and style attributes, which the policy of the page refuses. They are made as rules of
    style sheets and properties of styles instead, which it allows. */
function allowStyles() {
  const create = Document.prototype.createElement;
  document.createElement = function createElement(tag, options) {
    const name = String(tag).toLowerCase();
    const element = create.call(document, name === "style" ? "page-style" : tag, options);
    if (name === "style") becomeStyle(element);
    else if (name === "span") {
      element.setAttribute = function setAttribute(attribute, value) {
        if (attribute === "style") this.style.cssText = value;
        else Element.prototype.setAttribute.call(this, attribute, value);
      };
    }
    return element;
  };
}

function becomeStyle(element) {
  const sheet = new CSSStyleSheet();
  let text = "";
  const set = (value) => {
    text = String(value);
    sheet.replaceSync(text);
  };
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  for (const name of ["textContent", "innerText", "innerHTML"])
    Object.defineProperty(element, name, { get: () => text, set });
  Object.defineProperty(element, "sheet", { get: () => sheet });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
    Element.prototype.remove.call(element);
  };
}
