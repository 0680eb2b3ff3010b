// Connect: what to do for each client, who is connected now and what they last did, and the tokens.

import { get, post } from "../api.js";
import { button, empty, fill, h, select } from "../dom.js";
import * as format from "../format.js";

const REFRESH_MS = 3_000;

export default { id: "connect", mount };

function mount(root, app) {
  const clients = h("section", { class: "card" });
  const tokens = h("section", { class: "card" });
  const known = h("section", { class: "card" });
  let list;
  let chosen = "claude-code";
  let timer;

  fill(
    root,
    h(
      "div",
      { class: "page-head" },
      h(
        "div",
        {},
        h("h1", {}, "Connect"),
        h("p", {}, "How each client reaches this machine, which of them are connected now, and their tokens."),
      ),
    ),
    h("div", { class: "stack" }, clients, known, tokens),
  );

  async function loadClients() {
    let answer;
    try {
      answer = await get("clients");
    } catch {
      return;
    }
    const groups = new Map();
    for (const each of answer.clients) {
      const key = [each.token, each.client, each.profile, each.form].join("\n");
      const found = groups.get(key) ?? { ...each, connections: 0, transports: new Set() };
      found.connections += 1;
      found.transports.add(each.transport);
      groups.set(key, found);
    }
    fill(
      clients,
      h(
        "header",
        {},
        h("h2", {}, "Connected now"),
        h("span", { class: "chip" }, format.plural(answer.clients.length, "connection")),
      ),
      groups.size === 0
        ? empty("connect", "Nobody is connected", "As soon as a client opens a connection, it is listed here.")
        : h(
            "div",
            { class: "scroll-x" },
            h(
              "table",
              { class: "table" },
              h(
                "thead",
                {},
                h(
                  "tr",
                  {},
                  ["Client", "Token", "Profile", "Results as", "Last seen"].map((text) =>
                    h("th", { scope: "col" }, text),
                  ),
                ),
              ),
              h(
                "tbody",
                {},
                [...groups.values()].map((each) => {
                  const last = app.store.state.lines.find(
                    (line) => line.tool && line.client === each.token && (line.program ?? "") === each.client,
                  );
                  return h(
                    "tr",
                    {},
                    h(
                      "td",
                      {},
                      h("strong", {}, each.client || "a client without a name"),
                      each.connections > 1 && h("span", { class: "muted small" }, ` ×${each.connections}`),
                    ),
                    h("td", {}, each.token),
                    h(
                      "td",
                      {},
                      each.profile,
                      h("span", { class: "muted small" }, ` · ${format.plural(each.tools, "tool")}`),
                    ),
                    h("td", {}, h("span", { class: "chip" }, each.form)),
                    h(
                      "td",
                      { class: "nowrap" },
                      last
                        ? [
                            h("span", { class: "mono" }, last.tool),
                            h("span", { class: "muted small" }, ` ${format.age((Date.now() - last.at) / 1000)} ago`),
                          ]
                        : h("span", { class: "muted" }, "no call yet"),
                    ),
                  );
                }),
              ),
            ),
          ),
    );
  }

  async function loadKnown() {
    const answer = await app.attempt(() => get("clients/known"));
    if (!answer) return;
    list = answer;
    paintKnown();
  }

  function paintKnown() {
    const one = list.known.find((each) => each.id === chosen) ?? list.known[0];
    fill(
      known,
      h("header", {}, h("h2", {}, "Connect a client"), h("code", { class: "chip" }, list.url)),
      h(
        "div",
        { class: "known" },
        h(
          "div",
          { class: "known-list", role: "group", aria: { label: "Clients" } },
          list.known.map((each) =>
            h(
              "button",
              {
                type: "button",
                class: "known-item",
                aria: { pressed: String(each.id === one.id) },
                on: {
                  click: () => {
                    chosen = each.id;
                    paintKnown();
                  },
                },
              },
              h("span", { class: "grow clip" }, each.title),
              each.installed && h("span", { class: "chip good" }, "here"),
            ),
          ),
        ),
        h(
          "div",
          { class: "body stack grow" },
          h("div", { class: "stack" }, h("h3", {}, "On this machine, in one command"), copyable(one.command)),
          h(
            "div",
            { class: "stack" },
            h("h3", {}, one.file ? `By hand, in ${one.file}` : "Paste this"),
            copyable(one.text),
            hint(one) && h("p", { class: "hint" }, hint(one)),
          ),
          (one.long_results || one.check) &&
            h(
              "p",
              { class: "note" },
              one.long_results && `${one.title} ${one.long_results}. `,
              one.check && `To see that it works: ${one.check}`,
            ),
        ),
      ),
    );
  }

  const hint = (one) =>
    one.variable
      ? `The token is taken from the variable ${one.variable}.`
      : one.text.includes("<token>") && "Create a token below, and put it in the place of <token>.";

  function copyable(text) {
    return h(
      "div",
      { class: "copyable" },
      h("pre", { class: "code" }, text),
      button(
        "",
        () =>
          navigator.clipboard.writeText(text).then(
            () => app.say("Copied"),
            () => app.say("The browser does not let the page copy", "bad"),
          ),
        { icon: "copy", kind: "ghost", label: "Copy" },
      ),
    );
  }

  async function loadTokens() {
    const answer = await app.attempt(() => get("tokens"));
    if (!answer) return;
    const label = (id) =>
      id ? (app.store.state.board?.profiles.find((each) => each.id === id)?.label ?? id) : "the active profile";
    fill(
      tokens,
      h(
        "header",
        {},
        h("h2", {}, "Tokens"),
        button("Create a token", () => create(), { icon: "plus", kind: "primary" }),
      ),
      h(
        "div",
        { class: "scroll-x" },
        h(
          "table",
          { class: "table" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["Name", "Profile", "Results as", "Created", ""].map((text) => h("th", { scope: "col" }, text)),
            ),
          ),
          h(
            "tbody",
            {},
            h(
              "tr",
              {},
              h("td", {}, h("strong", {}, "owner")),
              h("td", {}, "the active profile"),
              h("td", {}, "auto"),
              h("td", { class: "muted break" }, answer.owner_file),
              h("td", {}),
            ),
            answer.tokens.map((each) =>
              h(
                "tr",
                {},
                h("td", {}, h("strong", { class: "break" }, each.name)),
                h("td", {}, label(each.profile)),
                h("td", {}, each.form),
                h("td", { class: "nowrap" }, format.day(each.created * 1000)),
                h(
                  "td",
                  { class: "number" },
                  button("Revoke", () => revoke(each), { kind: "tiny danger", aria: { label: `Revoke ${each.name}` } }),
                ),
              ),
            ),
          ),
        ),
      ),
    );
  }

  async function create() {
    const profiles = [
      ["", "The active profile"],
      ...(app.store.state.board?.profiles ?? []).map((each) => [each.id, each.label]),
    ];
    const answer = await app.ask({
      title: "Create a token",
      text: "One for each client: then each has its own profile, and can be revoked alone.",
      fields: [
        { name: "name", label: "Name of the client", hint: "Letters, digits, dots and dashes.", maxLength: 64 },
        { name: "profile", label: "Profile", input: select(profiles, "") },
        {
          name: "form",
          label: "Results as",
          input: select(
            [
              ["auto", "auto: by the name of the client"],
              ["text", "text, for models"],
              ["json", "JSON, for programs"],
            ],
            "auto",
          ),
        },
      ],
      action: "Create",
    });
    if (!answer) return;
    const made = await app.attempt(() =>
      post("tokens", { name: answer.name, profile: answer.profile || undefined, form: answer.form }),
    );
    if (!made) return;
    loadTokens();
    const dialog = h(
      "dialog",
      { class: "dialog", aria: { label: "The new token" }, on: { close: () => dialog.remove() } },
      h(
        "form",
        { method: "dialog" },
        h("h2", {}, `The token of ${made.name}`),
        h("p", { class: "muted" }, "It is shown this once. Only its hash is kept."),
        copyable(made.token),
        h("div", { class: "row end" }, h("button", { class: "button primary" }, "Done")),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  }

  async function revoke(token) {
    if (
      !(await app.ask({
        title: `Revoke ${token.name}?`,
        text: "Its streams are closed, and the client can call nothing any more.",
        action: "Revoke",
        kind: "danger",
      }))
    )
      return;
    await app.attempt(() => post(`tokens/${encodeURIComponent(token.name)}/revoke`), `${token.name} is revoked`);
    loadTokens();
  }

  function tick() {
    loadClients();
    timer = setTimeout(tick, REFRESH_MS);
  }
  tick();
  loadKnown();
  app.watch(["board"], loadTokens);
  return () => clearTimeout(timer);
}
