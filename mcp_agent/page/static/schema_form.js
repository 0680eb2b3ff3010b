// A form for the arguments of a tool, made from its JSON Schema. What is missing or wrong is said at the field itself.

import { button, fill, h, newId, select } from "./dom.js";

const LONG_TEXT = /content|text|command|input|query|pattern|replacement|match|insert/;

/**
 * `values` keeps what was typed, by the name of the field, so that a form that is made again shows it.
 * @param {any} schema the schema of an object
 * @param {Map<string, any>} values
 * @param {() => void} onInput
 */
export function createForm(schema, values, onInput) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {})
    .sort(([a], [b]) => Number(required.has(b)) - Number(required.has(a)))
    .map(([name, each]) => createField(name, each, required.has(name), values, onInput));
  return {
    elements: fields.map((each) => each.element),
    /** The arguments as they are; those that cannot be used are left out. */
    read() {
      const pairs = fields.map((each) => [each.name, each.read().value]);
      return Object.fromEntries(pairs.filter(([, value]) => value !== undefined));
    },
    /** Say at each field what is wrong with it. Returns whether all are right; else the first has the focus. */
    check() {
      const wrong = fields.filter((each) => !each.check());
      wrong[0]?.focus();
      return wrong.length === 0;
    },
  };
}

/** What each kind of field has: `read()` gives {value} or {problem}, `check()` shows the problem. */
function createField(name, schema, isRequired, values, onInput) {
  const kind = Array.isArray(schema.type) ? schema.type.find((each) => each !== "null") : schema.type;
  const keep = (value) => {
    values.set(name, value);
    onInput();
  };
  /** @type {any} */
  const control =
    kind === "array" && schema.items?.properties
      ? itemsControl(name, schema.items, isRequired, values, onInput)
      : inputControl(name, kind, schema, isRequired, values.get(name), keep);
  const problem = h("span", { class: "field-problem", id: newId("problem"), role: "alert" });
  const label = h("span", { class: "field-label" }, isRequired ? name : `${name} (optional)`);
  const hint = schema.description && h("span", { class: "hint" }, schema.description);
  const isGroup = "check" in control;
  const element = isGroup
    ? h("fieldset", { class: "field items" }, h("legend", {}, label), hint, control.element, problem)
    : h("label", { class: "field" }, label, control.element, hint, problem);

  function read() {
    const found = control.read();
    if (found.value === undefined && !found.problem && isRequired) return { problem: `${name} is needed` };
    return found;
  }

  return {
    name,
    element,
    read,
    focus: () => control.focus(),
    check() {
      const found = read();
      const isWell = !found.problem && (!isGroup || control.check());
      fill(problem, found.problem);
      control.element.setAttribute("aria-invalid", String(Boolean(found.problem)));
      if (found.problem) control.element.setAttribute("aria-describedby", problem.id);
      else control.element.removeAttribute("aria-describedby");
      return isWell;
    },
  };
}

/** Objects in a list: a form for each, one more, one less. */
function itemsControl(name, schema, isRequired, values, onInput) {
  const kept = values.get(name) ?? (isRequired ? [new Map()] : []);
  values.set(name, kept);
  const element = h("div", { class: "stack" });
  let forms = [];

  function paint() {
    forms = kept.map((each) => createForm(schema, each, onInput));
    fill(
      element,
      forms.map((form, index) =>
        h(
          "section",
          { class: "item", aria: { label: `${name}, number ${index + 1}` } },
          h(
            "div",
            { class: "row between" },
            h("strong", { class: "small" }, `${index + 1}`),
            button("", () => change(() => kept.splice(index, 1)), {
              icon: "close",
              kind: "ghost",
              label: `Remove number ${index + 1}`,
            }),
          ),
          form.elements,
        ),
      ),
      button("Add one", () => change(() => kept.push(new Map())), { icon: "plus", kind: "tiny" }),
    );
  }

  function change(work) {
    work();
    paint();
    onInput();
  }

  paint();
  return {
    element,
    focus: () => /** @type {HTMLElement | null} */ (element.querySelector("[aria-invalid=true], button"))?.focus(),
    read: () => ({ value: forms.length ? forms.map((form) => form.read()) : undefined }),
    check: () => forms.map((form) => form.check()).every(Boolean),
  };
}

function inputControl(name, kind, schema, isRequired, kept, keep) {
  const standard = schema.default === undefined ? "" : String(schema.default);
  const of = (element, read) => {
    element.addEventListener("input", () => keep(element.value));
    return { element, focus: () => element.focus(), read: () => read(element.value) };
  };
  if (schema.enum || kind === "boolean") {
    const choices = (schema.enum ?? ["true", "false"]).map(String);
    const none = isRequired ? "Choose…" : standard ? `– (${standard})` : "–";
    const element = select([["", none], ...choices.map((each) => [each, each])], kept ?? "", undefined, { name });
    return of(element, (text) => ({ value: text === "" ? undefined : kind === "boolean" ? text === "true" : text }));
  }
  if (kind === "integer" || kind === "number") {
    const element = h("input", {
      class: "input",
      inputMode: "numeric",
      name,
      value: kept ?? "",
      placeholder: standard,
    });
    return of(element, (text) => readNumber(text.trim(), kind));
  }
  if (kind !== "string") {
    const placeholder = `JSON, such as ${kind === "array" ? "[]" : "{}"}`;
    return of(h("textarea", { class: "input", name, value: kept ?? "", placeholder, spellcheck: false }), readJson);
  }
  const isLong = LONG_TEXT.test(name);
  const element = h(isLong ? "textarea" : "input", {
    class: "input mono",
    name,
    value: kept ?? "",
    placeholder: standard,
    spellcheck: false,
    autocomplete: "off",
  });
  // An empty text is a text where one is needed, as the content of a file; an empty command is none.
  const takesEmpty = isRequired && isLong && name !== "command";
  return of(element, (text) => ({ value: text === "" && !takesEmpty ? undefined : text }));
}

function readNumber(text, kind) {
  if (text === "") return {};
  const number = Number(text);
  const isOne = Number.isFinite(number) && (kind === "number" || Number.isInteger(number));
  return isOne ? { value: number } : { problem: `must be a ${kind === "integer" ? "whole number" : "number"}` };
}

function readJson(text) {
  if (text.trim() === "") return {};
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { problem: `is not JSON: ${error instanceof Error ? error.message : error}` };
  }
}
