// What a browser sees that is not logged in: how to get a link, and a field for the owner's token.

import { ApiError, explain, ticketFor } from "./api.js";
import { field, fill, h } from "./dom.js";

/**
 * @param {string} title
 * @param {(link: string) => void} [enter] Follows the link that logs this browser in.
 */
export function loginView(
  title = "Open the Tools page",
  enter = (link) => location.assign(link + (location.hash === "#/expired" ? "" : location.hash)),
) {
  const isExpired = location.hash === "#/expired";
  const problem = h("p", { class: "field-problem", role: "alert" });
  const token = h("input", {
    class: "input mono",
    type: "password",
    name: "token",
    required: true,
    autocomplete: "off",
    spellcheck: false,
  });
  const submit = h("button", { class: "button primary", type: "submit" }, "Log in");

  async function logIn(event) {
    event.preventDefault();
    submit.disabled = true;
    try {
      // The link makes the cookie. The token itself is sent once, in a header, and kept nowhere.
      const link = await ticketFor(token.value.trim());
      if (isExpired) history.replaceState(null, "", "/");
      enter(link);
    } catch (error) {
      submit.disabled = false;
      fill(problem, problemOf(error));
      token.setAttribute("aria-invalid", "true");
      token.select();
    }
  }

  return h(
    "div",
    { class: "login" },
    h("img", { src: "/ui/icon.svg", alt: "", width: 48, height: 48 }),
    h("h1", {}, isExpired ? "That link was used, or is too old" : title),
    h("p", {}, "A link works once, within a minute. Make a new one on the machine where the daemon runs:"),
    h("pre", { class: "command" }, "mcp-agent open"),
    h(
      "p",
      { class: "muted" },
      "It opens this page, or prints the link, and the ssh line for a browser on another machine.",
    ),
    h(
      "form",
      { class: "card body stack login-form", on: { submit: logIn } },
      field("Or paste the owner\u2019s token", token, "mcp-agent token show prints it."),
      problem,
      h("div", { class: "row end" }, submit),
    ),
  );
}

function problemOf(error) {
  if (!(error instanceof ApiError)) return explain(error);
  if (error.status === 401) return "The daemon does not know this token.";
  if (error.status === 403) return "This is the token of a client. The page needs the owner\u2019s.";
  return explain(error);
}
