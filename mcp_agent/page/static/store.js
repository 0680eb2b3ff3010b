// The one store of the page: what it knows of the daemon, and who wants to hear of a change.
//
// How a view is added:
//   1. Write views/<name>.js with `export default { id, mount(root, app) }`. `mount` fills `root`, and may return a
//      function that ends what it began (timers, listeners); or an object with `leave`, which is that function, and
//      `update`, which shows another address of the same view and returns true. `app` is what app.js offers.
//   2. Put it into the list VIEWS of app.js.
//   3. What it shows comes from `store.state`; `app.watch(["board"], paint)` calls `paint` now and after every change
//      of that key, until the view is left. What only this view needs, it gets with `get` of api.js itself.
//   4. A change of the daemon is made with `post`; what is different then arrives by the stream, in every open page.
//
// Keys: connection ("connecting", "live", "lost", "out"), boot, gateway (its name, of the gateway of a fleet), board,
// sessions, approvals (the calls that wait), lines (the audit log, newest first).

const MOST_LINES = 10_000;

/** @returns {Store} */
export function createStore() {
  /** @type {PageState} */
  const state = {
    connection: "connecting",
    boot: undefined,
    gateway: undefined,
    board: undefined,
    sessions: undefined,
    approvals: undefined,
    lines: [],
  };
  const watchers = new Set();
  const known = new Set();
  let waiting = new Set();
  let isHeld = false;

  function announce(key) {
    if (waiting.size === 0 && !isHeld) queueMicrotask(flush);
    waiting.add(key);
  }

  function flush() {
    if (isHeld || waiting.size === 0) return;
    const keys = waiting;
    waiting = new Set();
    for (const watcher of [...watchers]) {
      if (watcher.keys.some((key) => keys.has(key))) watcher.paint(keys);
    }
  }

  return {
    state,
    /** Paint nothing until `release`: an element that is painted anew between press and release loses its click. */
    hold() {
      isHeld = true;
    },
    release() {
      isHeld = false;
      flush();
    },
    /** Call `paint` after every change of one of `keys`. Returns a function that ends it. */
    watch(keys, paint) {
      const watcher = { keys, paint };
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    set(key, value) {
      state[key] = value;
      announce(key);
    },
    /** Put lines of the audit log in their place, newest first. A line that is there already stays as it is. */
    addLines(lines) {
      const fresh = lines.filter((line) => !known.has(lineKey(line)));
      if (fresh.length === 0) return;
      for (const line of fresh) {
        line.at = Date.parse(line.ts);
        known.add(lineKey(line));
      }
      fresh.sort((a, b) => b.at - a.at || b.seq - a.seq);
      const isNewest = state.lines.length === 0 || fresh[fresh.length - 1].at >= state.lines[0].at;
      state.lines = isNewest
        ? fresh.concat(state.lines)
        : fresh.concat(state.lines).sort((a, b) => b.at - a.at || b.seq - a.seq);
      for (const line of state.lines.splice(MOST_LINES)) known.delete(lineKey(line));
      announce("lines");
    },
  };
}

export function lineKey(line) {
  return `${line.boot}.${line.seq}`;
}
