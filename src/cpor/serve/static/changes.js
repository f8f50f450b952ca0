// What would change the decision, and the question whose answer would help most.

import { el, keepingFocus, show } from "./dom.js";
import { key, missingOf } from "./store.js";
import { actionParts, apart, withChips } from "./words.js";

const MOST = 5;
const SURE = 0.9995; // no line above it can be told from 100 %

export function mountChanges(root, store, select, answer) {
  store.steadyView(["explained", "reply"], (state) => keepingFocus(root, () => draw(state)));

  function draw(state) {
    if (!state.reply) {
      show(root, el("p", { class: "small dim" }, "Shown once you have chosen an object."));
      return;
    }
    const rows = [];
    const surer = thresholdRow(state);
    if (surer) rows.push(el("li", { class: "change", "data-testid": "change-tau" }, surer));
    // Where an answer is missing, flips are counted from an assumed one: none of them need come true.
    const missing = missingOf(state.reply, state.target);
    const effects = missing.length === 0 ? (state.explained?.effects ?? []) : [];
    const flips = effects.filter(
      (each) => each.flips_at !== null && !sameAction(each.flips_to, state.reply.action),
    ).slice(0, MOST);
    rows.push(...flips.map((each) => effectRow(state, each)));
    const asks = state.reply.action.type === "defer"; // then the question stands beside the decision already
    const ask = missing.length > 0 ? firstThis(state, missing) : !asks && state.explained?.ask_next ? askNext(state, state.explained.ask_next) : null;
    const none = state.explained && flips.length === 0 && missing.length === 0
      ? el("p", { class: "small dim" }, "No single relation alone would change it, whatever its probability.")
      : null;
    const unseen = missing.length === 0 && state.explained?.not_examined > 0
      ? el(
        "p",
        { class: "small dim" },
        `${state.explained.not_examined} relations were not examined: the scene is large.`,
      )
      : null;
    const notSeen = (state.reply.unseen ?? []).filter((each) => each.p === null).map((each) => each.blocked);
    const hidden = notSeen.length > 0
      ? el("p", { class: "small", "data-testid": "not-seen" },
        ...withChips(state, `It is not known what lies on ${notSeen.map((id) => `object ${id}`).join(", ")}: part of it ` +
          "is hidden by something that was not found, or lies outside of the picture."))
      : null;
    show(root, ask, hidden, el("ul", { class: "change-list" }, rows), none, unseen,
      state.explained || missing.length > 0 ? null
        : el("p", { class: "small dim" }, state.explained === false ? "What else would was not worked out." : "Thinking…"));
  }

  function effectRow(state, each) {
    return el("li", {},
      el("button", {
        type: "button", class: "change plain", "data-testid": "change", "data-pair": key(each), "data-at": each.flips_at, onclick: () => select(each),
        title: `${each.words} Click to see this relation and to try it`,
      }, el("span", {}, ...effectParts(state, each))));
  }

  function firstThis(state, missing) {
    const next = state.explained?.ask_next ?? null;
    const asked = next !== null && missing.find((each) => key(each) === key(next));
    const pair = asked || missing[0];
    const more = missing.length - 1;
    const others = more === 0 ? "" : ` (and ${more} more without an answer)`;
    const standsAbove = asked && state.reply.action.type === "defer"; // beside the decision, with its buttons
    const words = state.reply.action.type === "defer" ? "First this answer is needed: " : "An answer is missing: ";
    return el("div", { class: "ask-next", "data-testid": "missing", "data-pair": key(pair) },
      el("span", {}, words, ...questionParts(state, pair), others,
        " Until it is given it is not known what else would change the decision."),
      standsAbove ? null : answers(pair, answer));
  }

  function askNext(state, pair) {
    return el("div", { class: "ask-next", "data-testid": "ask-next" },
      el("span", {}, "Worth asking: ", ...questionParts(state, pair)),
      answers(pair, answer));
  }
}

/** "If 2 is in the way of 1 with probability 57 % (now 9 %): ask first." */
function effectParts(state, each) {
  const [at, now] = apart(each.flips_at, each.p);
  const pair = withChips(state, `If object ${each.blocker} is in the way of object ${each.blocked}`);
  return [...pair, ` with probability ${at} (now ${now}): `, ...actionParts(state, each.flips_to), "."];
}

const sameAction = (a, b) => a.type === b.type && (a.type === "defer" || String(a.object) === String(b.object));

/** "Is 5 in the way of 8?" with badges. */
export function questionParts(state, pair) {
  return withChips(state, `is object ${pair.blocker} in the way of object ${pair.blocked}?`);
}

/** Two buttons that answer a question by hand. */
export function answers(pair, answer) {
  return el("span", { class: "answers" },
    el(
      "button",
      {
        type: "button",
        "data-testid": "answer-yes",
        title: "Take it as certain that it is",
        onclick: () => answer(pair, 1),
      },
      "Yes",
    ),
    el("button", { type: "button", "data-testid": "answer-no", title: "Take it as certain that it is not", onclick: () => answer(pair, 0) }, "No"));
}

/** What another threshold would change: it acts while the best score is above it. */
function thresholdRow(state) {
  const { action, scores, tau } = state.reply;
  const best = scores[0];
  if (action.type !== "defer") {
    const acted = scores.find((each) => String(each.object) === String(action.object));
    if (!acted || acted.score > SURE) return null;
    return el("span", {}, `If it had to be surer than ${apart(acted.score, tau)[0]}: ask first.`);
  }
  if (!best || best.score <= 0 || best.score >= tau || ["no_evidence", "unseen_blocker"].includes(action.reason)) return null;
  const type = String(best.object) === String(state.target) ? "grasp" : "remove";
  return el(
    "span",
    {},
    `If less than ${apart(best.score, tau)[0]} were enough: `,
    ...actionParts(state, { type, object: best.object }),
    ".",
  );
}
