// Files: a browser over the fs_ tools. Text with line numbers, images, downloads; and the artifacts.

import { blob, explain, get, hasCode, post } from "../api.js";
import { button, empty, fill, h, icon } from "../dom.js";
import * as format from "../format.js";

const IMAGES = /\.(png|jpe?g|gif|webp|avif|bmp|ico|svg)$/i;
const LINES = 2_000;

export default { id: "files", mount: (root, app) => mountFiles(root, app) };

/** With `box`, the files of a box of the fleet, from the folder `start` on: only what tools can show. */
export function mountFiles(root, app, { box, start } = /** @type {{box?: string, start?: string}} */ ({})) {
  const call = (tool, args) => post("call", { tool, arguments: box ? { ...args, box } : args });
  const where = h("input", { class: "input mono", spellcheck: false, autocomplete: "off", aria: { label: "Path" } });
  for (const each of ["focus", "input"])
    where.addEventListener(each, () => {
      isTyping = true;
    });
  where.addEventListener("blur", () => {
    where.value ||= folder ?? "";
  });
  const list = h("div", { class: "card file-list" });
  const detail = h("section", { class: "card detail file-detail", aria: { label: "The file" } });
  const crumbs = h("nav", { class: "crumbs", aria: { label: "Folders" } });
  let folder;
  let turn = 0;
  let image;
  let isTyping = false;

  const tabs = h("div", { class: "tabs", role: "group", aria: { label: "What to look at" } });
  const browser = h(
    "div",
    { class: "stack" },
    h(
      "form",
      {
        class: "row",
        on: {
          submit: (event) => {
            event.preventDefault();
            openPath(where.value.trim());
          },
        },
      },
      h("div", { class: "grow" }, where),
      h("button", { class: "button", type: "submit" }, "Go"),
    ),
    crumbs,
    h("div", { class: "split even" }, list, detail),
  );
  const artifacts = h("div", { class: "stack", hidden: true });
  if (box) fill(root, browser);
  else
    fill(
      root,
      h(
        "div",
        { class: "page-head" },
        h(
          "div",
          {},
          h("h1", {}, "Files"),
          h("p", {}, "The files of this machine as the tools see them, under the rules of the active profile."),
        ),
        tabs,
      ),
      browser,
      artifacts,
    );

  function show(which) {
    fill(
      tabs,
      [
        ["browser", "Files"],
        ["artifacts", "Artifacts"],
      ].map(([id, text]) => button(text, () => show(id), { aria: { pressed: String(id === which) } })),
    );
    browser.hidden = which !== "browser";
    artifacts.hidden = which !== "artifacts";
    if (which === "artifacts") loadArtifacts();
  }

  function rest(text, kind = "muted") {
    fill(detail, empty("file", "No file is open", text));
    detail.dataset.kind = kind;
  }

  async function openPath(path) {
    isTyping = false;
    const slash = path.length > 1 ? path.replace(/\/+$/, "") : path;
    try {
      await openFolder(slash || "/");
    } catch (error) {
      const parent = slash.slice(0, slash.lastIndexOf("/")) || "/";
      if (hasCode(error, "NOT_A_DIRECTORY")) {
        await app.attempt(() => openFolder(parent));
        await openFile(slash);
      } else app.say(explain(error), "bad");
    }
  }

  async function openFolder(path, next, entries = []) {
    const mine = ++turn;
    const found = await call("fs_list", { path, ...(next ? { after: next } : {}) });
    if (mine !== turn) return;
    folder = path;
    // A listing that comes late takes away nothing that is being typed, and puts nothing before it.
    if (!isTyping) where.value = path;
    const all = [...entries, ...found.entries];
    const parts = path.split("/").filter(Boolean);
    fill(
      crumbs,
      [["/", "/"], ...parts.map((part, index) => [part, `/${parts.slice(0, index + 1).join("/")}`])].map(
        ([text, target], index, every) => [
          index > 1 && h("span", { class: "muted" }, "/"),
          button(text, () => openPath(target), {
            kind: "ghost tiny",
            aria: { current: index === every.length - 1 ? "page" : undefined },
          }),
        ],
      ),
    );
    const rows = all
      .filter((entry) => entry.path !== path)
      .sort((a, b) => Number(b.type === "directory") - Number(a.type === "directory") || a.path.localeCompare(b.path));
    fill(
      list,
      path !== "/" && row({ path: path.slice(0, path.lastIndexOf("/")) || "/", type: "directory" }, ".."),
      rows.length === 0 && empty("folder", "An empty folder", "There is nothing in it."),
      rows.map((entry) => row(entry, entry.path.slice(entry.path.lastIndexOf("/") + 1))),
      found.next &&
        h(
          "div",
          { class: "body" },
          button("Show more", () => app.attempt(() => openFolder(path, found.next, all))),
        ),
    );
  }

  function row(entry, name) {
    const isFolder = entry.type === "directory";
    return h(
      "button",
      {
        type: "button",
        class: "file-row",
        data: { path: entry.path },
        on: { click: () => (isFolder ? openPath(entry.path) : openFile(entry.path, entry.size)) },
      },
      icon(isFolder ? "folder" : "file", 17),
      h("span", { class: "grow clip", title: name }, name),
      entry.symlink && h("span", { class: "chip" }, "link"),
      entry.special && h("span", { class: "chip" }, entry.special),
      h("span", { class: "small muted nowrap" }, isFolder || entry.size === undefined ? "" : format.bytes(entry.size)),
    );
  }

  async function openFile(path, size) {
    if (image) URL.revokeObjectURL(image);
    image = undefined;
    for (const each of list.querySelectorAll("[aria-current]")) each.removeAttribute("aria-current");
    list.querySelector(`[data-path="${CSS.escape(path)}"]`)?.setAttribute("aria-current", "true");
    const body = h("div", { class: "file-body" }, h("p", { class: "muted body" }, "Loading…"));
    const facts = h("p", { class: "small muted" }, size === undefined ? "" : format.bytes(size));
    fill(
      detail,
      h(
        "header",
        {},
        h("div", { class: "grow" }, h("h2", { class: "break mono" }, path.slice(path.lastIndexOf("/") + 1)), facts),
        !box &&
          button("Download", () => download("files/content", { path }, path.slice(path.lastIndexOf("/") + 1)), {
            icon: "download",
          }),
      ),
      body,
    );
    try {
      if (IMAGES.test(path) && !box) {
        image = URL.createObjectURL(await blob("files/content", { path }));
        fill(
          body,
          h("div", { class: "picture" }, h("img", { src: image, alt: path.slice(path.lastIndexOf("/") + 1) })),
        );
        return;
      }
      await showLines(path, 1, body, facts);
    } catch (error) {
      fill(body, h("p", { class: "muted body" }, explain(error)));
    }
  }

  async function showLines(path, start, body, facts, startByte) {
    const found = await call("fs_read_range", {
      path,
      start_line: start,
      end_line: start + LINES - 1,
      ...(startByte ? { start_byte: startByte } : {}),
    });
    const lines = found.content.replace(/\r?\n$/, "").split(/\r?\n/);
    const first = found.start_line;
    const last = found.end_line;
    if (start === 1 && !startByte) fill(body);
    const total = found.total_lines;
    if (total !== undefined)
      facts.textContent = [format.plural(total, "line"), facts.textContent.split(" · ").at(-1)]
        .filter(Boolean)
        .join(" · ");
    const numbers = h(
      "div",
      { class: "numbers", aria: { hidden: "true" } },
      lines.map((_, index) => `${first + index}\n`).join(""),
    );
    body.append(
      h(
        "div",
        { class: "source mono", tabIndex: 0, role: "region", aria: { label: "Text of the file" } },
        numbers,
        h("pre", {}, lines.join("\n")),
      ),
    );
    const next = found.next_line ?? last + 1;
    if (found.next_byte || total === undefined || next <= total) {
      const more = button(
        found.next_byte ? `Show more of line ${format.count(next)}` : `Show from line ${format.count(next)} on`,
        async () => {
          more.remove();
          await app.attempt(() => showLines(path, next, body, facts, found.next_byte));
        },
      );
      body.append(more);
    }
  }

  async function download(path, query, name) {
    const file = await app.attempt(() => blob(path, query));
    if (!file) return;
    const url = URL.createObjectURL(file);
    const link = h("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  async function loadArtifacts() {
    const answer = await app.attempt(() => get("artifacts"));
    if (!answer) return;
    const preview = h("section", { class: "card", hidden: true });
    fill(
      artifacts,
      h(
        "p",
        { class: "note" },
        "Results that were too large for an answer are kept whole: ",
        `${format.bytes(answer.used_bytes)} of ${format.bytes(answer.most_bytes)}.`,
      ),
      answer.artifacts.length === 0
        ? h(
            "div",
            { class: "card" },
            empty("box", "No artifact", "When a result is too large for its caller, the whole of it is kept here."),
          )
        : h(
            "div",
            { class: "card scroll-x" },
            h(
              "table",
              { class: "table" },
              h(
                "thead",
                {},
                h(
                  "tr",
                  {},
                  ["Artifact", "Of", "Size", "Made", ""].map((text, index) =>
                    h("th", { scope: "col", class: index === 2 ? "number" : "" }, text),
                  ),
                ),
              ),
              h(
                "tbody",
                {},
                answer.artifacts.map((each) => {
                  const path = each.ref.replace("ax://", "artifacts/");
                  return h(
                    "tr",
                    {},
                    h("td", { class: "mono" }, each.ref),
                    h("td", {}, each.owner),
                    h("td", { class: "number" }, format.bytes(each.bytes)),
                    h("td", { class: "nowrap" }, format.day(each.at * 1000)),
                    h(
                      "td",
                      { class: "number nowrap" },
                      button(
                        "Look",
                        async () => {
                          const file = await app.attempt(() => blob(path));
                          if (!file) return;
                          const text = await file.slice(0, 200_000).text();
                          preview.hidden = false;
                          fill(
                            preview,
                            h(
                              "header",
                              {},
                              h("h2", { class: "mono break" }, each.ref),
                              button(
                                "",
                                () => {
                                  preview.hidden = true;
                                },
                                { icon: "close", label: "Close the artifact", kind: "ghost" },
                              ),
                            ),
                            h(
                              "div",
                              { class: "body" },
                              h("pre", { class: "code wrap" }, text),
                              file.size > 200_000 &&
                                h("p", { class: "hint" }, "The first 200 KB. Download it for the rest."),
                            ),
                          );
                        },
                        { kind: "tiny" },
                      ),
                      " ",
                      button("", () => download(path, {}, `${each.ref.replace("ax://", "").replace("/", "-")}.txt`), {
                        icon: "download",
                        kind: "ghost",
                        label: `Download ${each.ref}`,
                      }),
                    ),
                  );
                }),
              ),
            ),
          ),
      preview,
    );
  }

  show("browser");
  rest("Choose one on the left. Text is shown with line numbers, images as they are.");
  const asked = box ? start : app.rest().join("/");
  if (asked) openPath(asked.startsWith("/") ? asked : `/${asked}`);
  else {
    get("files/start")
      .then(({ path }) => (turn === 0 ? openFolder(path) : undefined))
      .catch((error) => fill(list, empty("folder", "No files", explain(error))));
  }
  return () => image && URL.revokeObjectURL(image);
}
