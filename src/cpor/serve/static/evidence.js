// What each stage says of one relation, with a line on what each number means.

import { el } from "./dom.js";
import { percent } from "./words.js";

const share = (value) => (value === null || value === undefined ? "no answer" : percent(value));
const plain = (value) => (value === null || value === undefined ? "no answer" : value.toFixed(2));

function order(value) {
  if (value === null || value === undefined) return "no answer";
  const side = value > 0.05 ? "nearer" : value < -0.05 ? "farther" : "about level";
  return `${side} (${value > 0 ? "+" : ""}${value.toFixed(2)})`;
}

/** Stages in the order data walks through them: name, field, how to show it, what it means. */
const STAGES = [
  [
    "Covers",
    "hidden_overlap",
    share,
    (a, b) => `of ${b} lies hidden behind ${a}`,
    "hidden overlap o, eq. mask-support",
  ],
  [
    "Crowds",
    "clearance",
    share,
    (a, b) => `of a ring around ${b} is taken by ${a}`,
    "clearance c, eq. mask-support",
  ],
  [
    "Height",
    "depth_order",
    order,
    (a, b) => `than ${b}, seen from the camera`,
    "depth order d from −1 to +1, eq. mask-support",
  ],
  [
    "Depth readings",
    "reliability",
    share,
    () => "of the worse-seen one has usable depth",
    "reliability r, the gate of eq. fusion",
  ],
  [
    "Shapes say",
    "p_geometry",
    share,
    (a, b) => `from the four above: ${a} is in the way`,
    "calibrated geometric probability",
  ],
  [
    "Image, raw",
    "score_semantic",
    plain,
    () => "score of the network, as it comes",
    "semantic score, not a probability",
  ],
  [
    "Image says",
    "p_semantic",
    share,
    () => "the same, corrected by past errors",
    "calibrated semantic probability",
  ],
  ["Together", "p", share, () => "both combined", "fused probability, eq. fusion"],
];

export function evidenceList(pair, evidence) {
  if (!evidence) return el(
    "p",
    { class: "small dim" },
    "Nothing was measured for this pair: it was added by hand.",
  );
  const row = ([name, field, say, means, jargon]) =>
    el("div", {
      class: `stage-row${field === "p" ? " last" : ""}`,
      "data-testid": `evidence-${field}`,
      title: jargon,
    },
      el("dt", {}, name),
      el("dd", {}, el("b", {}, say(evidence[field])), " ", el("span", { class: "small dim" }, means(pair.blocker, pair.blocked)),
        field === "p" ? el("span", { class: "small dim decides" }) : null));
  return el("dl", { class: "evidence", "data-testid": "evidence" }, STAGES.map(row));
}

/** Say whether the last line decides, or a change by hand stands in for it. */
export function markOverruled(root, isOverruled) {
  const last = root.querySelector(".stage-row.last");
  if (!last) return;
  last.classList.toggle("overruled", isOverruled);
  last.querySelector(".decides").textContent = isOverruled ? " (not used)" : ": this decides";
}
