// A unified diff, with line numbers and colours.

import { h } from "./dom.js";

export function diffView(text) {
  let old = 0;
  let fresh = 0;
  const rows = [];
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (head) {
      old = Number(head[1]);
      fresh = Number(head[2]);
      rows.push(h("div", { class: "diff-line hunk" }, h("span", {}), h("span", {}), h("span", {}, line)));
    } else if (line.startsWith("-")) rows.push(row("removed", old++, "", line));
    else if (line.startsWith("+")) rows.push(row("added", "", fresh++, line));
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
