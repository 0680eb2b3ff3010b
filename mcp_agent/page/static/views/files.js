// Files: the files of this machine, and the artifacts, which are results that were too large for an answer.

import { blob, get } from "../api.js";
import { button, empty, fill, h, table, tabs } from "../dom.js";
import { download, mountFiles } from "../file_browser.js";
import * as format from "../format.js";

const PREVIEW_BYTES = 200_000;
const TABS = { browser: "Files", artifacts: "Artifacts" };

export default { id: "files", mount };

/**
 * @param {HTMLElement} root
 * @param {App} app
 */
function mount(root, app) {
  const chosen = h("div");
  const browser = h("div");
  const artifacts = h("div", { class: "stack", hidden: true });
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
      chosen,
    ),
    browser,
    artifacts,
  );

  function show(which) {
    fill(chosen, tabs("What to look at", TABS, which, show));
    browser.hidden = which !== "browser";
    artifacts.hidden = which !== "artifacts";
    if (which === "artifacts") loadArtifacts();
  }

  async function loadArtifacts() {
    const answer = await app.attempt(() => get("artifacts"));
    if (!answer) return;
    const preview = h("section", { class: "card", hidden: true });
    const rows = answer.artifacts.map((each) => [
      h("span", { class: "mono" }, each.ref),
      each.owner,
      format.bytes(each.bytes),
      h("span", { class: "nowrap" }, format.day(each.at * 1000)),
      h(
        "span",
        { class: "nowrap" },
        button("Look", () => look(each, preview), { kind: "tiny" }),
        " ",
        button("", () => download(app, pathOf(each), {}, fileName(each)), {
          icon: "download",
          kind: "ghost",
          label: `Download ${each.ref}`,
        }),
      ),
    ]);
    const used = `${format.bytes(answer.used_bytes)} of ${format.bytes(answer.most_bytes)}.`;
    const none = "When a result is too large for its caller, the whole of it is kept here.";
    fill(
      artifacts,
      h("p", { class: "note" }, `Results that were too large for an answer are kept whole: ${used}`),
      rows.length === 0
        ? h("div", { class: "card" }, empty("box", "No artifact", none))
        : h("div", { class: "card scroll-x" }, table(["Artifact", "Of", "#Size", "Made", "#"], rows)),
      preview,
    );
  }

  async function look(artifact, preview) {
    const file = await app.attempt(() => blob(pathOf(artifact)));
    if (!file) return;
    const text = await file.slice(0, PREVIEW_BYTES).text();
    const close = () => {
      preview.hidden = true;
    };
    preview.hidden = false;
    fill(
      preview,
      h(
        "header",
        {},
        h("h2", { class: "mono break" }, artifact.ref),
        button("", close, { icon: "close", label: "Close the artifact", kind: "ghost" }),
      ),
      h(
        "div",
        { class: "body" },
        h("pre", { class: "code wrap" }, text),
        file.size > PREVIEW_BYTES && h("p", { class: "hint" }, "The first 200 KB. Download it for the rest."),
      ),
    );
  }

  show("browser");
  const files = mountFiles(browser, app, { base: "#/files", parts: app.rest() });
  return {
    leave: files.leave,
    update(parts) {
      show("browser");
      files.update(parts);
      return true;
    },
  };
}

function pathOf(artifact) {
  return artifact.ref.replace("ax://", "artifacts/");
}

function fileName(artifact) {
  return `${artifact.ref.replace("ax://", "").replace("/", "-")}.txt`;
}
