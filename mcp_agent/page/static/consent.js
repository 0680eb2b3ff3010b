// The consent: who asks for access, where the answer goes, and what the owner gives. Nothing happens without the click.

import { ApiError, explain, get, post } from "./api.js";
import { button, field, fill, h, select } from "./dom.js";
import { loginView } from "./login.js";

const LIFETIMES = [
  ["1", "a day"],
  ["7", "a week"],
  ["30", "30 days"],
  ["90", "90 days"],
  ["365", "a year"],
  ["", "until I revoke it"],
];
// Another page can have somebody click twice, and close itself between the clicks: the second one would land here.
const SETTLE_MS = 600;

const root = document.getElementById("consent");
const request = Object.fromEntries(new URLSearchParams(location.search));

// Whether the login is shown, and the newest question: an answer to an older one says what was.
let isLogin = false;
let newest = 0;

async function show() {
  newest += 1;
  const own = newest;
  try {
    const asked = await get("oauth/request", request);
    if (own !== newest) return;
    isLogin = false;
    if (asked.location) location.replace(asked.location);
    else fill(root, consentView(asked));
  } catch (error) {
    if (own !== newest) return;
    const wasLogin = isLogin;
    isLogin = error instanceof ApiError && error.status === 401;
    // Whoever is typing a token keeps what is typed.
    if (!(isLogin && wasLogin))
      fill(root, isLogin ? loginView("Log in to give a client access", enter) : refusal(error));
  }
}

// The link of `mcp-agent open` logs this browser in from another tab.
for (const kind of ["focus", "visibilitychange"]) {
  window.addEventListener(kind, () => isLogin && !document.hidden && show(), { capture: true });
}

/** Log this browser in without leaving the request. */
async function enter(link) {
  await fetch(link, { credentials: "same-origin" });
  await show();
}

function consentView(asked) {
  const profile = select(
    asked.profiles.map((each) => [each.id, each.label]),
    asked.profiles[0].id,
    () => fill(description, about()),
    { name: "profile" },
  );
  const about = () => asked.profiles.find((each) => each.id === profile.value)?.description ?? "";
  const description = h("p", { class: "hint" }, about());
  const days = select(LIFETIMES, "30", undefined, { name: "days" });
  const problem = h("p", { class: "field-problem", role: "alert" });
  const allow = button("Allow", () => answer(true), { kind: "primary", disabled: true });
  const deny = button("Deny", () => answer(false), { disabled: true });

  async function answer(isAllowed) {
    allow.disabled = deny.disabled = true;
    const chosen = { profile: profile.value, days: days.value ? Number(days.value) : undefined };
    try {
      const { location: next } = await post("oauth/answer", { request, allow: isAllowed, ...chosen });
      fill(root, h("div", { class: "login" }, h("p", { class: "muted" }, "You can close this window.")));
      location.assign(next);
    } catch (error) {
      fill(problem, explain(error));
      settle();
    }
  }

  let timer;
  function settle() {
    allow.disabled = deny.disabled = true;
    clearTimeout(timer);
    timer = setTimeout(() => {
      allow.disabled = deny.disabled = false;
    }, SETTLE_MS);
  }
  window.addEventListener("focus", settle);
  document.addEventListener("visibilitychange", settle);
  settle();

  return h(
    "div",
    { class: "login consent" },
    h("h1", {}, asked.voucher ? asked.client : "A program", " asks for access to this machine"),
    h(
      "div",
      { class: "card body stack login-form" },
      h("p", { class: "muted" }, asked.is_local ? "It runs on the computer of this browser:" : "The access goes to:"),
      h("p", { class: "consent-host break", data: { host: asked.redirect_host } }, asked.redirect_host),
      identity(asked),
      field("It may use", profile),
      description,
      field("For", days),
      h(
        "p",
        { class: "hint" },
        "You can end it at any time: on the Tools page under Connect, or with mcp-agent token revoke.",
      ),
      problem,
      h("div", { class: "row end" }, deny, allow),
    ),
  );
}

function identity(asked) {
  if (asked.voucher) return h("p", { class: "note" }, `${asked.voucher} says that this is ${asked.client}.`);
  const name = asked.client ? `It calls itself “${asked.client}”. Nobody vouches for that name. ` : "It has no name. ";
  return h(
    "p",
    { class: "note warn" },
    name,
    "Go on only if you have just begun this yourself, in a program that you know.",
  );
}

function refusal(error) {
  return h(
    "div",
    { class: "login" },
    h("h1", {}, "This client cannot be connected"),
    h("p", { class: "note bad" }, explain(error)),
  );
}

show();
