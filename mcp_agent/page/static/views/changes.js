// Files changed: the undo journal with the diff of each change, and a button that undoes it, and then redoes it.

import { explain, get, hasCode, post } from "../api.js";
import { diffView } from "../diff.js";
import { button, empty, fill, h, icon } from "../dom.js";
import * as format from "../format.js";

const ACTIONS = {
  write: ["changed", "accent"],
  create: ["created", "good"],
  delete: ["deleted", "bad"],
  move: ["moved", "warn"],
  command: ["command", "accent"],
};

export default { id: "changes", mount };

/**
 * @param {HTMLElement} root
 * @param {App} app
 */
function mount(root, app) {
  const list = h("div", { class: "card change-list" });
  const detail = h("section", { class: "card detail change-detail", aria: { label: "The change" } });
  const search = h("input", {
    class: "input",
    type: "search",
    placeholder: "Filter by path",
    aria: { label: "Filter by path" },
    on: { input: () => paint() },
  });
  let changes;
  let more = 0;
  let chosen;
  // Changes that an undo of this page has made: each redoes the change.
  const undone = new Map();

  fill(
    root,
    h(
      "div",
      { class: "page-head" },
      h(
        "div",
        {},
        h("h1", {}, "Files changed"),
        h("p", {}, "What tools did to files, newest first. Everything here can be put back as it was."),
      ),
      h("div", { class: "search" }, icon("search", 16), search),
    ),
    h("div", { class: "split even" }, list, detail),
  );

  async function load() {
    const answer = await app.attempt(() => get("changes"));
    if (!answer) return;
    changes = answer.changes;
    more = answer.more;
    if (!changes.some((each) => each.id === chosen)) choose(changes[0]?.id);
    paint();
  }

  function paint() {
    if (!changes) return;
    const wanted = search.value.trim().toLowerCase();
    const found = changes.filter((each) =>
      `${each.path} ${each.source ?? ""} ${each.command ?? ""}`.toLowerCase().includes(wanted),
    );
    fill(
      list,
      found.length === 0 &&
        empty(
          "changes",
          "No change",
          changes.length
            ? "No path fits the filter."
            : "When a tool writes, patches, moves or deletes a file, it is listed here, and can be undone.",
        ),
      found.map((change) => {
        const [word, kind] = ACTIONS[change.action];
        const parts = change.path.split("/");
        return h(
          "button",
          {
            type: "button",
            class: "change",
            aria: { current: String(change.id === chosen) },
            data: { change: change.id },
            on: { click: () => choose(change.id) },
          },
          h(
            "span",
            { class: "row between" },
            h(
              "strong",
              { class: `clip ${change.command ? "mono" : ""}` },
              change.command ?? (parts.at(-1) || change.path),
            ),
            h("span", { class: `chip ${undone.has(change.id) ? "" : kind}` }, undone.has(change.id) ? "undone" : word),
          ),
          h(
            "span",
            { class: "clip small muted", title: change.path },
            change.command ? `${counted(change.counts)} in ${change.path}` : parts.slice(0, -1).join("/") || "/",
          ),
          h(
            "span",
            { class: "small muted row between" },
            h("span", { class: "clip" }, who(change)),
            h("span", { class: "nowrap" }, format.day(change.at * 1000)),
          ),
        );
      }),
      more > 0 &&
        h("p", { class: "note" }, `${format.plural(more, "older change")} can be undone with mcp-agent undo.`),
    );
  }

  async function choose(id) {
    chosen = id;
    paint();
    if (!id) {
      fill(detail, empty("undo", "Nothing chosen", "Choose a change to see what it did."));
      return;
    }
    const change = changes.find((each) => each.id === id);
    const body = h("div", { class: "diff-body" }, h("p", { class: "muted body" }, "Loading…"));
    const isForth = undone.has(id);
    fill(
      detail,
      h(
        "header",
        {},
        h(
          "div",
          { class: "grow" },
          h("h2", { class: "break mono" }, change.command ?? change.path),
          h(
            "p",
            { class: "small muted break" },
            change.command
              ? `${counted(change.counts)} in ${change.path}, by ${who(change)}`
              : change.source
                ? `moved from ${change.source}`
                : `${ACTIONS[change.action][0]} by ${who(change)}`,
          ),
        ),
        button(isForth ? "Redo" : "Undo", () => undo(change), { icon: "undo", kind: "primary" }),
      ),
      body,
    );
    try {
      const found = await get(`changes/${encodeURIComponent(id)}`);
      if (chosen !== id) return;
      if (found.paths) fill(body, pathsView(change, found));
      else fill(body, found.diff ? diffView(found.diff) : h("p", { class: "muted body" }, found.note));
    } catch (error) {
      fill(body, h("p", { class: "note bad" }, explain(error)));
    }
  }

  // What a command did: a row for each path, which opens to its diff.
  function pathsView(change, found) {
    return [
      found.paths.map((each) => {
        const [word, kind] = ACTIONS[each.action];
        const inside = h("div", {}, h("p", { class: "muted body" }, "Loading…"));
        return h(
          "details",
          {
            class: "change-path",
            data: { path: each.path },
            on: { toggle: (event) => open(event.currentTarget, change, each, inside) },
          },
          h(
            "summary",
            { class: "row between" },
            h("span", { class: "mono break grow" }, each.path),
            h("span", { class: `chip ${kind}` }, word),
          ),
          h(
            "div",
            { class: "body" },
            button("Put it back", () => undo(change, false, each.path), { icon: "undo" }),
          ),
          inside,
        );
      }),
      found.more > 0 && h("p", { class: "note" }, `${format.plural(found.more, "more path")} are not shown.`),
    ];
  }

  async function open(row, change, each, inside) {
    if (!row.open) return;
    try {
      const found = await get(`changes/${encodeURIComponent(change.id)}?path=${encodeURIComponent(each.path)}`);
      fill(inside, found.diff ? diffView(found.diff) : h("p", { class: "muted body" }, found.note));
    } catch (error) {
      fill(inside, h("p", { class: "note bad" }, explain(error)));
    }
  }

  async function undo(change, overwrite = false, path = null) {
    try {
      const answer = await post(`changes/${encodeURIComponent(change.id)}/undo`, { overwrite, path });
      if (answer.undo_id) undone.set(answer.undo_id, change.id);
      undone.delete(change.id);
      app.say(`${answer.path} is as it was`);
      chosen = path ? change.id : answer.undo_id;
      await load();
      if (chosen) choose(chosen);
    } catch (error) {
      const isStale = hasCode(error, "STALE_REV", "ALREADY_EXISTS");
      if (
        !overwrite &&
        isStale &&
        (await app.ask({
          title: "It has changed since",
          text: `${explain(error)} Undo it anyway? What is there now can be brought back too.`,
          action: "Undo anyway",
          kind: "danger",
        }))
      )
        await undo(change, true, path);
      else if (!isStale) app.say(explain(error), "bad");
    }
  }

  const counted = ([created, changed, deleted]) =>
    [
      [changed, "changed"],
      [created, "created"],
      [deleted, "deleted"],
    ]
      .filter(([count]) => count > 0)
      .map(([count, word]) => `${word} ${format.plural(count, "file")}`)
      .join(", ");

  const who = (change) =>
    change.by ? [change.by.client, change.by.program].filter(Boolean).join(" · ") : "an earlier call";

  let waiting;
  app.watch(["lines"], () => {
    const newest = app.store.state.lines.slice(0, 50).find((line) => line.undo);
    if (changes && newest && !changes.some((each) => each.id === newest.undo)) {
      waiting ??= setTimeout(() => {
        waiting = undefined;
        load();
      }, 150);
    }
  });
  load();
  return () => clearTimeout(waiting);
}
