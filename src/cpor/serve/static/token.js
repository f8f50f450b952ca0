// The token of the service, asked for where it wants one. A cookie that scripts cannot read keeps it.

import { el, prose } from "./dom.js";

/** Ask for the token, and go on once it is right. */
export function askForToken(goOn) {
  if (document.getElementById("token")) return;
  const text = el("input", { id: "token-text", type: "password", autocomplete: "off", "data-testid": "token-text" });
  const wrong = el("p", { role: "alert", hidden: true }, "That is not the token of this service.");
  const send = async (event) => {
    event.preventDefault();
    const reply = await fetch(`/?token=${encodeURIComponent(text.value.trim())}`, { cache: "no-store" });
    wrong.hidden = reply.ok;
    if (!reply.ok) return;
    dialog.remove();
    goOn();
  };
  const dialog = el("dialog", { id: "token", class: "card", "aria-labelledby": "token-title", "data-testid": "token" },
    el("form", { class: "stack", onsubmit: send },
      el("h2", { id: "token-title" }, "This service asks for its token"),
      el("p", { class: "dim" }, ...prose("It is the one that `cpor serve` was started with.")),
      el("label", { for: "token-text" }, "Token"), text, wrong,
      el("button", { class: "primary", "data-testid": "token-send" }, "Go on")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
