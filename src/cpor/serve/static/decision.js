// The decision in one big sentence, why, what is proven, and what comes after.

import { answers, questionParts } from "./changes.js";
import { el, show, svg } from "./dom.js";
import { chip, percent, withChips } from "./words.js";

const icon = (name) => svg(
  "svg",
  { class: "verdict-icon", viewBox: "0 0 48 48", "aria-hidden": "true" },
  svg("use", { href: `#icon-${name}` }),
);

/** The decision as a sentence for somebody who never heard of it. */
function sentence(state, action) {
  if (action.type === "defer") return ["Do not act yet: ask first"];
  return action.type === "grasp" ? ["Grasp ", chip(state, action.object), " now"] : [
    "Remove ",
    chip(state, action.object),
    " first",
  ];
}

/** actions: answer(pair, p), undoAll(), choose(id). */
export function mountDecision(root, store, actions) {
  store.steadyView(["target", "reply", "plan", "question", "candidates", "edits", "explained"], draw);

  function draw(state) {
    if (!state.scene) return;
    const reply = state.phase === "decided" ? state.reply : null;
    root.dataset.action = reply?.action.type ?? "none";
    root.dataset.object = reply?.action.object ?? "";
    root.dataset.reason = reply?.action.reason ?? "";
    root.dataset.tau = reply?.tau ?? "";
    root.dataset.target = reply ? state.target : "";
    if (state.phase === "ambiguous") drawQuestion(state);
    else if (!reply) drawPrompt(state);
    else drawDecision(state, reply);
  }

  function drawPrompt(state) {
    const found = state.scene.objects.length;
    const words = found === 0
      ? ["No object was found in this picture", "Try another picture, or give masks with it."]
      : [
        "Which object do you want?",
        `${found} objects were found. Click one in the picture, press its number, or type what it looks like.`,
      ];
    show(root, icon("point"), el("div", { class: "verdict-main" },
      el("p", { class: "headline", "data-testid": "headline" }, words[0]), el("p", { class: "why", "data-testid": "why" }, words[1])), notes(state));
  }

  function drawQuestion(state) {
    const buttons = state.candidates.map((id) =>
      el("button", { type: "button", "data-testid": `candidate-${id}`, onclick: () => actions.choose(id) }, chip(state, id)));
    show(root, icon("defer"), el("div", { class: "verdict-main" },
      el("p", { class: "headline", "data-testid": "headline" }, "Which one do you mean?"),
      el("p", { class: "why", "data-testid": "question" }, ...withChips(state, state.question ?? "")),
      el("div", { class: "candidates" }, buttons)));
  }

  function drawDecision(state, reply) {
    const pair = reply.action.type === "defer" ? state.explained?.ask_next : null;
    show(
      root,
      icon(reply.action.type),
      el("div", { class: "verdict-main" },
        el(
          "p",
          { class: "headline", "data-testid": "headline", title: reply.headline },
          ...sentence(state, reply.action),
        ),
        el("p", { class: "why", "data-testid": "why" }, ...withChips(state, reply.why)),
        pair ? tellIt(state, pair) : null),
      el("div", { class: "verdict-side" }, edited(state), after(state), proof(reply)),
    );
  }

  function tellIt(state, pair) {
    return el("div", { class: "ask-inline", "data-testid": "ask-inline" },
      el("span", {}, "You can tell it: ", ...questionParts(state, pair)),
      answers(pair, actions.answer));
  }

  function proof(reply) {
    const { certified, exact, kind, epsilon } = reply.certificate;
    const missing = reply.relations.some((each) => each.p === null);
    const words = missing
      ? reply.proof
      : exact
        ? "These percentages count every way the objects may lie."
        : certified
          ? "Counting the ways left out would not change this."
          : "The count was cut short; a full one might decide otherwise.";
    return el("p", {
      class: "proof",
      "data-testid": "proof",
      "data-certified": String(certified),
      title: `${reply.proof} Certificate: ${kind}, epsilon ${epsilon}`,
    },
      el("b", {}, certified ? "✓ Proven. " : "≈ Not proven. "), words);
  }

  function after(state) {
    const plan = state.plan;
    if (!plan || plan.ask || plan.steps.length === 0 || plan.first_action.type === "defer") return null;
    const same = String(plan.first_action.object) === String(state.reply.action.object);
    if (!same || plan.steps.length > 4) return null;
    const later = plan.steps.slice(1).flatMap(
      (step) => ["remove ", chip(state, step.object, { name: false }), ", then "],
    );
    return el("p", {
      "data-testid": "after",
      title: plan.note ?? "The whole plan, if nothing moves meanwhile; the robot looks again after each step",
    },
      el("b", {}, "After that: "), ...later, "grasp ", chip(state, plan.target, { name: false }),
      el("span", { class: "dim" }, ` (all of it right: ${percent(plan.p_valid)})`));
  }

  function edited(state) {
    const count = state.edits.size;
    if (count === 0) return null;
    return el("p", { class: "edited-note", "data-testid": "edited-note" },
      `✎ With ${count === 1 ? "1 change" : `${count} changes`} by hand`,
      el("button", { type: "button", "data-testid": "undo-all", onclick: actions.undoAll }, "Undo all"));
  }

  function notes(state) {
    if (state.scene.notes.length === 0) return null;
    return el(
      "div",
      { class: "verdict-side", "data-testid": "notes" },
      state.scene.notes.map((note) => el("p", { class: "dim" }, note)),
    );
  }
}
