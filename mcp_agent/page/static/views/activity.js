// Activity: calls as they happen, with a filter, one opened for its arguments and result, and plots of the last hour or
// day.

import { explain, get, hasCode } from "../api.js";
import { button, empty, fill, h, icon, select } from "../dom.js";
import * as format from "../format.js";
import { plot } from "../plots.js";
import { lineKey } from "../store.js";

// The arguments that say what a call was about, the most telling first.
const SUBJECTS = ["path", "file_path", "base", "command", "cmd", "from", "session_id", "ref", "cwd", "pattern"];
const ROW = 44;
const EXTRA_ROWS = 12;
const PLOTS_EVERY_MS = 5_000;
const EVENTS = {
  start: "The daemon started",
  policy: "tools.json changed",
  policy_rejected: "tools.json was refused",
  login_refused: "A login was refused",
  download: "A file was downloaded",
  token_created: "A token was created",
  token_revoked: "A token was revoked",
};

export default { id: "activity", mount };

/**
 * @param {HTMLElement} root
 * @param {App} app
 */
function mount(root, app) {
  const plots = h("div", { class: "plots" });
  const search = h("input", {
    class: "input",
    type: "search",
    placeholder: "Filter: tool, path, command, caller, outcome",
    aria: { label: "Filter the calls" },
    on: { input: () => filter() },
  });
  const kinds = select(
    [
      ["calls", "Calls"],
      ["errors", "Errors"],
      ["events", "Events"],
      ["all", "Everything"],
    ],
    "calls",
    () => filter(),
    { aria: { label: "What to show" } },
  );
  const own = h("input", { type: "checkbox", on: { change: () => filter() } });
  const counted = h("span", { class: "muted small nowrap", role: "status" });
  const viewport = h("div", { class: "log", tabIndex: 0, role: "region", aria: { label: "Calls, newest first" } });
  const space = h("div", { class: "log-space", role: "list" });
  const detail = h("aside", { class: "card detail", hidden: true, aria: { label: "One call" } });
  let span = "hour";
  let shown = [];
  let opened;
  let frame;
  let lastPlots = 0;
  let timer;

  viewport.append(space);
  const spans = h(
    "div",
    { class: "tabs", role: "group", aria: { label: "Time of the plots" } },
    ["hour", "day"].map((each) =>
      button(
        `Last ${each}`,
        () => {
          span = each;
          for (const tab of spans.children) tab.setAttribute("aria-pressed", String(tab.dataset.span === span));
          loadPlots();
        },
        { aria: { pressed: String(each === span) }, data: { span: each } },
      ),
    ),
  );
  fill(
    root,
    h(
      "div",
      { class: "page-head" },
      h("div", {}, h("h1", {}, "Activity"), h("p", {}, "Every call as it happens, from the audit log.")),
      spans,
    ),
    plots,
    h(
      "div",
      { class: "row between log-head" },
      h(
        "div",
        { class: "row grow" },
        h("div", { class: "search" }, icon("search", 16), search),
        h("div", { class: "kind" }, kinds),
        h("label", { class: "row small muted" }, own, "Calls of this page too"),
      ),
      counted,
    ),
    h("div", { class: "split" }, h("div", { class: "card log-card" }, viewport), detail),
  );

  function isWanted(line, text, kind) {
    const isCall = line.tool !== undefined;
    if (kind === "calls" && !isCall) return false;
    if (kind === "events" && isCall) return false;
    if (
      kind === "errors" &&
      (isCall ? line.outcome === "ok" : !["policy_rejected", "login_refused"].includes(line.event))
    )
      return false;
    if (isCall && !own.checked && line.transport === "page") return false;
    return (
      !text ||
      [line.tool, subject(line), line.client, line.program, line.outcome, line.event, line.transport, line.box]
        .join(" ")
        .toLowerCase()
        .includes(text)
    );
  }

  function filter() {
    const text = search.value.trim().toLowerCase();
    const kind = kinds.value;
    shown = app.store.state.lines.filter((line) => isWanted(line, text, kind));
    counted.textContent = `${format.plural(shown.length, "line")}`;
    space.style.height = `${shown.length * ROW}px`;
    paintRows();
  }

  function paintRows() {
    frame = undefined;
    if (shown.length === 0) {
      space.style.height = "";
      fill(
        space,
        empty(
          "activity",
          "Nothing here yet",
          app.store.state.lines.length
            ? "No line fits the filter."
            : "As soon as a client calls a tool, it is listed here.",
        ),
      );
      return;
    }
    const first = Math.max(0, Math.floor(viewport.scrollTop / ROW) - EXTRA_ROWS);
    const last = Math.min(shown.length, Math.ceil((viewport.scrollTop + viewport.clientHeight) / ROW) + EXTRA_ROWS);
    fill(
      space,
      shown.slice(first, last).map((line, index) => row(line, first + index)),
    );
  }

  function row(line, index) {
    const isCall = line.tool !== undefined;
    const isOpen = opened === lineKey(line);
    const element = h(
      "div",
      { class: `log-row ${isOpen ? "is-open" : ""}`, role: "listitem" },
      h(
        "button",
        {
          type: "button",
          class: "log-button",
          aria: { expanded: String(isOpen) },
          data: { line: lineKey(line) },
          on: { click: () => open(line) },
        },
        h("span", { class: "log-time muted" }, format.clock(line.at)),
        h(
          "span",
          { class: `log-tool ${isCall ? "mono" : ""} clip` },
          isCall ? line.tool : (EVENTS[line.event] ?? line.event),
        ),
        subjectCell(subject(line)),
        h(
          "span",
          { class: "log-who clip muted" },
          isCall
            ? [line.box && `on ${line.box}`, line.client, line.program].filter(Boolean).join(" · ")
            : (line.by ?? line.address ?? ""),
        ),
        h(
          "span",
          { class: "log-outcome" },
          isCall
            ? h("span", { class: `chip ${line.outcome === "ok" ? "good" : "bad"}` }, line.outcome)
            : h("span", { class: "chip" }, "event"),
        ),
        h("span", { class: "log-ms number muted" }, isCall ? format.duration(line.ms) : ""),
        h("span", { class: "log-bytes number muted" }, isCall ? format.bytes(line.bytes) : ""),
      ),
    );
    element.style.transform = `translateY(${index * ROW}px)`;
    return element;
  }

  async function open(line) {
    if (opened === lineKey(line)) {
      opened = undefined;
      detail.hidden = true;
      paintRows();
      return;
    }
    opened = lineKey(line);
    detail.hidden = false;
    const result = h("div", {}, h("p", { class: "muted small" }, "Loading…"));
    const { ts: _ts, seq: _seq, boot: _boot, at, args, ...facts } = line;
    fill(
      detail,
      h(
        "header",
        {},
        h("h2", { class: line.tool ? "mono" : "" }, line.tool ?? EVENTS[line.event] ?? line.event),
        button("", () => open(line), { icon: "close", label: "Close the call", kind: "ghost" }),
      ),
      h(
        "div",
        { class: "body stack" },
        h(
          "dl",
          { class: "facts" },
          [
            ["Time", new Date(at).toLocaleString("en-GB")],
            ...Object.entries(facts)
              .filter(([, value]) => value !== "" && value !== null)
              .map(([name, value]) => [name, typeof value === "object" ? JSON.stringify(value) : String(value)]),
          ].map(([name, value]) => [h("dt", {}, name), h("dd", { class: "break" }, value)]),
        ),
        args &&
          h(
            "section",
            { class: "stack" },
            h("h3", {}, "Arguments"),
            h("p", { class: "hint" }, "Texts that may hold secrets are shown as their length."),
            h("pre", { class: "code wrap" }, JSON.stringify(args, null, 2)),
          ),
        line.tool && h("section", { class: "stack" }, h("h3", {}, "Result"), result),
      ),
    );
    paintRows();
    if (!line.tool) return;
    try {
      const found = await get(`activity/results/${encodeURIComponent(line.req)}`);
      fill(
        result,
        h("pre", { class: "code wrap" }, found.form === "json" ? pretty(found.text) : found.text),
        found.cut && h("p", { class: "hint" }, "Only its beginning is kept."),
      );
    } catch (error) {
      fill(
        result,
        h(
          "p",
          { class: "muted small" },
          hasCode(error, "NOT_FOUND")
            ? "Deleted: only the results of the last 200 calls are kept, since the start of the daemon."
            : explain(error),
        ),
      );
    }
  }

  async function loadPlots() {
    lastPlots = Date.now();
    const wanted = span;
    let answer;
    try {
      answer = await get("activity/series", { span: wanted });
    } catch {
      return;
    }
    if (wanted !== span) return;
    const { points, step_s: step } = answer;
    const column = (name) => points.map((point) => point[name]);
    const sum = (name) => column(name).reduce((total, value) => total + value, 0);
    const times = points.map((point) => format.clock(point.at * 1000).slice(0, 5));
    const stepText = step === 60 ? "a minute" : "in half an hour";
    const calls = sum("calls");
    const errors = sum("errors");
    const latest = (name) => points.findLast((point) => point[name] !== null)?.[name];
    fill(
      plots,
      plot({
        title: "Calls",
        headline: format.count(calls),
        times,
        stepText,
        format: format.short,
        series: [{ name: "calls", values: column("calls") }],
      }),
      plot({
        title: "Errors",
        headline: calls
          ? `${format.count(errors)} (${((errors / calls) * 100).toFixed(errors && errors / calls < 0.1 ? 1 : 0)} %)`
          : "0",
        times,
        stepText,
        format: format.short,
        series: [{ name: "errors", values: column("errors"), class: "bad" }],
      }),
      plot({
        title: "Latency p50 · p95",
        headline:
          latest("p50_ms") === undefined
            ? "–"
            : `${format.duration(latest("p50_ms"))} · ${format.duration(latest("p95_ms"))}`,
        times,
        stepText,
        format: format.duration,
        series: [
          { name: "95 %", values: column("p95_ms"), kind: "line", class: "soft" },
          { name: "median", values: column("p50_ms"), kind: "line" },
        ],
      }),
      plot({
        title: "Bytes sent",
        headline: format.bytes(sum("bytes")),
        times,
        stepText,
        format: format.bytes,
        series: [{ name: "bytes", values: column("bytes") }],
      }),
      plot({
        title: "Tokens saved",
        headline: `≈ ${format.short(sum("saved_tokens"))}`,
        times,
        stepText,
        format: format.short,
        series: [{ name: "tokens", values: column("saved_tokens"), class: "good" }],
      }),
    );
  }

  viewport.addEventListener(
    "scroll",
    () => {
      if (frame === undefined) frame = requestAnimationFrame(paintRows);
    },
    { passive: true },
  );
  app.watch(["lines"], () => {
    const before = shown.length;
    const at = viewport.scrollTop;
    filter();
    // What one reads stays where it is while new lines come in above it.
    if (at > ROW && shown.length > before) viewport.scrollTop = at + (shown.length - before) * ROW;
    if (Date.now() - lastPlots > PLOTS_EVERY_MS) loadPlots();
    else
      timer ??= setTimeout(() => {
        timer = undefined;
        loadPlots();
      }, PLOTS_EVERY_MS);
  });
  loadPlots();
  get("activity", { limit: 10_000 })
    .then(({ lines }) => app.store.addLines(lines))
    .catch(() => {});
  return () => clearTimeout(timer);
}

/** What a call was about: its path or command, as the audit log has it, or the first of its other texts. */
function subject(line) {
  const args = line.args ?? {};
  const text = SUBJECTS.map((name) => args[name]).find((value) => value !== undefined) ?? line.path ?? "";
  return args.to === undefined ? String(text) : `${text} → ${args.to}`;
}

/** Of a path that is too long its end is shown: that has the name of the file. */
function subjectCell(text) {
  const side = text.startsWith("/") ? "clip-start" : "";
  return h("span", { class: `log-subject mono small clip ${side}`, title: text }, h("bdi", {}, text));
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
