// Health: version, engine, mounted servers, limits and how full they are, refused logins, problems.

import { get } from "../api.js";
import { empty, fill, h, icon, tile } from "../dom.js";
import * as format from "../format.js";
import { publicState } from "../public_name.js";

const REFRESH_MS = 3_000;
const REASONS = {
  host: "a foreign name",
  origin: "another web page",
  no_token: "no token",
  wrong_token: "a wrong token",
  bad_header: "a malformed header",
};

const MOUNT_KINDS = { running: "good", connected: "good", failed: "bad" };

export default { id: "health", mount };

/**
 * @param {HTMLElement} root
 * @param {App} app
 */
function mount(root, app) {
  const body = h("div", { class: "stack" });
  let timer;
  fill(
    root,
    h("div", { class: "page-head" }, h("div", {}, h("h1", {}, "Health"), h("p", {}, "How the daemon is doing."))),
    body,
  );

  async function load() {
    try {
      paint(await get("status"));
    } catch {
      // The connection says so already.
    }
    timer = setTimeout(load, REFRESH_MS);
  }

  function paint(state) {
    const isWell = state.status === "ok";
    const refused = Object.entries(state.refusals ?? {});
    const mounts = Object.entries(state.mounts ?? {});
    const problems = state.registry.problems;
    fill(
      body,
      h(
        "div",
        { class: "tiles" },
        tile(
          "Status",
          h(
            "span",
            { class: "row" },
            h("span", { class: `dot ${isWell ? "good" : "bad"}` }),
            isWell ? "Well" : "Degraded",
          ),
          isWell ? "tools.json is in force" : "tools.json has a mistake",
        ),
        tile("Version", state.version, `process ${state.pid}, up for ${format.age(state.uptime_s)}`),
        tile("Search engine", state.search.engine, state.search.program),
        tile("Pruning engine", state.pruning.engine, state.pruning.service ?? "in worker processes of the daemon"),
        tile(
          "tools.json",
          state.registry.active_profile,
          `${format.plural(state.registry.reloads, "reload")} · ${state.registry.path}`,
        ),
        state.public && tile("Public name", publicState(state.public), state.public.problem ?? state.public.url),
      ),
      h(
        "section",
        { class: "card" },
        h("header", {}, h("h2", {}, "Limits, and how full they are")),
        h(
          "div",
          { class: "body meters" },
          (state.usage ?? []).map((each) => meter(each)),
        ),
      ),
      h(
        "div",
        { class: "tiles wide" },
        h(
          "section",
          { class: "card" },
          h("header", {}, h("h2", {}, "Mounted servers")),
          mounts.length === 0
            ? empty(
                "box",
                "None is mounted",
                "A category of tools.json can mount another MCP server; its tools are switched like our own.",
              )
            : h(
                "table",
                { class: "table" },
                h(
                  "tbody",
                  {},
                  mounts.map(([name, each]) =>
                    h(
                      "tr",
                      {},
                      h("td", {}, h("strong", {}, name)),
                      h(
                        "td",
                        {},
                        h(
                          "span",
                          {
                            class: `chip ${MOUNT_KINDS[each.state] ?? ""}`,
                          },
                          each.state,
                        ),
                      ),
                      h("td", { class: "number muted" }, format.plural(each.tools, "tool")),
                    ),
                  ),
                ),
              ),
        ),
        h(
          "section",
          { class: "card" },
          h("header", {}, h("h2", {}, "Refused requests")),
          refused.length === 0
            ? empty("shield", "None", "No refused requests since the start.")
            : h(
                "table",
                { class: "table" },
                h(
                  "tbody",
                  {},
                  refused.map(([reason, count]) =>
                    h(
                      "tr",
                      {},
                      h("td", {}, `because of ${REASONS[reason] ?? reason}`),
                      h("td", { class: "number" }, format.count(count)),
                    ),
                  ),
                ),
              ),
        ),
        h(
          "section",
          { class: "card" },
          h("header", {}, h("h2", {}, "Problems and warnings")),
          problems.length === 0
            ? empty("check", "No problem", "tools.json is as it should be.")
            : h(
                "ul",
                { class: "problems" },
                problems.map((each) =>
                  h(
                    "li",
                    { class: "row" },
                    icon("alert", 16),
                    h("span", { class: "grow break" }, h("code", {}, each.pointer || "/"), " ", each.message),
                    h("span", { class: `chip ${each.severity === "error" ? "bad" : "warn"}` }, each.severity),
                  ),
                ),
              ),
        ),
      ),
    );
  }

  load();
  app.watch(["board"], () => {
    clearTimeout(timer);
    load();
  });
  return () => clearTimeout(timer);
}

function meter({ name, used, most, unit }) {
  const show = unit === "bytes" ? format.bytes : format.count;
  const share = most ? used / most : 0;
  const bar = h("div", { class: `meter-fill ${share > 0.9 ? "bad" : share > 0.7 ? "warn" : ""}` });
  bar.style.width = `${Math.min(100, share * 100)}%`;
  return h(
    "div",
    { class: "meter" },
    h(
      "div",
      { class: "row between" },
      h("span", {}, name),
      h("span", { class: "muted small" }, `${show(used)} of ${show(most)}`),
    ),
    h(
      "div",
      {
        class: "meter-track",
        role: "meter",
        "aria-valuenow": String(used),
        "aria-valuemin": "0",
        "aria-valuemax": String(most),
        "aria-label": name,
      },
      bar,
    ),
  );
}
