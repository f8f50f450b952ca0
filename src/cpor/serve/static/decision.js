// The decision in one big sentence, why, what is proven, and what comes after.

import { promisedAbove, promiseWords } from "./bars.js";
import { answers, questionParts } from "./changes.js";
import { el, icon, keepingFocus, prose, show } from "./dom.js";
import { mark } from "./glossary.js";
import { actionParts, chip, likely, percent, scoreText, withChips } from "./words.js";

/** The decision as a sentence for somebody who never heard of it. */
function sentence(state, action) {
  if (action.reason === "failed_check") return ["Do not act: the picture is not right"];
  if (action.type === "defer") return ["Do not act yet: ask first"];
  return action.type === "grasp" ? ["Grasp ", chip(state, action.object), " now"] : [
    "Remove ",
    chip(state, action.object),
    " first",
  ];
}

/** Why, in one short sentence; the longer one stands beside it. */
function because(state, reply) {
  const { action } = reply;
  const score = reply.scores.find((each) => String(each.object) === String(action.object));
  if (action.type === "grasp") return ["Nothing is in its way (", scoreText(score), ")."];
  if (action.type === "remove") return ["It is in the way of ", chip(state, state.target), " (", scoreText(score), ")."];
  return withChips(state, reply.why);
}

const UNANSWERED = {
  late: ["Still deciding…", "The service takes its time. What is dimmed belongs to what was asked before."],
  failed: ["Not answered yet", "The service gave no decision on this. What is dimmed belongs to what was asked before."],
};

/** actions: answer(pair, p), undoAll(), choose(id), again(). */
export function mountDecision(root, store, actions) {
  let isOpen = false; // whether the reasons are shown in full
  let doubtsOpen = false; // whether the checks in doubt are
  const fields = ["target", "reply", "plan", "question", "candidates", "edits", "explained", "unanswered"];
  store.view((state, before) => {
    if (state.asking === before.asking) return;
    root.setAttribute("aria-busy", String(state.asking)); // read out once settled
    document.body.toggleAttribute("data-asking", state.asking);
  });
  store.steadyView(fields, (state) => keepingFocus(root, () => draw(state)));

  function draw(state) {
    root.closest("#workplace").toggleAttribute("data-stale", state.unanswered !== null);
    if (!state.scene) return;
    const reply = state.phase === "decided" && state.unanswered === null ? state.reply : null;
    root.dataset.action = reply?.action.type ?? "none";
    root.dataset.object = reply?.action.object ?? "";
    root.dataset.reason = reply?.action.reason ?? "";
    root.dataset.tau = reply?.tau ?? "";
    root.dataset.target = reply ? state.target : "";
    if (state.unanswered !== null) drawUnanswered(state);
    else if (state.phase === "ambiguous") drawQuestion(state);
    else if (!reply) drawPrompt(state);
    else drawDecision(state, reply);
  }

  function drawUnanswered(state) {
    const [headline, why] = UNANSWERED[state.unanswered];
    const again = state.unanswered === "failed" && !state.gone
      ? el("button", { type: "button", "data-testid": "again", onclick: actions.again }, "Ask again")
      : null;
    show(root, icon("defer"), el("div", { class: "verdict-main" },
      el("p", { class: "headline", "data-testid": "headline" }, headline),
      el("p", { class: "why", "data-testid": "why" }, "You want ", chip(state, state.target), `, acting above ${percent(state.tau)}. ${why}`),
      again));
  }

  function drawPrompt(state) {
    const found = state.scene.objects.length;
    const words = found === 0
      ? ["No object was found in this picture", "Try another picture, or give masks with it."]
      : [
        "Which object do you want?",
        `${found === 1 ? "1 object was" : `${found} objects were`} found. Click one in the picture, press its number, or type what it looks like.`,
      ];
    show(root, icon("point"), el("div", { class: "verdict-main" },
      failed(state.scene.checks),
      el("p", { class: "headline", "data-testid": "headline" }, words[0]), el("p", { class: "why", "data-testid": "why" }, words[1])),
    el("div", { class: "verdict-side", "data-testid": "notes" }, notes(state), doubted(state.scene.checks)));
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
        failed(reply.checks),
        el(
          "p",
          { class: "headline", "data-testid": "headline", title: reply.headline },
          ...sentence(state, reply.action),
        ),
        el("p", { class: "why", "data-testid": "why", title: reply.why }, ...because(state, reply)),
        untested(state, reply) ?? caveat(state),
        pair ? tellIt(state, pair) : noQuestion(state, reply)),
      el("div", { class: "verdict-side" }, edited(state), after(state), inFull(state, reply), doubted(reply.checks)),
    );
  }

  /** The reason in full, what is proven, what is promised: for who wants to know. */
  function inFull(state, reply) {
    const details = el("details", { class: "in-full", "data-testid": "in-full", ontoggle: () => (isOpen = details.open) },
      el("summary", {}, "Why exactly, and how sure"),
      reply.action.type === "defer" ? null : el("p", { class: "dim" }, ...withChips(state, reply.why)),
      proof(reply), ...notesOf(state, /^Promised|^Mode /));
    details.open = isOpen;
    return details;
  }

  /** A warning where it acts by a line that was not tested. */
  function untested(state, reply) {
    if (promisedAbove(state.scene) === null || reply.promise !== null || reply.action.type === "defer") return null;
    const words = state.edits.size > 0
      ? "No error rate is promised for what was changed by hand."
      : "No error rate is promised for this line; it was tested in the mode cautious only.";
    return el("p", { class: "untested", "data-testid": "untested", title: promiseWords(state.scene) }, el("b", {}, "⚠ "), words, " ", mark("promise"));
  }

  /** What is wrong or doubtful about the input, and what to do about it; the failed first. */
  function checks(all, state, words) {
    const found = all.filter((each) => each.state === state);
    if (found.length === 0) return null;
    return el("ul", { class: "checks", "data-testid": `checks-${state}` }, found.map((each) =>
      el("li", { class: `check ${state}`, "data-testid": `check-${each.name}`, "data-check": state },
        el("b", {}, words), ...prose(`${each.says} `), el("span", { class: "dim" }, ...prose(each.remedy)))));
  }

  /** What keeps it from acting; it stands before everything else. */
  const failed = (all) => checks(all, "fail", "✗ Failed: ");

  /** What is in doubt keeps it from promising: one line, and the rest for who wants to know. */
  function doubted(all) {
    const list = checks(all, "doubt", "⚠ In doubt: ");
    if (list === null) return null;
    const count = list.children.length;
    const details = el("details", { class: "in-full", "data-testid": "doubts", ontoggle: () => (doubtsOpen = details.open) },
      el("summary", {}, `⚠ ${count === 1 ? "1 check is" : `${count} checks are`} in doubt`), list);
    details.open = doubtsOpen;
    return details;
  }

  function tellIt(state, pair) {
    return el("div", { class: "ask-inline", "data-testid": "ask-inline" },
      el("span", {}, "You can tell it: ", ...questionParts(state, pair)),
      answers(pair, actions.answer));
  }

  /** Where it asks, and no single answer would help: what would. */
  function noQuestion(state, reply) {
    if (reply.action.type !== "defer" || reply.action.reason === "failed_check" || !state.explained) return null;
    return el("p", { class: "ask-inline", "data-testid": "no-question" },
      "No single answer would settle this. Look again from another side, or correct what it sees (✎ Correct…).");
  }

  function proof(reply) {
    const { certified, exact, kind, epsilon } = reply.certificate;
    const missing = reply.relations.some((each) => each.p === null);
    const [sign, words] = missing
      ? ["? ", reply.proof]
      : exact
        ? ["✓ Counted exactly, given these percentages: ", "every way the objects may lie, weighed by how likely each relation is thought to be."]
        : certified
          ? ["✓ Counted closely enough, given these percentages: ", "the ways left out would not change this."]
          : ["≈ Estimated. ", "The count was cut short; a full one might decide otherwise."];
    return el("p", {
      class: "proof",
      "data-testid": "proof",
      "data-certified": String(certified),
      title: `${reply.proof} Certificate: ${kind}, epsilon ${epsilon}`,
    },
      el("b", {}, sign), words, " ", mark(missing ? "no answer" : "counted exactly"));
  }

  function after(state) {
    const plan = state.plan;
    if (!plan || plan.ask || plan.steps.length === 0 || plan.first_action.type === "defer") return null;
    const same = String(plan.first_action.object) === String(state.reply.action.object);
    if (!same || plan.steps.length > 4) return null;
    const later = plan.steps.slice(1).flatMap((step) => ["remove ", chip(state, step.object), ", then "]);
    return el("p", {
      "data-testid": "after",
      title: plan.note ?? "The whole plan, if nothing moves meanwhile; the robot looks again after each step",
    },
      el("b", {}, "After that: "), ...later, "grasp ", chip(state, plan.target),
      el("span", { class: "dim" }, ` (probability that the whole plan is right: ${likely(plan.p_valid)})`));
  }

  function edited(state) {
    const count = state.edits.size;
    if (count === 0) return null;
    return el("p", { class: "edited-note", "data-testid": "edited-note" },
      `✎ With ${count === 1 ? "1 change" : `${count} changes`} by hand`,
      el("button", { type: "button", "data-testid": "undo-all", onclick: actions.undoAll }, "Undo all"));
  }

  /** What weakens the decision stands below it. */
  function caveat(state) {
    const weak = notesOf(state, /^No (error rate|depth|semantic scores)|^The unit of depth|^The last \d+ pictures/);
    return weak.length === 0 ? null : el("div", { class: "caveat", "data-testid": "caveats" }, weak);
  }

  const notesOf = (state, which) => state.reply.notes.filter((note) => which.test(note))
    .map((note) => el("p", { class: "dim" }, ...withChips(state, note)));

  const notes = (state) => state.scene.notes
    // The sentence beside says how many were found, and that every question was answered is no news.
    .filter((note) => !/^The segmenter |^The scorer .* answered (\d+) of \1 questions?\.$/.test(note))
    .map((note) => el("p", { class: "dim" }, ...withChips(state, note)));
}
