// Arrows from blocker to blocked: bowed, so that two opposite ones stay apart; thickness is probability.

import { svg, titled } from "./dom.js";
import { key, onCycles, relationsOf, relevant } from "./store.js";
import { percent } from "./words.js";

const BOW = 0.14;

// Arrows of less likely relations would hide the picture; "all arrows" shows them.
const LEAST_P = 0.3;
const LEAST_P_OF_MANY = 0.5;
const MANY = 14;
const MOST_LABELS = 9;
const LEAST_P_OF_CONFLICT = 0.1;

/** A bowed arrow between two places that keeps `gap` px from both; null where they are too near. */
export function arrowShape(from, to, width, gap) {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const distance = Math.hypot(dx, dy);
  const head = 5 + 1.5 * width;
  if (distance < 2 * gap + 4) return null;
  const bend = { x: (from.x + to.x) / 2 - BOW * dy, y: (from.y + to.y) / 2 + BOW * dx };
  const towards = (place, other, length) => {
    const away = Math.hypot(other.x - place.x, other.y - place.y);
    return {
      x: place.x + (length / away) * (other.x - place.x),
      y: place.y + (length / away) * (other.y - place.y),
    };
  };
  const start = towards(from, bend, gap);
  const tip = towards(to, bend, gap);
  const neck = towards(tip, bend, Math.min(head, 0.6 * (distance - 2 * gap)));
  const nx = (tip.y - neck.y) / 2;
  const ny = (neck.x - tip.x) / 2;
  return {
    line: `M${start.x} ${start.y}Q${bend.x} ${bend.y} ${neck.x} ${neck.y}`,
    head: `${tip.x},${tip.y} ${neck.x + nx},${neck.y + ny} ${neck.x - nx},${neck.y - ny}`,
    middle: { x: (start.x + 2 * bend.x + neck.x) / 4, y: (start.y + 2 * bend.y + neck.y) / 4 },
  };
}

export const widthOf = (p) => (p === null ? 2.5 : 1 + 7 * p);

/** The mark of a relation beside its arrow: "?" no answer, a turning arrow for contradictions, a pencil. */
export function marksOf(relation) {
  return (relation.p === null ? "?" : "") + (relation.cycle ? "⟳" : "") + (relation.edited ? "✎" : "");
}

export function describe(relation) {
  const sure = relation.p === null ? "not known" : percent(relation.p);
  const cycle = relation.cycle ? "; contradicts others: they cannot all be true (cycle)" : "";
  const edited = relation.edited ? "; changed by hand" : "";
  return `${relation.blocker} is in the way of ${relation.blocked}: ${sure}${cycle}${edited}`;
}

/** One arrow with its outline and mark; `relation` has p, cycle, edited, faint, selected, labelled. */
export function drawArrow(relation, from, to, gap, onSelect) {
  const width = widthOf(relation.p);
  const shape = arrowShape(from, to, width, gap);
  if (shape === null) return null;
  const kinds = ["cycle", "edited", "faint", "selected"].filter((kind) => relation[kind]);
  if (relation.p === null) kinds.push("unknown");
  const group = svg(
    "g",
    {
      class: ["arrow", ...kinds].join(" "),
      "data-testid": "arrow",
      "data-pair": key(relation),
      "data-p": relation.p ?? "none",
      onclick: (event) => {
        event.stopPropagation();
        onSelect(relation);
      },
    },
    svg("path", { class: "hit", d: shape.line }),
    svg("path", { class: "halo", d: shape.line, "stroke-width": width + 3.5 }),
    svg("polygon", { class: "halo-head", points: shape.head }),
    svg("path", { class: "core", d: shape.line, "stroke-width": width }),
    svg("polygon", { class: "head", points: shape.head }),
  );
  const text = [
    marksOf(relation),
    relation.labelled && relation.p !== null ? percent(relation.p) : "",
  ].filter(Boolean);
  if (text.length > 0) {
    const words = text.join(" ");
    const half = 4 + 3.6 * words.length;
    group.append(
      svg(
        "rect",
        { class: "tag", x: shape.middle.x - half, y: shape.middle.y - 9, width: 2 * half, height: 18, rx: 9 },
      ),
      svg("text", { class: "tag-text", x: shape.middle.x, y: shape.middle.y + 4.5 }, words),
    );
  }
  return titled(group, describe(relation));
}

/** Whether the words of each arrow have room: the likeliest first, never on a badge or on each other. */
export function makeRoom(relations, places, gap) {
  const taken = [...places.values()].map((at) => ({ ...at, w: 24, h: 20 }));
  const free = new Set();
  for (const each of [...relations].reverse()) {
    const shape = arrowShape(places.get(each.blocker), places.get(each.blocked), widthOf(each.p), gap);
    if (shape === null) continue;
    const clear = taken.every(
      (box) => Math.abs(box.x - shape.middle.x) > (box.w + 44) / 2 || Math.abs(box.y - shape.middle.y) > (box.h + 18) / 2,
    );
    if (!clear && !each.selected) continue;
    taken.push({ ...shape.middle, w: 44, h: 18 });
    free.add(key(each));
  }
  return relations.map((each) => ({ ...each, labelled: each.labelled && free.has(key(each)) }));
}

const ACCEPTED = 0.5; // a relation becomes a label from this probability, as cpor.corrections has it

/** The relations on the picture, weakest first, with what is to be said of each. */
export function arrowsToShow(state) {
  const graph = state.shownGraph === null ? null : state.reply?.graphs[state.shownGraph];
  const all = relationsOf(state);
  const inGraph = graph && new Set(graph.relations.map(key));
  const likely = relevant(all, state.target, LEAST_P);
  const matter = new Set(
    (likely.length > MANY ? relevant(all, state.target, LEAST_P_OF_MANY) : likely).map(key),
  );
  if (state.reply?.action.reason === "conflicting_evidence") {
    // The contradiction is what decided: show it, though its relations may be unlikely each.
    for (const name of onCycles(relevant(all, state.target, LEAST_P_OF_CONFLICT))) matter.add(name);
  }
  const shown = all.filter((each) => {
    const isSelected = state.selected && key(state.selected) === key(each);
    if (state.labelling && !state.allArrows) return each.p === null || each.p >= ACCEPTED || isSelected;
    return graph ? inGraph.has(key(each)) : isSelected || (state.allArrows ? each.p !== 0 : matter.has(key(each)));
  });
  const cycles = graph ? new Set() : onCycles(shown);
  const onServer = new Set((state.reply?.relations ?? []).filter((each) => each.in_cycle).map(key));
  const labels = shown.length <= MOST_LABELS;
  return shown
    .map((each) => ({
      ...each,
      p: graph ? 1 : each.p,
      cycle: cycles.has(key(each)) && onServer.has(key(each)),
      edited: state.edits.has(key(each)),
      faint: !graph && !matter.has(key(each)),
      selected: Boolean(state.selected && key(state.selected) === key(each)),
      labelled: !graph && (labels || (state.selected && key(state.selected) === key(each))),
    }))
    .sort((a, b) => a.selected - b.selected || (a.p ?? 0.5) - (b.p ?? 0.5));
}
