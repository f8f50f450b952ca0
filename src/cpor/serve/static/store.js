// What the page knows. One object; views are called with it after every change and draw what changed.

export const key = (pair) => `${pair.blocker}>${pair.blocked}`;

export const START = Object.freeze({
  phase: "empty", // empty, choose, ambiguous, deciding (the first time for a target), decided
  busy: null, // what is being done, in words; null when nothing is
  stage: null, // how far an upload is: {at, share}
  health: null,
  gone: false,
  error: null, // stays until it is closed
  passing: false, // whether the error is about the last click or words, and goes with the next
  note: null, // what became of dropped files
  examples: null,
  scene: null,
  picture: null, // URL of the colour picture
  title: null,
  target: null,
  mode: "cautious", // the risk setting; null where the line was dragged
  tau: 0.9, // the line: the threshold of the mode, or where it was dragged to
  edits: new Map(), // "blocker>blocked" -> p or null (no answer)
  selected: null, // {blocked, blocker}
  reply: null, // the answer, as api.js shapes it
  asking: false, // whether an answer to what is asked now is on its way
  unanswered: null, // why the reply is not of what is asked now: "late", "failed"; null where it is
  explained: null, // ExplainReply; false where there was none
  plan: null, // PlanReply
  question: null, // what to ask back, in words
  candidates: [], // ids that may be meant
  shownGraph: null, // index of the graph on the picture; null shows all relations
  allArrows: false,
  tool: null, // the tool in hand; null: a click wants an object
  labelling: false, // photographs of a queue are shown: every relation that will be accepted has its arrow
  picked: [], // what was clicked with it so far: {id, point}
});

/** The error that a next click leaves: what the service could not do stays until it is read. */
export const unread = (state) => (state.passing ? null : state.error);

export class Store {
  #state = START;
  #views = [];

  get state() {
    return this.#state;
  }

  view(draw) {
    this.#views.push(draw);
    draw(this.#state, {});
  }

  /** A view that stays as it is while a decision for another target is on its way: nothing flickers. */
  steadyView(fields, draw) {
    this.view((state, before) => {
      if (state.phase === "deciding" && !(fields.includes("unanswered") && state.unanswered)) return;
      if (["phase", "scene", ...fields].some((field) => state[field] !== before[field])) draw(state, before);
    });
  }

  /** Change some fields; views get the state and the state before. */
  set(change) {
    const before = this.#state;
    this.#state = { ...before, ...change };
    for (const draw of this.#views) draw(this.#state, before);
  }
}

/** The relations to decide from: those of the scene, with what was changed by hand. */
export function relationsOf(state) {
  if (!state.scene) return [];
  const given = state.scene.relations.map((each) => ({
    ...each,
    p: state.edits.has(key(each)) ? state.edits.get(key(each)) : each.p,
  }));
  const known = new Set(state.scene.relations.map(key));
  for (const [name, p] of state.edits) {
    if (known.has(name)) continue;
    const [blocker, blocked] = name.split(">").map(Number);
    given.push({ blocked, blocker, p });
  }
  return given;
}

/** How sure it must be: the mode, or the line where that was dragged. */
export const riskOf = (state) => (state.mode === null ? { tau: state.tau } : { mode: state.mode });

/** What the service is asked of the scene it keeps: for whom, how sure, and what was changed by hand. */
export function requestOf(state, graphs) {
  const relations = [...state.edits].map(([name, p]) => {
    const [blocker, blocked] = name.split(">").map(Number);
    return { blocked, blocker, p };
  });
  return { target: state.target, ...riskOf(state), relations, graphs };
}

/** The relations nobody could say anything of, those that matter to the target first. */
export function missingOf(reply, target) {
  const missing = reply.relations.filter((each) => each.p === null);
  const matter = new Set(relevant(reply.relations, target, 0.02).map(key));
  const rank = (each) => (each.blocked === target ? 2 : 0) + (matter.has(key(each)) ? 1 : 0);
  return missing.sort((a, b) => rank(b) - rank(a));
}

/** The relations that matter to the target: those of objects reached from it, above a least probability. */
export function relevant(relations, target, least) {
  const strong = relations.filter((each) => each.p === null || each.p >= least);
  const reached = new Set([target]);
  for (let grew = true; grew; ) {
    grew = false;
    for (const each of strong) {
      if (reached.has(each.blocked) && !reached.has(each.blocker)) {
        reached.add(each.blocker);
        grew = true;
      }
    }
  }
  return strong.filter((each) => reached.has(each.blocked));
}

/** Keys of those relations that lie on a cycle among the ones given. */
export function onCycles(relations) {
  const next = new Map();
  for (const each of relations) next.set(each.blocker, [...(next.get(each.blocker) ?? []), each.blocked]);
  const leadsTo = (from, to) => {
    const seen = new Set([from]);
    const open = [from];
    while (open.length > 0) {
      const here = open.pop();
      if (here === to) return true;
      for (const each of next.get(here) ?? []) {
        if (!seen.has(each)) {
          seen.add(each);
          open.push(each);
        }
      }
    }
    return false;
  };
  return new Set(relations.filter((each) => leadsTo(each.blocked, each.blocker)).map(key));
}

/** Those that fit at all; all of them where the words say nothing of any. */
export function fitting(candidates) {
  const some = candidates.filter((each) => each.fit > 0);
  return (some.length > 0 ? some : candidates).map((each) => each.id);
}

/** What the address says of the page: the example or the scene that the service keeps, the object, the mode. */
export function addressOf({ target, scene, mode }, opened) {
  if (!scene) return location.pathname;
  const isExample = opened !== null && !scene.done;
  const wanted = new URLSearchParams(isExample ? { example: opened.name } : { scene: scene.id });
  if (target !== null) wanted.set("target", String(target));
  if (mode !== null && mode !== scene.mode) wanted.set("mode", mode);
  return `${location.pathname}?${wanted}`;
}
