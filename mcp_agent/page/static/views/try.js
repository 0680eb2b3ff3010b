// Try: any tool as a form made from its schema, called as a profile or a token would; every form of the answer, and the
// same call as curl and as code.

import { get, post } from "../api.js";
import { callSamples } from "../call_samples.js";
import { button, empty, fill, h, select, tabs } from "../dom.js";
import * as format from "../format.js";
import { createForm } from "../schema_form.js";

const TICK_MS = 100;
const SAMPLES = { curl: "curl", python: "Python", command: "mcp-agent call" };
const FORMS = { text: "Text, for models", json: "JSON, for programs", compact: "Compact" };

export default { id: "try", mount };

/**
 * @param {HTMLElement} root
 * @param {App} app
 */
function mount(root, app) {
  const as = h("div", { class: "try-as" });
  const picker = h("div", { class: "try-pick" });
  const form = h("section", { class: "card" });
  const answer = h("section", { class: "card", aria: { label: "The answer", live: "polite" } });
  let who = "profile:";
  let tools = [];
  let chosen;
  let values = new Map();
  let stopTimer = () => {};

  fill(
    root,
    h(
      "div",
      { class: "page-head" },
      h(
        "div",
        {},
        h("h1", {}, "Try a tool"),
        h("p", {}, "Call any tool as a client would, and see what a model gets."),
      ),
      h("div", { class: "row" }, as, picker),
    ),
    h("div", { class: "split halves" }, form, answer),
  );

  async function loadCallers() {
    const tokens = (await app.attempt(() => get("tokens")))?.tokens ?? [];
    const profiles = app.store.state.board?.profiles ?? [];
    const options = [
      ["profile:", "As the active profile"],
      ...profiles.map((each) => [`profile:${each.id}`, `As the profile ${each.label}`]),
      ...tokens.map((each) => [`token:${each.name}`, `As the token ${each.name}`]),
    ];
    const choose = (value) => {
      who = value;
      loadTools();
    };
    fill(as, select(options, who, choose, { aria: { label: "Call as" } }));
  }

  /** Which profile or token the call is made as, as the daemon wants it. */
  function caller() {
    const colon = who.indexOf(":");
    const name = who.slice(colon + 1);
    return name ? { [who.slice(0, colon)]: name } : {};
  }

  async function loadTools() {
    const found = await app.attempt(() => get("try/tools", caller()));
    if (!found) return;
    tools = found.tools;
    if (!tools.some((tool) => tool.name === chosen)) chosen = firstTool()?.name;
    const names = tools.map((tool) => tool.name);
    const choose = (name) => {
      chosen = name;
      values = new Map();
      paintForm();
      paintEmpty();
    };
    fill(picker, names.length > 0 && select(names, chosen, choose, { aria: { label: "Tool" } }));
    paintForm();
  }

  function firstTool() {
    const asked = app.rest()[0];
    return tools.find((tool) => tool.name === asked) ?? tools.find((tool) => tool.effect === "read") ?? tools[0];
  }

  function paintEmpty() {
    const text = "Fill in the form and call the tool. What it does is real: a write writes, a command runs.";
    fill(answer, empty("try", "No answer yet", text));
  }

  function paintForm() {
    const tool = tools.find((each) => each.name === chosen);
    if (!tool) {
      fill(form, empty("tools", "No tool", "This caller sees no tool: every one is switched off for it."));
      return;
    }
    const samples = h("div", { class: "stack" });
    let sample = "curl";
    const inputs = createForm(tool.schema, values, () => paintSamples());
    const submit = h("button", { class: "button primary", type: "submit" }, `Call ${tool.name}`);

    function paintSamples() {
      const text = callSamples(tool.name, inputs.read())[sample];
      const choose = (id) => {
        sample = id;
        paintSamples();
      };
      fill(
        samples,
        h(
          "div",
          { class: "row between" },
          tabs("The same as", SAMPLES, sample, choose),
          button("Copy", () => app.copy(text), { icon: "copy", kind: "ghost" }),
        ),
        h("pre", { class: "code" }, text),
      );
    }

    async function run(event) {
      event.preventDefault();
      if (!inputs.check()) return;
      submit.disabled = true;
      await callTool(tool.name, inputs.read());
      submit.disabled = false;
    }

    fill(
      form,
      h(
        "header",
        {},
        h(
          "div",
          { class: "grow" },
          h("h2", { class: "mono" }, tool.name),
          h("p", { class: "small muted" }, tool.description),
        ),
        h("span", { class: `chip ${tool.effect}` }, tool.effect),
      ),
      h(
        "form",
        { class: "body stack", noValidate: true, on: { submit: run } },
        inputs.elements,
        inputs.elements.length === 0 && h("p", { class: "muted" }, "It takes no arguments."),
        h("div", { class: "row" }, submit),
      ),
      h("div", { class: "body try-code" }, h("h3", {}, "The same elsewhere"), samples),
    );
    paintSamples();
  }

  async function callTool(tool, given) {
    const id = Array.from(crypto.getRandomValues(new Uint32Array(4)), (each) => each.toString(36)).join("");
    const timer = h("span", { class: "number", aria: { live: "off" } }, format.duration(0));
    const began = Date.now();
    const ticking = setInterval(() => fill(timer, format.duration(Date.now() - began)), TICK_MS);
    stopTimer = () => clearInterval(ticking);
    const cancel = button("Cancel", () => app.attempt(() => post(`try/${id}/cancel`)), {
      icon: "stop",
      kind: "danger",
    });
    fill(answer, h("div", { class: "body row between running" }, h("span", {}, "Running… ", timer), cancel));
    answer.scrollIntoView({ block: "nearest" });
    const found = await app.attempt(() => post("try", { id, tool, arguments: given, ...caller() }));
    stopTimer();
    if (found) paintAnswer(found);
    else paintEmpty();
    answer.scrollIntoView({ block: "nearest" });
  }

  function paintAnswer(found) {
    const names = Object.keys(found.forms ?? {});
    const body = h("div", { class: "body stack" });
    const paint = (which) => {
      const labels = Object.fromEntries(names.map((name) => [name, FORMS[name]]));
      const size = which && found.sizes[which];
      fill(
        body,
        found.message && h("p", { class: "note bad" }, found.message),
        which && [
          h(
            "div",
            { class: "row between" },
            tabs("Form of the answer", labels, which, paint),
            h("span", { class: "small muted" }, `${format.count(size.tokens)} tokens · ${format.bytes(size.bytes)}`),
          ),
          h("pre", { class: "code wrap answer" }, found.forms[which]),
        ],
        found.cut && h("p", { class: "hint" }, "Only the beginning is shown here."),
      );
    };
    fill(
      answer,
      h(
        "header",
        {},
        h(
          "div",
          { class: "row" },
          h("h2", {}, "Answer"),
          h("span", { class: `chip ${found.ok ? "good" : "bad"}` }, found.code),
        ),
        h("span", { class: "small muted" }, format.duration(found.ms)),
      ),
      body,
    );
    paint(names[0]);
  }

  let seen;
  app.watch(["board"], () => {
    const { board } = app.store.state;
    loadCallers();
    const now = board && JSON.stringify(board.profiles.map((each) => each.visible));
    if (now && now !== seen) {
      seen = now;
      loadTools();
    }
  });
  paintEmpty();
  return () => stopTimer();
}
