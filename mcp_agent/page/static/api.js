// Talks to /api of the daemon, as the browser that has logged in. The cookie is sent by the browser itself.

const HEADERS = { "X-MCP-Agent-Page": "1" };
const PATH = "/ui/api/";
// The daemon sends a heartbeat every fifteen seconds.
const SILENCE_MS = 40_000;

/** What the daemon refused: `code` is what a view decides by, `message` is for people, `hint` says what to do. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {any} error
   */
  constructor(status, error = undefined) {
    super(error?.message ?? `the daemon answered ${status}`);
    this.status = status;
    this.code = error?.code;
    this.hint = error?.hint;
    this.problems = error?.problems;
  }
}

/** Whether the daemon refused with one of these codes. */
export function hasCode(error, ...codes) {
  return error instanceof ApiError && codes.includes(error.code);
}

/** An error as a text for people. */
export function explain(error) {
  if (error instanceof ApiError && error.hint) return `${error.message}. ${error.hint}`;
  return error instanceof Error ? error.message : String(error);
}

/** The daemon cannot be reached: it stops, starts, or the line is down. */
export class Unreachable extends Error {}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { ...HEADERS, ...options.headers }, credentials: "same-origin" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable("the daemon cannot be reached");
  }
  if (answer.ok) return answer;
  let found;
  try {
    found = (await answer.json()).error;
  } catch {
    found = undefined;
  }
  throw new ApiError(answer.status, found);
}

export async function get(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(pairs).toString();
  return (await ask(PATH + path + (text ? `?${text}` : ""), {})).json();
}

export async function post(path, body = {}) {
  const options = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return (await ask(PATH + path, options)).json();
}

export async function blob(path, query = {}) {
  return (await ask(`${PATH}${path}?${new URLSearchParams(query)}`, {})).blob();
}

/** A link that logs this browser in, once; raises ApiError unless the token is the owner's. */
export async function ticketFor(token) {
  // Other characters are in no token, and in no header.
  if (!/^[\x21-\x7e]+$/.test(token)) throw new ApiError(401);
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  return (await (await ask("/api/ticket", { method: "POST", body: "{}", headers })).json()).path;
}

export async function logOut() {
  await ask("/ui/logout", { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } });
}

/** The events of a stream until it ends: an async generator of [name, object]. */
export async function* events(path, signal) {
  const answer = await ask(path, { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), SILENCE_MS);
      if (done) return;
      rest += value.includes("\r") ? value.replaceAll("\r\n", "\n") : value;
      let end = rest.indexOf("\n\n");
      let from = 0;
      while (end >= 0) {
        const event = parse(rest.slice(from, end));
        if (event) yield event;
        from = end + 2;
        end = rest.indexOf("\n\n", from);
      }
      rest = rest.slice(from);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** What `promise` gives, or an error after so long: only a line that is down has no heartbeat. */
async function within(promise, milliseconds) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Unreachable("the daemon is silent")), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function parse(text) {
  let name = "message";
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  return data ? [name, JSON.parse(data)] : undefined;
}
