// Numbers and objects as words. The service speaks of "object 7"; the page shows a badge and a name instead.

import { el } from "./dom.js";

/** A probability in words; never 0 % or 100 %, which few things are. */
export function percent(p) {
  if (p === null || p === undefined) return "?";
  return p > 0.99 && p < 1 ? ">99 %" : p > 0 && p < 0.01 ? "<1 %" : `${Math.round(100 * p)} %`;
}

/** With one more digit, where small differences matter. */
export const finely = (p) => (p === null || p === undefined ? "?" : `${(100 * p).toFixed(1)} %`);

/** A share that may be small: two digits that count. */
export function shareOf(p) {
  if (p === null) return "?";
  if (p > 0 && p < 1e-4) return "<0.01 %";
  return p >= 0.01 || p === 0 ? `${Math.round(100 * p)} %` : `${Number((100 * p).toPrecision(2))} %`;
}

export function objectOf(scene, id) {
  return scene?.objects.find((each) => String(each.id) === String(id)) ?? null;
}

/** Plain text for an object: "object 7", or "object 7, the red mug". */
export function sayObject(scene, id) {
  const name = objectOf(scene, id)?.name;
  return name ? `object ${id}, ${name}` : `object ${id}`;
}

/** An object as a badge with its name. */
export function chip(state, id, { name = true } = {}) {
  const known = objectOf(state.scene, id)?.name;
  const isTarget = String(id) === String(state.target);
  return el(
    "span",
    { class: "chip", title: sayObject(state.scene, id) + (isTarget ? " (the one you want)" : "") },
    el("span", { class: isTarget ? "badge target" : "badge" }, `${isTarget ? "★" : ""}${id}`),
    name && known ? ` ${known}` : "",
  );
}

/** A sentence of the service, with a chip in place of every "object 7". */
export function withChips(state, text, options) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(/\b[Oo]bject (\d+)\b/g)) {
    if (!objectOf(state.scene, found[1])) continue;
    parts.push(text.slice(from, found.index), chip(state, found[1], options));
    from = found.index + found[0].length;
  }
  parts.push(text.slice(from));
  return parts;
}

/** What an action is, in two words: "Grasp 7", "Remove 3", "Ask". */
export function actionParts(state, action, options) {
  if (!action || action.type === "defer") return ["ask first"];
  return [action.type === "grasp" ? "grasp " : "remove ", chip(state, action.object, options)];
}
