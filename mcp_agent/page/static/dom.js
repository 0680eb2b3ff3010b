// Makes elements. Text goes in as text and never as markup, so nothing that a tool prints can become part of the page.

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties and children. `on` has listeners, `data` and `aria` attributes of that kind. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    else if (name === "class") element.className = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "aria")
      for (const [key, text] of Object.entries(value)) {
        if (text !== undefined && text !== null) element.setAttribute(`aria-${key}`, text);
      }
    else if (name in element && !["list", "form", "type", "role"].includes(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Put other children into an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  append(element, children);
  return element;
}

const ICONS = {
  tools: "M4 7h9M17 7h3M4 17h3M11 17h9M15 7a2 2 0 1 0 0-.01M9 17a2 2 0 1 0 0-.01",
  sessions: "M4 5h16v14H4zM8 10l3 2.5L8 15M13 15h4",
  activity: "M3 12h4l3-7 4 14 3-7h4",
  changes: "M4 8h11a5 5 0 0 1 0 10H9M4 8l4-4M4 8l4 4",
  files: "M4 6a1 1 0 0 1 1-1h4l2 2h8a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1z",
  try: "M8 5v14l11-7z",
  connect: "M9 15l6-6M8 12l-2 2a3.5 3.5 0 0 0 5 5l2-2M16 12l2-2a3.5 3.5 0 0 0-5-5l-2 2",
  health: "M12 20s-7-4.4-7-10a4 4 0 0 1 7-2.6A4 4 0 0 1 19 10c0 5.600-7 10-7 10z",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  plus: "M12 5v14M5 12h14",
  search: "M11 5a6 6 0 1 0 0 12 6 6 0 0 0 0-12M20 20l-4.500-4.500",
  close: "M6 6l12 12M18 6L6 18",
  check: "M5 12.500l4.500 4.500L19 7.500",
  alert: "M12 4l9 16H3zM12 10v4M12 17h.01",
  shield: "M12 3l7 3v5c0 4.500-3 8-7 10-4-2-7-5.500-7-10V6z",
  moon: "M20 14a8 8 0 0 1-10-10 8 8 0 1 0 10 10z",
  sun:
    "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.500 1.500M17.500 17.500L19 19" +
    "M5 19l1.500-1.500M17.500 6.500L19 5",
  copy: "M9 9h10v10H9zM5 15V5h10",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  folder: "M4 6a1 1 0 0 1 1-1h4l2 2h8a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1z",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  undo: "M4 8h11a5 5 0 0 1 0 10H9M4 8l4-4M4 8l4 4",
  stop: "M7 7h10v10H7z",
  up: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  bell: "M6 17V11a6 6 0 0 1 12 0v6l2 2H4zM10 21h4",
  sound: "M4 10v4h4l5 4V6L8 10zM16 9a4 4 0 0 1 0 6M18.500 6.500a8 8 0 0 1 0 11",
  box: "M4 8l8-4 8 4v8l-8 4-8-4zM4 8l8 4 8-4M12 12v8",
};

export function icon(name, size = 18) {
  const path = svg("path", { d: ICONS[name] ?? ICONS.more });
  const shape = svg(
    "svg",
    { viewBox: "0 0 24 24", width: size, height: size, "aria-hidden": "true", class: "icon" },
    path,
  );
  return shape;
}

/** A button; `props.label` names one that shows only an icon.
    @param {any} props */
export function button(text, onClick, props = {}) {
  const { icon: name, label, kind = "plain", ...rest } = props;
  return h(
    "button",
    {
      type: "button",
      class: `button ${kind}`,
      ...rest,
      title: label ?? rest.title,
      aria: { label, ...rest.aria },
      on: { click: onClick, ...rest.on },
    },
    name && icon(name, 16),
    text && h("span", {}, text),
  );
}

/** A switch that shows the state it was given, and asks `onToggle` for the other one. */
export function toggle(checked, label, onToggle, props = {}) {
  return h("button", {
    type: "button",
    role: "switch",
    class: "switch",
    ...props,
    aria: { checked: String(checked), label, ...props.aria },
    on: { click: () => onToggle(!checked) },
  });
}

/** Buttons of which one is pressed; `names` has the text of each by its id.
    @param {Record<string, string>} names */
export function tabs(label, names, chosen, onChoose) {
  const buttons = Object.entries(names).map(([id, text]) =>
    button(text, () => onChoose(id), { aria: { pressed: String(id === chosen) }, data: { tab: id } }),
  );
  return h("div", { class: "tabs", role: "group", aria: { label } }, buttons);
}

/** A table. A heading or a cell that begins with "#" in `columns` has numbers, which stand at the right. */
export function table(columns, rows) {
  const kinds = columns.map((text) => (text.startsWith("#") ? "number" : ""));
  const heads = columns.map((text, index) => h("th", { scope: "col", class: kinds[index] }, text.replace(/^#/, "")));
  const body = rows.map((cells) =>
    h(
      "tr",
      {},
      cells.map((cell, index) => h("td", { class: kinds[index] }, cell)),
    ),
  );
  return h("table", { class: "table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, body));
}

/** A fact in large letters, with its name above and a word below. */
export function tile(title, value, text) {
  return h(
    "section",
    { class: "card tile" },
    h("span", { class: "small muted" }, title),
    h("strong", {}, value),
    h("span", { class: "small muted break" }, text ?? ""),
  );
}

let ids = 0;

/** An id that no other element of the page has. */
export function newId(kind) {
  ids += 1;
  return `${kind}-${ids}`;
}

export function dot(kind = "") {
  return h("span", { class: `dot ${kind}` });
}

export function field(label, input, hint) {
  return h(
    "label",
    { class: "field" },
    h("span", { class: "field-label" }, label),
    input,
    hint && h("span", { class: "hint" }, hint),
  );
}

export function select(options, value, onChange, props = {}) {
  const element = h(
    "select",
    { class: "input", ...props, on: { change: () => onChange?.(element.value) } },
    options.map((each) => {
      const [id, text] = Array.isArray(each) ? each : [each, each];
      return h("option", { value: id, selected: id === value }, text);
    }),
  );
  return element;
}

export function empty(name, title, text, ...actions) {
  return h(
    "div",
    { class: "empty" },
    icon(name, 28),
    h("h3", {}, title),
    h("p", {}, text),
    actions.length > 0 && h("div", { class: "row center" }, actions),
  );
}
