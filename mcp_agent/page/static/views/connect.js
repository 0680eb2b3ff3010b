// Connect: what to do for each client, who is connected and what they last did, the tokens, and this page on a phone.

import { get, post } from "../api.js";
import { button, empty, fill, h, select, svg, table, tabs } from "../dom.js";
import * as format from "../format.js";
import { publicCard } from "../public_name.js";

const REFRESH_MS = 3_000;
const DAY_S = 24 * 3600;
const LIFETIMES = [
  ["", "never"],
  [String(3600), "in an hour"],
  [String(DAY_S), "in a day"],
  [String(7 * DAY_S), "in a week"],
  [String(30 * DAY_S), "in 30 days"],
  [String(90 * DAY_S), "in 90 days"],
  [String(365 * DAY_S), "in a year"],
];
const FORMS = [
  ["auto", "auto: by the name of the client"],
  ["text", "text, for models"],
  ["json", "JSON, for programs"],
];
const PLACES = { here: "On this machine", elsewhere: "On another machine" };

export default { id: "connect", mount };

/**
 * @param {HTMLElement} root
 * @param {App} app
 */
function mount(root, app) {
  const clients = h("section", { class: "card" });
  const known = h("section", { class: "card" });
  const tokens = h("section", { class: "card" });
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
    h("div", { class: "stack" }, clients, publicCard(app, copyable), known, tokens, phoneCard(app)),
  );
  mountKnown(known, app);
  const loadTokens = mountTokens(tokens, app);
  app.watch(["board"], loadTokens);

  let timer;
  async function tick() {
    try {
      paintClients(clients, app, (await get("clients")).clients);
    } catch {
      // The connection says so already.
    }
    timer = setTimeout(tick, REFRESH_MS);
  }
  tick();
  return () => clearTimeout(timer);
}

function paintClients(card, app, connections) {
  const groups = Map.groupBy(connections, (each) => [each.token, each.client, each.profile, each.form].join("\n"));
  const rows = [...groups.values()].map((each) => clientRow(app, each));
  fill(
    card,
    h(
      "header",
      {},
      h("h2", {}, "Connected now"),
      h("span", { class: "chip" }, format.plural(connections.length, "connection")),
    ),
    rows.length === 0
      ? empty("connect", "Nobody is connected", "As soon as a client opens a connection, it is listed here.")
      : h("div", { class: "scroll-x" }, table(["Client", "Token", "Profile", "Results as", "Last seen"], rows)),
  );
}

function clientRow(app, same) {
  const [one] = same;
  const last = app.store.state.lines.find(
    (line) => line.tool && line.client === one.token && (line.program ?? "") === one.client,
  );
  return [
    [
      h("strong", {}, one.client || "a client without a name"),
      same.length > 1 && h("span", { class: "muted small" }, ` ×${same.length}`),
    ],
    one.token,
    [one.profile, h("span", { class: "muted small" }, ` · ${format.plural(one.tools, "tool")}`)],
    h("span", { class: "chip" }, one.form),
    last
      ? h(
          "span",
          { class: "nowrap" },
          h("span", { class: "mono" }, last.tool),
          h("span", { class: "muted small" }, ` ${format.age((Date.now() - last.at) / 1000)} ago`),
        )
      : h("span", { class: "muted" }, "no call yet"),
  ];
}

async function mountKnown(card, app) {
  const answer = await app.attempt(() => get("clients/known"));
  if (!answer) return;
  let chosen = "claude-code";
  let place = "here";

  function paint() {
    const one = answer.known.find((each) => each.id === chosen) ?? answer.known[0];
    const choosePlace = (id) => {
      place = id;
      paint();
    };
    const choose = (id) => {
      chosen = id;
      paint();
    };
    fill(
      card,
      h("header", {}, h("h2", {}, "Connect a client"), tabs("Where the client is", PLACES, place, choosePlace)),
      h(
        "div",
        { class: "known" },
        h(
          "div",
          { class: "known-list", role: "group", aria: { label: "Clients" } },
          answer.known.map((each) => knownItem(each, each === one, () => choose(each.id))),
        ),
        h(
          "div",
          { class: "body stack grow" },
          place === "here" ? stepsHere(app, one) : stepsElsewhere(app, one, answer),
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
  paint();
}

function knownItem(one, isChosen, choose) {
  return h(
    "button",
    { type: "button", class: "known-item", aria: { pressed: String(isChosen) }, on: { click: choose } },
    h("span", { class: "grow clip" }, one.title),
    one.installed && h("span", { class: "chip good" }, "here"),
  );
}

function stepsHere(app, one) {
  return [
    step("In one command", copyable(app, one.command)),
    step(byHand(one), copyable(app, one.text), tokenHint(one)),
  ];
}

/** What to do for a client on another machine: through ssh, which needs no token; or by the address, with one. */
function stepsElsewhere(app, one, { host, url }) {
  const isLocal = ["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);
  const port = location.port || (location.protocol === "https:" ? "443" : "80");
  const tunnel = `ssh -N -L ${port}:${location.hostname}:${port} ${host}`;
  const needsTunnel = "This daemon listens for its own machine only. Run this there, and leave it running:";
  return [
    h(
      "p",
      { class: "muted" },
      `Type these on the machine of the client. ${host} is this one: change it if ssh has`,
      " another name for it.",
    ),
    step(
      "Through ssh, with no token and no open port",
      one.elsewhere && copyable(app, `${one.command} --ssh ${host}`),
      one.elsewhere && h("p", { class: "hint" }, `Or by hand, without mcp-agent there${inFile(one)}:`),
      one.elsewhere ? copyable(app, one.elsewhere) : h("p", { class: "muted" }, "It speaks HTTP only: use the URL."),
    ),
    step(
      "By URL, with a token that you create below",
      isLocal && h("p", { class: "hint" }, needsTunnel),
      isLocal && copyable(app, tunnel),
      copyable(app, `${url}\nAuthorization: Bearer <token>`),
    ),
  ];
}

function step(title, ...parts) {
  return h("div", { class: "stack" }, h("h3", {}, title), parts);
}

function inFile(one) {
  return one.file ? `, in ${one.file}` : "";
}

function byHand(one) {
  return one.file ? `By hand${inFile(one)}` : "Paste this";
}

function tokenHint(one) {
  if (!one.text.includes("<token>")) return undefined;
  return h("p", { class: "hint" }, "Create a token below, and put it in the place of <token>.");
}

function copyable(app, text) {
  const copy = button("", () => app.copy(text), { icon: "copy", kind: "ghost", label: "Copy" });
  return h("div", { class: "copyable" }, h("pre", { class: "code" }, text), copy);
}

/** The tokens. Returns what loads them again. */
function mountTokens(card, app) {
  const profileName = (id) => {
    const profile = app.store.state.board?.profiles.find((each) => each.id === id);
    return id ? (profile?.label ?? id) : "the active profile";
  };

  async function load() {
    const answer = await app.attempt(() => get("tokens"));
    if (!answer) return;
    const owner = [
      h("strong", {}, "owner"),
      profileName(""),
      "auto",
      h("span", { class: "muted break" }, answer.owner_file),
    ];
    const rows = answer.tokens.map((each) => [
      h("strong", { class: "break" }, each.name),
      profileName(each.profile),
      each.program === null ? each.form : h("span", { class: "chip" }, `OAuth: ${each.program || "no name"}`),
      h("span", { class: "nowrap" }, format.day(each.created * 1000)),
      expiry(each),
      button("Revoke", () => revoke(each), { kind: "tiny danger", aria: { label: `Revoke ${each.name}` } }),
    ]);
    const columns = ["Name", "Profile", "Results as", "Created", "Expires", "#"];
    fill(
      card,
      h(
        "header",
        {},
        h("h2", {}, "Tokens"),
        button("Create a token", () => create(), { icon: "plus", kind: "primary" }),
      ),
      h("div", { class: "scroll-x" }, table(columns, [[...owner, "never", ""], ...rows])),
    );
  }

  async function create() {
    const profiles = (app.store.state.board?.profiles ?? []).map((each) => [each.id, each.label]);
    const answer = await app.ask({
      title: "Create a token",
      text: "One for each client: then each has its own profile, and can be revoked alone.",
      fields: [
        { name: "name", label: "Name of the client", hint: "Letters, digits, dots and dashes.", maxLength: 64 },
        { name: "profile", label: "Profile", input: select([["", "The active profile"], ...profiles], "") },
        { name: "form", label: "Results as", input: select(FORMS, "auto") },
        { name: "lifetime", label: "Expires", input: select(LIFETIMES, "") },
      ],
      action: "Create",
    });
    if (!answer) return;
    const { name, profile, form, lifetime } = answer;
    const wanted = { name, profile: profile || undefined, form, lifetime_s: lifetime ? Number(lifetime) : undefined };
    const made = await app.attempt(() => post("tokens", wanted));
    if (!made) return;
    load();
    showToken(app, made);
  }

  async function revoke(token) {
    const text = "Its streams are closed, and its holder can call nothing.";
    if (!(await app.ask({ title: `Revoke ${token.name}?`, text, action: "Revoke", kind: "danger" }))) return;
    await app.attempt(() => post(`tokens/${encodeURIComponent(token.name)}/revoke`), `${token.name} is revoked`);
    load();
  }

  return load;
}

function expiry({ expires }) {
  if (!expires) return "never";
  const left = expires - Date.now() / 1000;
  if (left <= 0) return h("span", { class: "chip bad" }, "expired");
  return h(
    "span",
    { class: "nowrap", title: new Date(expires * 1000).toLocaleString("en-GB") },
    `in ${format.age(left)}`,
  );
}

function showToken(app, { name, token }) {
  const dialog = h(
    "dialog",
    { class: "dialog", aria: { label: "The new token" }, on: { close: () => dialog.remove() } },
    h(
      "form",
      { method: "dialog" },
      h("h2", {}, `The token of ${name}`),
      h("p", { class: "muted" }, "It is shown this once. Only its hash is kept."),
      copyable(app, token),
      h("div", { class: "row end" }, h("button", { class: "button primary" }, "Done")),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}

/** A link that logs a phone in, as a code for its camera. */
function phoneCard(app) {
  const place = h("div", { class: "body stack" });
  const isLocal = ["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);

  function paint() {
    fill(
      place,
      h("p", { class: "muted" }, "The camera of a phone reads the code, and its browser is logged in. It works once."),
      isLocal &&
        h(
          "p",
          { class: "note warn" },
          `A phone cannot reach ${location.host}. Open this page by an address that it can reach, of a VPN or with `,
          h("code", {}, "mcp-agent serve --host"),
          ", and show the code there.",
        ),
      h("div", { class: "row" }, button("Show the code", show)),
    );
  }

  async function show() {
    const code = await app.attempt(() => post("ticket/qr"));
    if (!code) return;
    fill(place, qrCode(code.rows), h("p", { class: "muted" }, `It works once, within ${code.valid_s} seconds.`));
    setTimeout(paint, code.valid_s * 1000);
  }

  paint();
  return h("section", { class: "card" }, h("header", {}, h("h2", {}, "This page on a phone")), place);
}

function qrCode(rows) {
  const size = rows.length + 8;
  // Four light modules on each side belong to the code.
  const cells = rows.flatMap((row, y) => [...row].map((cell, x) => (cell === "1" ? `M${x + 4} ${y + 4}h1v1h-1z` : "")));
  return svg(
    "svg",
    { class: "qr", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": "A code with a login link" },
    svg("rect", { width: size, height: size, class: "qr-light" }),
    svg("path", { d: cells.join(""), class: "qr-dark" }),
  );
}
