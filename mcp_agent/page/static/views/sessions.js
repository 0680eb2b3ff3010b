// Sessions: the running ones live and side by side, and a list of those that have ended.

import { post } from "../api.js";
import { button, empty, fill, h, icon, table } from "../dom.js";
import * as format from "../format.js";
import { createPane } from "../session_pane.js";
import { askForSession, sessionChip } from "../session_parts.js";

const MOST_OPEN = 6;
const AGES_EVERY_MS = 15_000;

export default { id: "sessions", mount };

/**
 * @param {HTMLElement} root
 * @param {App} app
 */
function mount(root, app) {
  const panes = new Map();
  const closedByHand = new Set();
  const list = h("div", { class: "session-list" });
  const grid = h("div", { class: "panes" });
  const search = h("input", {
    class: "input",
    type: "search",
    placeholder: "Filter: command, owner, exit",
    aria: { label: "Filter the finished sessions" },
    on: { input: () => paintFinished() },
  });
  const counted = h("span", { class: "chip", role: "status" });
  const rows = h("div", { class: "scroll-x finished-list" });
  const finished = h(
    "section",
    { class: "card", hidden: true, aria: { label: "Finished sessions" } },
    h(
      "header",
      {},
      h("div", { class: "row" }, h("h2", {}, "Finished"), counted),
      h(
        "div",
        { class: "finished-actions" },
        h("div", { class: "search" }, icon("search", 16), search),
        button("Clear", () => clear(), { aria: { label: "Clear the finished sessions" } }),
      ),
    ),
    rows,
  );

  fill(
    root,
    h(
      "div",
      { class: "page-head" },
      h(
        "div",
        {},
        h("h1", {}, "Sessions"),
        h("p", {}, "What a model sees, you see, and either can type. Open several to have them side by side."),
      ),
      button("Start a session", () => start(), { icon: "plus", kind: "primary" }),
    ),
    list,
    grid,
    finished,
  );

  async function start() {
    const pty = h("input", { type: "checkbox", checked: true, name: "pty" });
    const terminal = { name: "pty", label: "With a terminal", input: pty };
    const answer = await askForSession(app, "Start a session", "the daemon", [terminal]);
    if (!answer) return;
    const wanted = { command: answer.command, cwd: answer.cwd || undefined, pty: pty.checked };
    const session = await app.attempt(() => post("sessions", wanted));
    if (session) open(session);
  }

  function open(session) {
    if (panes.has(session.id)) return;
    closedByHand.delete(session.id);
    while (panes.size >= MOST_OPEN) close(panes.keys().next().value);
    const pane = createPane(session, app, () => closeByHand(session.id));
    panes.set(session.id, pane);
    grid.append(pane.element);
    arrange();
  }

  function closeByHand(id) {
    closedByHand.add(id);
    close(id);
  }

  function close(id) {
    panes.get(id)?.dispose();
    panes.get(id)?.element.remove();
    panes.delete(id);
    arrange();
  }

  function arrange() {
    grid.dataset.count = String(Math.min(panes.size, 4));
    paint();
  }

  async function clear() {
    const count = (app.store.state.sessions ?? []).filter((each) => !each.running).length;
    const text = `The output of ${format.plural(count, "finished session")} is deleted.`;
    if (!(await app.ask({ title: "Clear the finished sessions?", text, action: "Clear", kind: "danger" }))) return;
    const answer = await app.attempt(() => post("sessions/clear"));
    if (!answer) return;
    for (const id of answer.cleared) if (panes.has(id)) close(id);
    app.stream.refresh("sessions");
  }

  function paint() {
    const sessions = app.store.state.sessions;
    if (!sessions) return;
    for (const [id, pane] of panes) {
      const session = sessions.find((each) => each.id === id);
      if (session) pane.update(session);
      else pane.gone();
    }
    const running = sessions.filter((each) => each.running).sort((a, b) => b.started_at - a.started_at);
    fill(list, running.length === 0 ? h("div", { class: "card" }, nothingRuns(sessions.length)) : running.map(chip));
    paintFinished();
  }

  function nothingRuns(finishedCount) {
    return empty(
      "sessions",
      finishedCount ? "Nothing runs" : "No session",
      "A client starts one with shell_start_session, or you do. Finished ones stay for an hour.",
      button("Start a session", () => start(), { icon: "plus" }),
    );
  }

  function chip(session) {
    const isOpen = panes.has(session.id);
    const text = `running ${format.age(Date.now() / 1000 - session.started_at)}`;
    return sessionChip(session, isOpen, text, () => (isOpen ? closeByHand(session.id) : open(session)));
  }

  function paintFinished() {
    const all = (app.store.state.sessions ?? []).filter((each) => !each.running);
    const text = search.value.trim().toLowerCase();
    const found = all.filter((each) => `${each.command} ${each.owner} ${ending(each)}`.toLowerCase().includes(text));
    finished.hidden = all.length === 0;
    counted.textContent = String(found.length);
    found.sort((a, b) => Number(b.ended_at) - Number(a.ended_at));
    fill(
      rows,
      found.length === 0 ? empty("search", "None fits", "No finished session fits the filter.") : finishedTable(found),
    );
  }

  function finishedTable(sessions) {
    return table(
      ["Command", "Owner", "Exit", "Ended", ""],
      sessions.map((session) => [
        h("span", { class: "mono clip finished-command", title: session.command }, session.command),
        session.owner,
        h("span", { class: `chip ${session.exit_code === 0 ? "good" : "bad"}` }, ending(session)),
        h("span", { class: "nowrap muted" }, `${format.age(Date.now() / 1000 - session.ended_at)} ago`),
        panes.has(session.id)
          ? button("Close", () => closeByHand(session.id), { kind: "tiny" })
          : button("Open", () => show(session), { kind: "tiny", aria: { label: `Open ${session.command}` } }),
      ]),
    );
  }

  /** Open a finished session; its pane is above the list. */
  function show(session) {
    open(session);
    panes.get(session.id).element.scrollIntoView({ block: "nearest" });
  }

  app.watch(["sessions"], () => {
    const running = (app.store.state.sessions ?? []).filter((each) => each.running && !closedByHand.has(each.id));
    // The newest that run are open from the beginning, as many as fit side by side.
    if (panes.size === 0) for (const session of running.slice(-2)) open(session);
    paint();
  });
  const ages = setInterval(paint, AGES_EVERY_MS);
  return () => {
    clearInterval(ages);
    for (const pane of panes.values()) pane.dispose();
    panes.clear();
  };
}

function ending(session) {
  return session.signal ?? `exit ${session.exit_code}`;
}
