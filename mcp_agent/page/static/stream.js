// Keeps the page's one stream open, and open again when it breaks. Sessions that are shown tell it from where they want
// their output; after a break each goes on at the byte where it stopped.

import { ApiError, events, get, Unreachable } from "./api.js";

const HIDDEN_MS = 20_000;
const RETRY_MS = [200, 500, 1000, 2000, 4000];

/** `staysHidden` says whether the page must hear also while nobody sees it. */
export function createStream(store, onLines, staysHidden = () => false) {
  const followed = new Map();
  let abort = new AbortController();
  let isWanted = true;
  let restart = () => {};
  let pending = [];
  let isPlanned = false;

  async function refresh(topic) {
    try {
      if (topic === "tools") store.set("board", await get("switchboard"));
      if (topic === "approvals") store.set("approvals", (await get("approvals")).approvals);
      if (topic === "sessions") store.set("sessions", (await get("sessions")).sessions);
    } catch {
      // The stream has ended as well, then, and what is new is asked for when it is back.
    }
  }

  function keep(line) {
    pending.push(line);
    if (isPlanned) return;
    isPlanned = true;
    setTimeout(() => {
      isPlanned = false;
      const lines = pending;
      pending = [];
      store.addLines(lines);
      onLines?.(lines);
    }, 50);
  }

  async function hear(name, data) {
    if (name === "changed") refresh(data.topic);
    else if (name === "line") keep(data);
    else if (name === "missed") store.addLines((await get("activity", { limit: 1000 })).lines);
    else {
      const session = followed.get(data.session_id);
      if (!session) return;
      if (data.next_offset !== undefined) {
        // What came twice is left out: the stream was opened again while this was on its way.
        if (data.offset < session.offset && data.next_offset <= session.offset) return;
        session.offset = data.next_offset;
      }
      await session.hear(name, data);
    }
  }

  async function followOnce() {
    const places = [...followed].map(([id, session]) => `${id}:${session.offset}`).join(",");
    const path = `/ui/stream${places ? `?sessions=${encodeURIComponent(places)}` : ""}`;
    for await (const [name, data] of events(path, abort.signal)) {
      if (name === "hello") {
        const isNew = store.state.boot !== data.boot;
        store.set("boot", data.boot);
        if (store.state.gateway !== (data.elsewhere ?? undefined)) store.set("gateway", data.elsewhere ?? undefined);
        store.set("connection", "live");
        if (isNew) for (const session of followed.values()) session.restarted?.();
        await Promise.all([refresh("tools"), refresh("sessions"), refresh("approvals"), catchUp()]);
      } else await hear(name, data);
    }
  }

  async function catchUp() {
    try {
      const newest = store.state.lines[0];
      const { lines } = await get("activity", { limit: 500 });
      // After a long absence more has happened: the lines must reach back to the newest one that is known.
      const hasGap = newest && lines.length === 500 && Date.parse(lines[0].ts) > newest.at;
      store.addLines(hasGap ? (await get("activity", { limit: 10_000 })).lines : lines);
    } catch {
      // As in `refresh`.
    }
  }

  /** A browser has six connections to a daemon, for all tabs together: one that nobody sees gives its own back. */
  async function whileSeen() {
    while (document.hidden && !staysHidden())
      await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
  }

  async function run() {
    let failures = 0;
    let rest;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(rest);
      if (document.hidden && !staysHidden()) rest = setTimeout(() => restart(), HIDDEN_MS);
    });
    while (isWanted) {
      await whileSeen();
      abort = new AbortController();
      let isRestart = false;
      restart = () => {
        isRestart = true;
        abort.abort();
      };
      const started = Date.now();
      try {
        await followOnce();
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) {
          store.set("connection", "out");
          return;
        }
        if (!isRestart && !isBrokenLine(error)) console.warn(error);
      }
      if (isRestart) continue;
      if (!isWanted) return;
      store.set("connection", "lost");
      failures = Date.now() - started > 5000 ? 0 : failures + 1;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]));
    }
  }

  return {
    run,
    refresh,
    /** Hear of a session from `offset` on; `hear(name, data)` gets output, exit and gap. Returns what ends it. */
    follow(id, offset, hear, restarted) {
      followed.set(id, { offset, hear, restarted });
      queueMicrotask(() => restart());
      return () => {
        if (followed.delete(id)) queueMicrotask(() => restart());
      };
    },
    close() {
      isWanted = false;
      abort.abort();
    },
  };
}

/** Whether a stream has ended as streams do: refused, closed by us, or cut. */
function isBrokenLine(error) {
  const isOurs = error instanceof ApiError || error instanceof Unreachable;
  return isOurs || error instanceof TypeError || (error instanceof DOMException && error.name === "AbortError");
}
