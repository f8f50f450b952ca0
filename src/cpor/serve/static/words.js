// Numbers and objects as words. The service speaks of "object 7"; the page shows a badge and a name instead.

import { el } from "./dom.js";

/** A probability in words; never 0 % or 100 %, which few things are. */
export function percent(p) {
  if (p === null || p === undefined) return "?";
  return p > 0.99 && p < 1 ? ">99 %" : p > 0 && p < 0.01 ? "<1 %" : `${Math.round(100 * p)} %`;
}

/** The same for what was reckoned, as the service says it: never quite certain. */
export const likely = (p) => (p >= 1 ? ">99 %" : p <= 0 ? "<1 %" : percent(p));

/** With more digits, where small differences matter. */
export function finely(p, digits = 1) {
  if (p === null || p === undefined) return "?";
  if (p === 0 || p === 1) return `${100 * p} %`;
  const least = 10 ** -digits;
  if (100 * p < least) return `<${least.toFixed(digits)} %`;
  return 100 - 100 * p < least ? `>${(100 - least).toFixed(digits)} %` : `${(100 * p).toFixed(digits)} %`;
}

/** Two probabilities with as many digits as it takes to tell them apart. */
export function apart(a, b, say = percent) {
  for (const write of [say, finely, (p) => finely(p, 2), (p) => finely(p, 3)]) {
    if (a === b || write(a) !== write(b)) return [write(a), write(b)];
  }
  return [finely(a, 3), finely(b, 3)];
}

/** An interval, rounded outwards: it must not look narrower than it is. */
export const range = (low, high) => `${Math.floor(100 * low + 1e-9)}–${Math.ceil(100 * high - 1e-9)} %`;

const EXACT = 0.0005; // narrower intervals are no wider than a line

export const isExact = (score) => score.high - score.low < EXACT;

/** What is known of a score: one number where that is exact, else the interval that holds it. */
export const scoreText = (score) => (isExact(score) ? likely(score.score) : range(score.low, score.high));
export const scoreProof = (score) =>
  isExact(score)
    ? `${finely(score.score)}, counted exactly`
    : `proven to lie between ${finely(score.low)} and ${finely(score.high)}`;

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

/** One colour a thing, as in the pictures: cpor.viz.overlay_marks.THINGS. */
const THINGS = ["#ffffff", "#ebe178", "#7dc3f0", "#f4a6c0", "#78d6a0", "#f5b446", "#beaeff", "#c8c8be", "#ff8c69", "#96e6eb", "#cdeb6e", "#d5a06e"];
export function thingColour(id) {
  return THINGS[Number(id) % THINGS.length] ?? THINGS[0];
}

/** An object as a badge with its name. */
export function chip(state, id, { name = true } = {}) {
  const known = objectOf(state.scene, id)?.name;
  const isTarget = String(id) === String(state.target);
  const badge = el("span", { class: isTarget ? "badge target" : "badge" }, `${isTarget ? "★" : ""}${id}`);
  badge.style.background = thingColour(id);
  badge.style.color = "#181c24";
  return el(
    "span",
    { class: "chip", title: sayObject(state.scene, id) + (isTarget ? " (the one you want)" : "") },
    badge,
    name && known ? ` ${known}` : "",
  );
}

/** A sentence of the service, with a chip in place of every "object 7". */
export function withChips(state, sentence, options) {
  const text = sentence.replace(/(\d)%/g, "$1 %");
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
