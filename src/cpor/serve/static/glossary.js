// What the words of the page mean, behind a small mark beside each.

import { byId, el, show } from "./dom.js";

const WORDS = {
  "in the way": "An object is in the way of another if it lies on it, hides it, or would be hit when that one is lifted out.",
  "right": "Grasping is right if nothing is in the way. Removing is right if the object is in the way, directly or through others, and is free itself.",
  "the line": "Also called tau. It acts only where the probability of being right is above the line; otherwise it asks.",
  "cautious, balanced, bold": "How sure it must be. Only cautious was tested for a promise.",
  "promise": "At most a stated share of the actions taken is wrong, with the confidence given, on scenes like those it was tested on. No promise means that nobody tested it, not that it is wrong.",
  "ways the objects may lie": "All relations together make a graph. Those with an order of removal are weighed by how likely their relations are.",
  "counted exactly": "Every possible arrangement was summed. The relations themselves are still guesses of networks.",
  "no answer": "Nobody could say. It never counts as “not in the way”.",
  "contradiction": "Relations that form a circle: each lies on the next. At least one of them is wrong.",
  "workspace": "The part of the picture in which objects may be asked for.",
  "hidden part": "What is covered of an object, as guessed by the network (dashed).",
};

/** Put a mark beside every heading that has a `data-term`, and fill the dialog. */
export function mountGlossary() {
  const list = Object.entries(WORDS).flatMap(([term, text]) => [el("dt", { id: idOf(term) }, term), el("dd", {}, text)]);
  show(byId("glossary-list"), list);
  for (const heading of document.querySelectorAll("[data-term]")) {
    heading.append(" ", mark(heading.dataset.term));
  }
  byId("open-glossary").addEventListener("click", () => open(null));
}

/** A small button that explains a word; to stand behind it. */
export const mark = (term) =>
  el("button", { type: "button", class: "plain term", "aria-label": `What does “${term}” mean?`, "data-testid": `term-${idOf(term)}`, onclick: () => open(term) }, "?");

const idOf = (term) => `term-${term.replace(/[^a-z]+/g, "-")}`;

function open(term) {
  for (const each of document.querySelectorAll("#glossary-list .is-meant")) each.classList.remove("is-meant");
  byId("glossary").showModal();
  const meant = term && byId(idOf(term));
  meant?.classList.add("is-meant");
  meant?.scrollIntoView({ block: "nearest" });
}
