// The keyboard: everything on the page can be done with it.

import { byId } from "./dom.js";

const TYPING = "input, select, textarea";
const SECOND_DIGIT_MS = 700;

/** actions: choose(id), step(event), walk(step), open(), back(), tool(key). */
export function listenForKeys(store, actions) {
  let digits = "";
  let typedAt = 0;

  function chooseByDigit(digit) {
    const ids = new Set((store.state.scene?.objects ?? []).map((each) => String(each.id)));
    const now = performance.now();
    const longer = digits + digit;
    digits = now - typedAt < SECOND_DIGIT_MS && ids.has(longer) ? longer : digit;
    typedAt = now;
    if (ids.has(digits)) actions.choose(Number(digits));
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return;
    const typing = event.target.matches?.(TYPING);
    if (event.key === "Escape") {
      if (typing) event.target.blur();
      actions.back();
      return;
    }
    if (typing) return;
    const act = {
      "?": () => byId("keys").showModal(),
      "/": () => byId("words").focus(),
      o: actions.open,
      n: () => actions.walk(1),
      p: () => actions.walk(-1),
      c: () => byId("tools").querySelector("[data-testid=correct]").click(),
      ...(store.state.labelling && { a: () => byId("queue-accept").click(), l: () => byId("queue-skip").click() }),
    }[event.key];
    if (act) act();
    else if (/^[0-9]$/.test(event.key)) chooseByDigit(event.key);
    else if (!actions.tool(event.key) && !(/^Arrow(Left|Right)$/.test(event.key) && store.state.phase === "decided" && actions.step(event))) return;
    event.preventDefault();
  });
  byId("open-keys").addEventListener("click", () => byId("keys").showModal());
}
