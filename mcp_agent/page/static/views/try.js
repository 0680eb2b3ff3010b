// Try: any tool as a form made from its schema, called as a profile or a token would; both forms of the answer, and the
// same call as curl and as code.

import { explain, get, post } from "../api.js";
import { callSamples } from "../call_samples.js";
import { button, empty, field, fill, h, select } from "../dom.js";
import * as format from "../format.js";

export default { id: "try", mount };

function mount(root, app) {
  const as = h("div", { class: "try-as" });
  const picker = h("div", { class: "try-pick" });
  const form = h("section", { class: "card" });
  const answer = h("section", { class: "card", aria: { label: "The answer", live: "polite" } });
  let who = "profile:";
  let tools = [];
  let chosen;
  let values = new Map();

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
    const board = app.store.state.board;
    const tokens = (await app.attempt(() => get("tokens")))?.tokens ?? [];
    const options = [
      ["profile:", "As the active profile"],
      ...(board?.profiles ?? []).map((each) => [`profile:${each.id}`, `As the profile ${each.label}`]),
      ...tokens.map((each) => [`token:${each.name}`, `As the token ${each.name}`]),
    ];
    fill(
      as,
      select(
        options,
        who,
        (value) => {
          who = value;
          loadTools();
        },
        { aria: { label: "Call as" } },
      ),
    );
  }

  const caller = () => {
    const [kind, name] = [who.slice(0, who.indexOf(":")), who.slice(who.indexOf(":") + 1)];
    return name ? { [kind]: name } : {};
  };

  async function loadTools() {
    const found = await app.attempt(() => get("try/tools", caller()));
    if (!found) return;
    tools = found.tools;
    const asked = app.rest()[0];
    if (!tools.some((tool) => tool.name === chosen))
      chosen = tools.some((tool) => tool.name === asked)
        ? asked
        : (tools.find((tool) => tool.effect === "read") ?? tools[0])?.name;
    fill(
      picker,
      tools.length > 0 &&
        select(
          tools.map((tool) => tool.name),
          chosen,
          (name) => {
            chosen = name;
            values = new Map();
            paintForm();
            paintEmpty();
          },
          { aria: { label: "Tool" } },
        ),
    );
    paintForm();
  }

  function paintEmpty() {
    fill(
      answer,
      empty(
        "try",
        "No answer yet",
        "Fill in the form and call the tool. What it does is real: a write writes, a command runs.",
      ),
    );
  }

  function paintForm() {
    const tool = tools.find((each) => each.name === chosen);
    if (!tool) {
      fill(form, empty("tools", "No tool", "This caller sees no tool: every one is switched off for it."));
      return;
    }
    const required = new Set(tool.schema.required ?? []);
    const properties = Object.entries(tool.schema.properties ?? {}).sort(
      ([a], [b]) => Number(required.has(b)) - Number(required.has(a)),
    );
    const inputs = properties.map(([name, schema]) => [
      name,
      schema,
      control(name, schema, required.has(name), values, () => paintCode()),
    ]);
    const code = h("div", { class: "stack" });
    let kind = "curl";

    const read = () => {
      const given = {};
      const problems = [];
      for (const [name, , input] of inputs) {
        const { value, problem } = input.read();
        input.element.setAttribute("aria-invalid", String(Boolean(problem)));
        if (problem) problems.push(`${name}: ${problem}`);
        else if (value !== undefined) given[name] = value;
        else if (required.has(name)) problems.push(`${name} is needed`);
      }
      return { given, problems };
    };

    function paintCode() {
      const { given } = read();
      const texts = callSamples(tool.name, given);
      fill(
        code,
        h(
          "div",
          { class: "row between" },
          h(
            "div",
            { class: "tabs", role: "group", aria: { label: "The same as" } },
            [
              ["curl", "curl"],
              ["python", "Python"],
              ["command", "mcp-agent call"],
            ].map(([id, text]) =>
              button(
                text,
                () => {
                  kind = id;
                  paintCode();
                },
                { aria: { pressed: String(kind === id) } },
              ),
            ),
          ),
          button(
            "Copy",
            () =>
              navigator.clipboard.writeText(texts[kind]).then(
                () => app.say("Copied"),
                () => app.say("The browser does not let the page copy", "bad"),
              ),
            { icon: "copy", kind: "ghost" },
          ),
        ),
        h("pre", { class: "code" }, texts[kind]),
      );
    }

    const run = h("button", { class: "button primary", type: "submit" }, `Call ${tool.name}`);
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
        {
          class: "body stack",
          noValidate: true,
          on: {
            submit: async (event) => {
              event.preventDefault();
              const { given, problems } = read();
              if (problems.length) {
                app.say(problems.join("; "), "bad");
                return;
              }
              run.disabled = true;
              fill(answer, h("p", { class: "empty" }, "Running…"));
              const found = await app.attempt(() => post("try", { tool: tool.name, arguments: given, ...caller() }));
              run.disabled = false;
              if (found) paintAnswer(found);
              else paintEmpty();
            },
          },
        },
        inputs.map(([name, schema, input]) =>
          field(`${name}${required.has(name) ? "" : " (optional)"}`, input.element, schema.description),
        ),
        inputs.length === 0 && h("p", { class: "muted" }, "It takes no arguments."),
        h("div", { class: "row" }, run),
      ),
      h("div", { class: "body try-code" }, h("h3", {}, "The same elsewhere"), code),
    );
    paintCode();
  }

  function paintAnswer(found) {
    const forms = found.forms ?? {};
    const names = { text: "Text, for models", json: "JSON, for programs", compact: "Compact" };
    let which = Object.keys(forms)[0];
    const body = h("div", { class: "body stack" });
    const paint = () =>
      fill(
        body,
        found.message && h("p", { class: "note bad" }, found.message),
        which &&
          h(
            "div",
            { class: "row between" },
            h(
              "div",
              { class: "tabs", role: "group", aria: { label: "Form of the answer" } },
              Object.keys(forms).map((name) =>
                button(
                  names[name],
                  () => {
                    which = name;
                    paint();
                  },
                  { aria: { pressed: String(which === name) } },
                ),
              ),
            ),
            h(
              "span",
              { class: "small muted" },
              `${format.count(found.sizes[which].tokens)} tokens · ${format.bytes(found.sizes[which].bytes)}`,
            ),
          ),
        which && h("pre", { class: "code wrap answer" }, forms[which]),
        found.cut && h("p", { class: "hint" }, "Only the beginning is shown here."),
      );
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
    paint();
  }

  app.watch(["board"], () => loadCallers());
  let seen;
  app.watch(["board"], () => {
    const now = app.store.state.board && JSON.stringify(app.store.state.board.profiles.map((each) => each.visible));
    if (now && now !== seen) {
      seen = now;
      loadTools();
    }
  });
  paintEmpty();
}

/** An input for one argument, and how its value is read. */
function control(name, schema, isRequired, values, onInput) {
  const kept = values.get(name);
  const type = Array.isArray(schema.type) ? schema.type.find((each) => each !== "null") : schema.type;
  const listen = (element, read) => {
    element.addEventListener("input", () => {
      values.set(name, element.type === "checkbox" ? element.checked : element.value);
      onInput();
    });
    return { element, read: () => read(element) };
  };
  if (schema.enum) {
    return listen(
      select(
        [
          ["", isRequired ? "Choose…" : schema.default === undefined ? "–" : `– (${schema.default})`],
          ...schema.enum.map((each) => [each, each]),
        ],
        kept ?? "",
        undefined,
        { name },
      ),
      (element) => ({ value: element.value || undefined }),
    );
  }
  if (type === "boolean") {
    const standard = schema.default === undefined ? "–" : `– (${schema.default})`;
    return listen(
      select(
        [
          ["", standard],
          ["true", "true"],
          ["false", "false"],
        ],
        kept ?? "",
        undefined,
        { name },
      ),
      (element) => ({ value: element.value === "" ? undefined : element.value === "true" }),
    );
  }
  if (type === "integer" || type === "number") {
    return listen(
      h("input", {
        class: "input",
        type: "text",
        inputMode: "numeric",
        name,
        value: kept ?? "",
        placeholder: schema.default === undefined ? "" : String(schema.default),
      }),
      (element) => {
        if (element.value.trim() === "") return {};
        const number = Number(element.value);
        return Number.isFinite(number) && (type === "number" || Number.isInteger(number))
          ? { value: number }
          : { problem: "must be a number" };
      },
    );
  }
  if (type === "array" || type === "object" || type === undefined) {
    const example = type === "array" ? "[]" : "{}";
    return listen(
      h("textarea", {
        class: "input",
        name,
        value: kept ?? "",
        placeholder: `JSON, such as ${example}`,
        spellcheck: false,
      }),
      (element) => {
        if (element.value.trim() === "") return {};
        try {
          return { value: JSON.parse(element.value) };
        } catch (error) {
          return { problem: `is no JSON: ${explain(error)}` };
        }
      },
    );
  }
  const isLong = /content|text|command|input|query/.test(name);
  return listen(
    h(isLong ? "textarea" : "input", {
      class: "input mono",
      name,
      value: kept ?? "",
      placeholder: schema.default ?? "",
      spellcheck: false,
      autocomplete: "off",
    }),
    (element) => ({
      value: element.value === "" && !(isRequired && isLong && name !== "command") ? undefined : element.value,
    }),
  );
}
