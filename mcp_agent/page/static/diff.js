// A unified diff, with line numbers and colours.

import { h } from "./dom.js";

export function diffView(text) {
  let old = 0;
  let fresh = 0;
  // How many lines of both sides the hunk still has. Outside of one, the names of files begin with the same signs.
  let oldLeft = 0;
  let freshLeft = 0;
  const rows = [];
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const head = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))?/.exec(line);
    const isWithin = oldLeft > 0 || freshLeft > 0;
    if (isWithin && /^[ -]/.test(line)) oldLeft -= 1;
    if (isWithin && /^[ +]/.test(line)) freshLeft -= 1;
    if (head && !isWithin) {
      old = Number(head[1]);
      fresh = Number(head[3]);
      oldLeft = Number(head[2] ?? 1);
      freshLeft = Number(head[4] ?? 1);
      rows.push(h("div", { class: "diff-line hunk" }, h("span", {}), h("span", {}), h("span", {}, line)));
    } else if (isWithin && line.startsWith("-")) rows.push(row("removed", old++, "", line));
    else if (isWithin && line.startsWith("+")) rows.push(row("added", "", fresh++, line));
    else if (line.startsWith(" ")) rows.push(row("", old++, fresh++, line));
    else rows.push(h("div", { class: "diff-line hunk" }, h("span", {}), h("span", {}), h("span", {}, line)));
  }
  return h("div", { class: "diff mono", tabIndex: 0, role: "region", aria: { label: "Diff" } }, rows);
}

function row(kind, before, after, line) {
  return h(
    "div",
    { class: `diff-line ${kind}` },
    h("span", { class: "gutter" }, before),
    h("span", { class: "gutter" }, after),
    h("span", {}, line),
  );
}
