// The files of a machine as its tools see them: folders as lists of links, text with line numbers, images, downloads.
//
// What is open is in the address, so links lead there and Back leads away. A path that ends with a slash is a folder.

import { blob, explain, get, hasCode, post } from "./api.js";
import { button, empty, fill, h, icon } from "./dom.js";
import * as format from "./format.js";

const IMAGES = /\.(png|jpe?g|gif|webp|avif|bmp|ico|svg)$/i;
const LINES = 2_000;
const URL_KEPT_MS = 10_000;

/**
 * `parts` are those of the address that say what is open; `base` is the address without them. With `box` the files are
 * those of a box of the fleet, from the folder `start` on: only what tools can show. Returns `update`, for another
 * address, and `leave`.
 * @param {HTMLElement} root
 * @param {App} app
 * @param {{base: string, parts: string[], box?: string, start?: string}} options
 */
export function mountFiles(root, app, { base, parts, box, start }) {
  const call = (tool, args) => post("call", { tool, arguments: box ? { ...args, box } : args });
  const where = h("input", { class: "input mono", spellcheck: false, autocomplete: "off", aria: { label: "Path" } });
  const list = h("div", { class: "card file-list" });
  const detail = h("section", { class: "card detail file-detail", aria: { label: "The file" } });
  const crumbs = h("nav", { class: "crumbs", aria: { label: "Folders" } });
  // The folder that is listed, and what of it is shown, by path.
  let folder;
  let entries = new Map();
  let turn = 0;
  let image;
  let isTyping = false;

  const startTyping = () => {
    isTyping = true;
  };
  where.addEventListener("focus", startTyping);
  where.addEventListener("input", startTyping);
  where.addEventListener("blur", () => {
    where.value ||= folder ?? "";
  });
  const go = (event) => {
    event.preventDefault();
    isTyping = false;
    const address = addressOf(where.value.trim());
    if (location.hash === address) open(where.value.trim());
    else location.hash = address;
  };
  const submit = h("button", { class: "button", type: "submit" }, "Go");
  fill(
    root,
    h(
      "div",
      { class: "stack" },
      h("form", { class: "row", on: { submit: go } }, h("div", { class: "grow" }, where), submit),
      crumbs,
      h("div", { class: "split even" }, list, detail),
    ),
  );

  const addressOf = (path) => `${base}${path.split("/").map(encodeURIComponent).join("/")}`;

  async function update(next) {
    const path = next.length === 0 ? (start ?? (await startFolder())) : `/${next.join("/")}`;
    if (path !== undefined) await open(path);
  }

  async function startFolder() {
    try {
      return (await get("files/start")).path;
    } catch (error) {
      fill(list, empty("folder", "No files", explain(error)));
      return undefined;
    }
  }

  async function open(path) {
    const mine = ++turn;
    const plain = withoutSlash(path);
    const known = entries.get(plain);
    try {
      if (known && known.type !== "directory") await openFile(plain, known.size);
      else if (plain !== folder || !path.endsWith("/")) await openFolder(plain, mine);
      else closeFile();
    } catch (error) {
      if (!hasCode(error, "NOT_A_DIRECTORY")) app.say(explain(error), "bad");
      else if (mine === turn) {
        await app.attempt(() => openFolder(parentOf(plain), mine));
        await openFile(plain);
      }
    }
  }

  async function openFolder(path, mine, next = undefined) {
    const found = await call("fs_list", { path, ...(next ? { after: next } : {}) });
    if (mine !== turn) return;
    if (!next) entries = new Map();
    folder = path;
    // A listing that comes late takes away nothing that is being typed, and puts nothing before it.
    if (!isTyping) where.value = path;
    for (const entry of found.entries) if (entry.path !== path) entries.set(entry.path, entry);
    paintCrumbs();
    const order = (entry) => Number(entry.type !== "directory");
    const rows = [...entries.values()].sort((a, b) => order(a) - order(b) || a.path.localeCompare(b.path));
    const more = () => app.attempt(() => openFolder(path, turn, found.next));
    fill(
      list,
      path !== "/" && row({ path: parentOf(path), type: "directory" }, ".."),
      rows.length === 0 && empty("folder", "An empty folder", "There is nothing in it."),
      rows.map((entry) => row(entry, nameOf(entry.path))),
      found.next && h("div", { class: "body" }, button("Show more", more)),
    );
    closeFile();
  }

  function paintCrumbs() {
    const names = folder.split("/").filter(Boolean);
    const steps = [["/", "/"], ...names.map((name, index) => [name, `/${names.slice(0, index + 1).join("/")}/`])];
    fill(
      crumbs,
      steps.map(([text, target], index) => [
        index > 1 && h("span", { class: "muted" }, "/"),
        h(
          "a",
          {
            class: "button ghost tiny",
            href: addressOf(target),
            aria: { current: index === steps.length - 1 ? "page" : undefined },
          },
          text,
        ),
      ]),
    );
  }

  function row(entry, name) {
    const isFolder = entry.type === "directory";
    return h(
      "a",
      {
        class: "file-row",
        href: addressOf(isFolder && entry.path !== "/" ? `${entry.path}/` : entry.path),
        data: { path: entry.path },
      },
      icon(isFolder ? "folder" : "file", 17),
      h("span", { class: "grow clip", title: name }, name),
      entry.symlink && h("span", { class: "chip" }, "link"),
      entry.special && h("span", { class: "chip" }, entry.special),
      h("span", { class: "small muted nowrap" }, isFolder || entry.size === undefined ? "" : format.bytes(entry.size)),
    );
  }

  function mark(path) {
    for (const each of list.querySelectorAll("[aria-current]")) each.removeAttribute("aria-current");
    list.querySelector(`[data-path="${CSS.escape(path)}"]`)?.setAttribute("aria-current", "true");
  }

  function closeFile() {
    mark("");
    const text = "Choose one in the list. Text is shown with line numbers, images as they are.";
    fill(detail, empty("file", "No file is open", text));
  }

  async function openFile(path, size = undefined) {
    if (image) URL.revokeObjectURL(image);
    image = undefined;
    mark(path);
    const name = nameOf(path);
    const body = h("div", { class: "file-body" }, h("p", { class: "muted body" }, "Loading…"));
    const facts = h("p", { class: "small muted" }, size === undefined ? "" : format.bytes(size));
    const save = button("Download", () => download(app, "files/content", { path }, name), { icon: "download" });
    fill(
      detail,
      h("header", {}, h("div", { class: "grow" }, h("h2", { class: "break mono" }, name), facts), !box && save),
      body,
    );
    try {
      if (IMAGES.test(path) && !box) {
        image = URL.createObjectURL(await blob("files/content", { path }));
        fill(body, h("div", { class: "picture" }, h("img", { src: image, alt: name })));
      } else await showLines(path, 1, body, facts);
    } catch (error) {
      fill(body, h("p", { class: "muted body" }, explain(error)));
    }
  }

  async function showLines(path, first, body, facts, startByte = undefined) {
    const range = { path, start_line: first, end_line: first + LINES - 1 };
    const found = await call("fs_read_range", startByte ? { ...range, start_byte: startByte } : range);
    const lines = found.content.replace(/\r?\n$/, "").split(/\r?\n/);
    if (first === 1 && !startByte) fill(body);
    const total = found.total_lines;
    if (total !== undefined)
      facts.textContent = [format.plural(total, "line"), facts.textContent.split(" · ").at(-1)]
        .filter(Boolean)
        .join(" · ");
    const numbers = lines.map((_, index) => `${found.start_line + index}\n`).join("");
    body.append(
      h(
        "div",
        { class: "source mono", tabIndex: 0, role: "region", aria: { label: "Text of the file" } },
        h("div", { class: "numbers", aria: { hidden: "true" } }, numbers),
        h("pre", {}, lines.join("\n")),
      ),
    );
    const next = found.next_line ?? found.end_line + 1;
    if (!found.next_byte && total !== undefined && next > total) return;
    const text = found.next_byte
      ? `Show more of line ${format.count(next)}`
      : `Show from line ${format.count(next)} on`;
    const more = button(text, async () => {
      more.remove();
      await app.attempt(() => showLines(path, next, body, facts, found.next_byte));
    });
    body.append(more);
  }

  closeFile();
  update(parts);
  return {
    update(next) {
      isTyping = false;
      update(next);
    },
    leave() {
      turn += 1;
      if (image) URL.revokeObjectURL(image);
    },
  };
}

export async function download(app, path, query, name) {
  const file = await app.attempt(() => blob(path, query));
  if (!file) return;
  const url = URL.createObjectURL(file);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), URL_KEPT_MS);
}

function withoutSlash(path) {
  return path.replace(/\/+$/, "") || "/";
}

function parentOf(path) {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}

function nameOf(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}
