// The name by which the internet reaches the daemon: whether it leads here, and what to paste into claude.ai.

import { get, post } from "./api.js";
import { button, fill, h } from "./dom.js";

/** Whether the public name leads here, in words with a dot. */
export function publicState({ leads_here: leadsHere }) {
  const [kind, text] =
    leadsHere === null ? ["", "Not checked yet"] : leadsHere ? ["good", "Leads here"] : ["bad", "Does not lead here"];
  return h("span", { class: "row" }, h("span", { class: `dot ${kind}` }), text);
}

/** A card for a daemon that is public; nothing for any other. */
export function publicCard(app, copyable) {
  const card = h("section", { class: "card", hidden: true });

  function paint(state) {
    const check = button("Check again", again);
    const callbacks = Object.entries(state.callbacks);
    card.hidden = false;
    fill(
      card,
      h("header", {}, h("h2", {}, "claude.ai, ChatGPT and others on the internet"), publicState(state)),
      h(
        "div",
        { class: "body stack" },
        state.leads_here === false &&
          h(
            "p",
            { class: "note bad" },
            `${state.url} does not lead to this daemon: ${state.problem}. On its machine, `,
            h("code", {}, "mcp-agent expose"),
            " says what to do.",
          ),
        state.advice.map((each) => h("p", { class: "note warn" }, each)),
        h("p", { class: "muted" }, "Add a connector there, paste this, and leave the fields for a client id empty:"),
        copyable(app, state.resource),
        callbacks.map(([name, addresses]) =>
          h("p", { class: "hint break" }, `${name} is called back at ${addresses.join(" or ")}.`),
        ),
        h("div", { class: "row end" }, check),
      ),
    );

    async function again() {
      check.disabled = true;
      const found = await app.attempt(() => post("public/check"));
      if (found) paint(found);
      else check.disabled = false;
    }
  }

  get("public").then(paint, () => {
    // It is not public: there is no such address.
  });
  return card;
}
