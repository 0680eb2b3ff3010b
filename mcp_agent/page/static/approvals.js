// The calls that wait for the owner, above every view: the whole command or change, who asks, why, and the answers.

import { get, post } from "./api.js";
import { diffView } from "./diff.js";
import { button, fill, h, icon } from "./dom.js";
import { readSetting, writeSetting } from "./settings.js";

const SOUND_KEY = "mcp-agent-approval-sound";
const NOTIFY_KEY = "mcp-agent-approval-notify";
// What changes how a text reads without being seen.
const INVISIBLE = /[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u00ad]/g;
const DONE = {
  once: "Approved",
  hour: "Approved for an hour",
  always: "Approved, and the exception is saved",
  deny: "Denied",
};

/** Whether this browser is told of new calls also while the page is hidden. */
export function wantsNotifications() {
  return readSetting(NOTIFY_KEY) === "on" && "Notification" in window && Notification.permission === "granted";
}

/**
 * @param {App} app
 * @returns {{ element: HTMLElement, buttons: HTMLElement[], show: (id: string) => void }}
 */
export function approvalBanner(app) {
  const status = h("p", { class: "sr-only", role: "status" });
  const list = h("div", {});
  const element = h("section", { class: "approvals", aria: { label: "Calls that wait for you" } }, status, list);
  const cards = new Map();
  let known;
  let wanted;
  let clock;

  function paint() {
    const found = app.store.state.approvals ?? [];
    for (const [id, card] of cards) {
      if (found.some((each) => each.id === id)) continue;
      card.element.remove();
      cards.delete(id);
    }
    for (const each of found) {
      let card = cards.get(each.id);
      if (!card) {
        card = approvalCard(app, each);
        cards.set(each.id, card);
        list.append(card.element);
      }
      card.update(each);
    }
    const text = found.length === 1 ? "1 call waits for your approval" : `${found.length} calls wait for your approval`;
    if (status.textContent !== text) status.textContent = found.length > 0 ? text : "";
    const fresh = found.filter((each) => known && !known.has(each.id));
    known = new Set(found.map((each) => each.id));
    if (fresh.length > 0) tell(fresh);
    if (wanted) showWanted();
    clearInterval(clock);
    if (found.length > 0) {
      clock = setInterval(() => {
        for (const card of cards.values()) card.tick();
      }, 1000);
    }
  }

  function showWanted() {
    const card = cards.get(wanted);
    if (card) {
      wanted = undefined;
      card.element.scrollIntoView({ block: "start" });
      card.element.focus({ preventScroll: true });
    } else if (app.store.state.approvals) {
      wanted = undefined;
      app.say("That call does not wait any more: it was answered, or has ended", "bad");
    }
  }

  app.store.watch(["approvals"], paint);
  return {
    element,
    buttons: [soundButton(), notifyButton()],
    show: (id) => {
      wanted = id;
      showWanted();
    },
  };
}

/** One call. It is made once and stays: a button must not move away under a finger. */
function approvalCard(app, request) {
  const age = h("span", { class: "small muted nowrap" });
  const reason = h("input", {
    class: "input",
    maxLength: 500,
    placeholder: "Why not? The model is told.",
    aria: { label: "Reason for a denial" },
    autocomplete: "off",
  });
  let seen = Date.now();
  let last = request;

  const decide = (decision) =>
    app.attempt(async () => {
      try {
        const body = { decision, reason: decision === "deny" ? reason.value : undefined };
        await post(`approvals/${encodeURIComponent(request.id)}`, body);
      } finally {
        app.store.set("approvals", (await get("approvals")).approvals);
      }
    }, DONE[decision]);

  async function always() {
    const answer = await app.ask({
      title: "Never ask about this again?",
      text: last.always.map((each) => each.text + (each.pattern ? `: ${visible(each.pattern)}` : "")).join("; "),
      action: "Save and approve",
    });
    if (answer) await decide("always");
  }

  const who = [request.client, request.program && `(${request.program})`, request.box && `on ${request.box}`];
  const title = h("h2", {}, who.filter(Boolean).join(" "), ": ", request.title);
  const element = h(
    "article",
    { class: "approval", tabIndex: -1, data: { approval: request.id }, aria: { label: title.textContent } },
    h(
      "header",
      { class: "row between" },
      h(
        "div",
        { class: "row" },
        icon("shield", 20),
        title,
        h("span", { class: `chip ${request.effect}` }, request.tool),
      ),
      age,
    ),
    what(request),
    h(
      "p",
      { class: "small muted break" },
      `In ${request.folder}. `,
      request.reasons.map((each) => `Rule ${each.rule} of the profile ${each.profile}: ${each.text}. `),
      request.user && `The client says it is for the user ${request.user}.`,
    ),
    request.is_for_box ? h("p", {}, `Answer it on the page of ${request.box}.`) : answers(),
  );

  function answers() {
    return h(
      "div",
      { class: "row answers" },
      button("Once", () => decide("once"), { kind: "primary", icon: "check" }),
      button("For an hour", () => decide("hour"), { title: "All that this rule asks of this client, for an hour" }),
      request.always && button("Always…", always, { title: "Add an exception, which is shown first" }),
      h(
        "form",
        {
          class: "row grow",
          on: {
            submit: (event) => {
              event.preventDefault();
              decide("deny");
            },
          },
        },
        h("div", { class: "grow" }, reason),
        h("button", { class: "button danger", type: "submit" }, icon("close", 16), h("span", {}, "Deny")),
      ),
    );
  }

  function tick() {
    const passed = Math.round((Date.now() - seen) / 1000);
    const left = Math.max(0, last.expires_in_s - passed);
    const state = last.waiting ? "waits" : "its client may come back; it asked";
    const since = last.waiting ? `for ${duration(last.age_s + passed)}` : `${duration(last.age_s + passed)} ago`;
    fill(age, `${state} ${since} · ${duration(left)} left`);
  }

  return {
    element,
    tick,
    update: (each) => {
      seen = Date.now();
      last = each;
      tick();
    },
  };
}

/** All of what would be done. */
function what(request) {
  if (request.diff) return diffView(visible(request.diff));
  const text = request.command ?? JSON.stringify(request.arguments, null, 2);
  return h("pre", { class: "command whole", tabIndex: 0, aria: { label: "What would run" } }, visible(text));
}

/** A text in which nothing hides. */
function visible(text) {
  return text.replace(INVISIBLE, (letter) => `\\u{${letter.codePointAt(0)?.toString(16)}}`);
}

function duration(seconds) {
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

function tell(fresh) {
  if (readSetting(SOUND_KEY) === "on") ring();
  if (!wantsNotifications() || !document.hidden) return;
  for (const each of fresh) {
    const text = each.command ?? `${each.tool} in ${each.folder}`;
    const notification = new Notification(`${each.client}: ${each.title}?`, { body: text.slice(0, 300), tag: each.id });
    notification.onclick = () => {
      window.focus();
      location.hash = `#/ask/${encodeURIComponent(each.id)}`;
      notification.close();
    };
  }
}

/** Two short tones. A browser plays none before the page was clicked once. */
function ring() {
  const context = new AudioContext();
  [660, 880].forEach((pitch, index) => {
    const tone = context.createOscillator();
    const volume = context.createGain();
    tone.frequency.value = pitch;
    volume.gain.value = 0.08;
    tone.connect(volume).connect(context.destination);
    tone.start(context.currentTime + index * 0.18);
    tone.stop(context.currentTime + index * 0.18 + 0.14);
    if (index === 1) tone.onended = () => context.close();
  });
}

function soundButton() {
  return settingButton(SOUND_KEY, "sound", "Sound for calls that wait for you", async () => {
    ring();
    return true;
  });
}

function notifyButton() {
  return settingButton(NOTIFY_KEY, "bell", "Notification for calls that wait for you", async () => {
    // Browsers have them for pages of this machine and for https alone.
    if (!("Notification" in window)) return false;
    return (await Notification.requestPermission()) === "granted";
  });
}

function settingButton(key, name, label, prepare) {
  const element = button(
    "",
    async () => {
      const isOn = readSetting(key) !== "on" && (await prepare());
      writeSetting(key, isOn ? "on" : "off");
      element.setAttribute("aria-pressed", String(isOn));
    },
    { icon: name, label, kind: "ghost", aria: { pressed: String(readSetting(key) === "on") } },
  );
  return element;
}
