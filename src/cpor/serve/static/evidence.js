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

/** Cues of geometry: name, field, how to show it, what it means, its name in the paper. */
const CUES = [
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
    "Distance",
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
];

/** What the sources of belief are called; others go by their own names. */
const SOURCES = { geometry: "Shapes", semantic: "Image" };

/** Rows of one source: its raw score, and the same as a probability. Geometry's raw cues are shown above. */
function sourceRows(name, said) {
  const title = SOURCES[name] ?? name;
  const p = [
    `${title} say${title.endsWith("s") ? "" : "s"}`,
    name,
    said.p,
    share,
    (a) => (name === "geometry" ? `from the four above: ${a} is in the way` : "the same, corrected by past errors"),
    `calibrated probability of the source ${name}`,
  ];
  if (name === "geometry") return [p];
  const raw = [`${title}, raw`, `${name}-raw`, said.score, plain, () => "score as it comes", "not a probability"];
  return [raw, p];
}

export function evidenceList(pair, evidence) {
  if (!evidence) return el(
    "p",
    { class: "small dim" },
    "Nothing was measured for this pair: it was added by hand.",
  );
  const sources = Object.entries(evidence.sources);
  sources.sort(([a], [b]) => (b === "geometry") - (a === "geometry")); // it follows its cues
  const rows = [
    ...CUES.map(([name, field, ...rest]) => [name, field, evidence[field], ...rest]),
    ...sources.flatMap(([name, said]) => sourceRows(name, said)),
    ["Together", "p", evidence.p, share, () => "all combined", "fused probability, eq. fusion"],
  ];
  const row = ([name, field, value, say, means, jargon]) =>
    el("div", {
      class: `stage-row${field === "p" ? " last" : ""}`,
      "data-testid": `evidence-${field}`,
      title: jargon,
    },
      el("dt", {}, name),
      el("dd", {}, el("b", {}, say(value)), " ", el("span", { class: "small dim" }, means(pair.blocker, pair.blocked)),
        field === "p" ? el("span", { class: "small dim decides" }) : null));
  return el("dl", { class: "evidence", "data-testid": "evidence" }, rows.map(row));
}

/** Say whether the last line decides, or a change by hand stands in for it. */
export function markOverruled(root, isOverruled) {
  const last = root.querySelector(".stage-row.last");
  if (!last) return;
  last.classList.toggle("overruled", isOverruled);
  last.querySelector(".decides").textContent = isOverruled ? " (not used)" : ": this decides";
}
