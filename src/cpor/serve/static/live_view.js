// A cycle on the page: the decision in big words, the bars, what came of it, and the steps so far.

import { barRow, markChosen } from "./bars.js";
import { el, icon, onPress, show, svg, titled } from "./dom.js";
import { chip, isExact, percent, sayObject, scoreProof } from "./words.js";

const stateOf = (cycle) => ({ scene: cycle, target: cycle.target });
export const nameOf = (cycle, id) => {
  const found = cycle.objects.find((each) => each.id === id);
  return found?.name ? `the ${found.name}` : `object ${id}`;
};

/** The action of a cycle as text. */
export function sayAction(cycle) {
  const action = cycle.action;
  if (cycle.moment === "last") return "Look at what is left";
  if (!action) return "Look again";
  if (action.type === "defer") return "Do not act";
  return `${action.type === "grasp" ? "Grasp" : "Remove"} ${nameOf(cycle, action.object)}`;
}

/** actions: answer(id or null). */
export function drawVerdict(root, cycle, run, actions) {
  const action = cycle.action;
  const isLast = cycle.moment === "last";
  const kind = isLast ? "none" : (action?.type ?? "defer");
  root.dataset.action = kind;
  root.dataset.cycle = cycle.index;
  root.dataset.object = action?.object ?? "";
  const words = isLast
    ? ["The last look: what is left"]
    : !action
    ? ["Look again: it does not see what was asked for"]
    : kind === "defer"
      ? ["Do not act: not sure enough"]
      : [kind === "grasp" ? "Grasp " : "Remove ", chip(stateOf(cycle), action.object), kind === "grasp" ? "" : " first"];
  const differs = cycle.decision && action && cycle.decision.action.object !== action.object;
  show(
    root,
    isLast ? null : icon(kind),
    el("div", { class: "verdict-main" },
      isLast ? null : el("p", { class: "dim small" }, `Step ${cycle.index + 1}`),
      el("p", { class: "headline", "data-testid": "headline" }, ...words),
      differs ? null : el("p", { class: "why", "data-testid": "why" }, cycle.decision?.why ?? ""),
      cycle.notes.length ? el("ul", { class: "notes small", "data-testid": "notes" }, cycle.notes.map((note) => el("li", {}, note))) : null,
      run?.state === "asking" && run.cycle === cycle.index ? question(cycle, actions) : null,
      assumed(cycle),
      el("p", { class: "proof small dim" }, cycle.decision?.proof ?? "")),
  );
}

/** What became of pairs without an answer. */
function assumed(cycle) {
  const missing = (cycle.decision?.relations ?? []).filter((each) => each.p === null).length;
  if (missing === 0) return null;
  return el("p", { class: "small dim", "data-testid": "assumed" },
    `${missing} ${missing === 1 ? "pair has" : "pairs have"} no answer (? in the picture). Where one could change the action, it asks.`);
}

function question(cycle, actions) {
  const seen = cycle.objects.filter((each) => each.visible.length > 0);
  return el("div", { class: "question", "data-testid": "question" },
    el("p", {}, "It asks you: which object shall it take?"),
    el("div", { class: "answers" },
      seen.map((each) => el("button", { type: "button", "data-testid": `answer-${each.id}`, onclick: () => actions.answer(each.id) },
        each.id === cycle.target ? "Grasp " : "Remove ", chip(stateOf(cycle), each.id))),
      el("button", { type: "button", onclick: () => actions.answer(null) }, "Give up")));
}

/** actions: retarget(id); `live` where objects may be chosen. */
export function drawBars(root, cycle, live, actions) {
  const scores = cycle.decision?.scores ?? [];
  const tau = cycle.decision?.tau ?? 0;
  const rows = el("ul", { class: "rows" }, scores.map((each) => bar(cycle, each, live, actions)));
  const area = el("div", { class: "track-area" }, el("div", { class: "zone", "aria-hidden": "true" }), el("div", { class: "tau-mark", "aria-hidden": "true" }));
  area.style.setProperty("--tau", String(tau));
  root.classList.toggle("ranged", scores.some((each) => !isExact(each)));
  show(
    root,
    scores.length ? el("p", { class: "small dim under" }, `It acts above ${percent(tau)} (the line).`) : el("p", { class: "dim" }, "Nothing to decide in this step."),
    el("div", { class: "plot" }, rows, scores.length ? area : null),
  );
}

function bar(cycle, each, live, actions) {
  const isTarget = each.object === cycle.target;
  const label = isTarget ? "asked for already" : `ask for ${sayObject(cycle, each.object)} instead`;
  const pick = el("button", { type: "button", class: "plain pick", disabled: !live || isTarget, "aria-label": label, title: label,
    "data-testid": `pick-${each.object}`, onclick: () => actions.retarget(each.object) }, chip(stateOf(cycle), each.object));
  const row = barRow(each, [isTarget ? "Grasp " : "Remove ", pick], scoreProof(each));
  markChosen(row, cycle.action);
  return row;
}

/** What came of it, and what the truth says. */
export function drawOutcome(root, cycle, run) {
  if (cycle.moment !== "done") {
    const words = cycle.moment === "last" ? "" : { paused: "The arm waits for you.", asking: "The arm waits for your answer.", running: "The arm is on its way …" }[run.state] ?? "";
    show(root, el("p", { class: "dim small" }, words));
    return;
  }
  show(
    root,
    el("p", { class: "came", "data-testid": "came" }, `${markOf(cycle)} `, cycle.outcome ?? ""),
    cycle.verdict ? el("p", { class: cycle.right ? "truth right" : "truth wrong", "data-testid": "truth" }, cycle.right ? "✓ " : "✗ ", cycle.verdict) : null,
  );
}

/** How a step went in one sign; what worked by luck is no success. */
function markOf(cycle) {
  if (cycle.moment !== "done") return cycle.moment === "last" ? "·" : "…";
  if (!cycle.outcome?.startsWith("It worked")) return "·";
  return cycle.right === false ? "⚠" : "✓";
}

/** actions: look(index or null). */
export function drawSteps(root, cycles, shown, actions) {
  const items = cycles.map((cycle) => {
    const done = cycle.moment === "done";
    const truth = cycle.right === null ? "" : cycle.right ? "right in truth" : "wrong in truth";
    return el("li", {},
      el("button", { type: "button", class: "plain step", "aria-current": cycle.index === shown ? "step" : null, "data-testid": `step-${cycle.index}`, onclick: () => actions.look(cycle.index) },
        el("span", { class: "mark", "aria-hidden": "true" }, markOf(cycle)),
        el("span", { class: "what" }, `${cycle.index + 1}. ${cycle.retargeted ? "(another target) " : ""}${sayAction(cycle)}`),
        el("span", { class: "came small dim" }, done ? [cycle.outcome?.split(":")[0], truth].filter(Boolean).join(", ") : cycle.moment === "last" ? "" : "under way")));
  });
  show(root, items);
  const current = root.querySelector('[aria-current="step"]');
  current?.scrollIntoView({ block: "nearest" });
}

/** Places on the picture where an object can be chosen. actions: choose(id). */
export function drawHits(root, cycle, live, actions) {
  const [left, top, right, bottom] = cycle.window;
  root.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
  root.setAttribute("preserveAspectRatio", "xMidYMin meet"); // the legend is below it
  const hits = live
    ? cycle.objects.filter((each) => each.visible.length).map((each) => {
        const path = each.visible.map((ring) => `M${ring.map(([x, y]) => `${x} ${y}`).join("L")}Z`).join("");
        const isTarget = each.id === cycle.target;
        const words = isTarget ? `${sayObject(cycle, each.id)}: asked for` : `Ask for ${sayObject(cycle, each.id)} instead`;
        const choose = () => actions.choose(each.id);
        return titled(
          svg("path", {
            d: path, class: isTarget ? "hit is-target" : "hit", tabindex: 0, role: "button", "fill-rule": "evenodd", "aria-label": words, "data-testid": `object-${each.id}`,
            onclick: choose, onkeydown: onPress(choose),
          }),
          words,
        );
      })
    : [];
  show(root, hits);
}
