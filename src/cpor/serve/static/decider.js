// Asks the service what to do, and when things are quiet why, what would change it, and what comes after.

import * as api from "./api.js";
import { Latest, debounced } from "./latest.js";
import { requestOf } from "./store.js";

const GRAPHS = 3;
const QUIET_MS = 180;
const LATE_MS = 1500; // what is on screen longer than this after it was asked anew must not look current
const LARGEST_PLAN = 18; // as cpor.infer has it; no plan either where an answer is missing

export class Decider {
  #store;
  #deciding;
  #explaining;
  #planning;
  #explainSoon;
  #lateSoon;
  #last = null; // what was asked last
  #graphsOf = null; // the edits that the graphs on screen belong to

  /** ask: a request about the scene, report: of a failure, lost: when the service does not answer. */
  constructor(store, ask, report, lost) {
    this.#store = store;
    this.#deciding = new Latest(
      ({ request }) => ask(request),
      (reply, asked) => this.#show(reply, asked),
      (problem) => {
        this.#lateSoon.cancel();
        store.set({ unanswered: "failed", asking: false });
        report(problem);
      },
    );
    this.#lateSoon = debounced(() => store.set({ unanswered: store.state.unanswered ?? "late" }), LATE_MS);
    const unexplained = (problem) => {
      store.set({ explained: false });
      problem.message = `What would change this decision was not worked out: ${problem.message}`;
      report(problem);
    };
    this.#explaining = new Latest(api.explain, (explained) => store.set({ explained }), unexplained, 1);
    // A plan is a bonus: where none can be made the line is left out.
    const noPlan = (problem) => {
      store.set({ plan: null });
      if (problem instanceof api.GoneError) lost();
    };
    this.#planning = new Latest(api.plan, (plan) => store.set({ plan }), noPlan, 1);
    this.#explainSoon = debounced((request) => this.#explain(request), QUIET_MS);
  }

  /** Ask for a decision on what the page shows now. */
  decide({ onlyTau = false } = {}) {
    const { scene, target, reply, edits } = this.#store.state;
    if (!scene || target === null) return;
    // Why and what next belong to the decision before: they would only keep the service busy.
    this.#explainSoon.cancel();
    for (const each of [this.#explaining, this.#planning]) each.forget();
    const graphs = onlyTau && reply && this.#graphsOf === edits ? 0 : GRAPHS;
    this.#last = { request: requestOf(this.#store.state, graphs), edits };
    this.#store.set({ asking: true });
    this.#lateSoon(); // counted from the newest question, so that a moving hand is never late
    this.#deciding.push(this.#last);
  }

  /** Drop whatever is under way; the fields to empty. */
  forget() {
    this.#explainSoon.cancel();
    this.#lateSoon.cancel();
    for (const each of [this.#deciding, this.#explaining, this.#planning]) each.forget();
    return { reply: null, explained: null, plan: null, shownGraph: null, unanswered: null, asking: false };
  }

  #show(reply, asked) {
    const { request, edits } = asked;
    if (asked === this.#last) {
      this.#lateSoon.cancel();
      this.#store.set({ unanswered: null, asking: false });
    }
    // The graphs do not depend on tau: while only that moves, those already there stay.
    const graphs = request.graphs > 0 ? reply.graphs : (this.#store.state.reply?.graphs ?? []);
    if (request.graphs > 0) this.#graphsOf = edits;
    if (reply.action === null) {
      // Such as an object outside of the workspace: it may be seen, but not asked for.
      this.#store.set({ reply: null, target: null, phase: "choose", unanswered: null, error: reply.question, passing: true });
      return;
    }
    this.#store.set({ reply: { ...reply, graphs }, phase: "decided" });
    // Where a check failed no relation matters; what is wrong with the input stands above the decision.
    if (reply.action.reason !== "failed_check") this.#explainSoon(reply);
  }

  /** Why, and what comes after: from the very probabilities and the line that decided. */
  #explain(reply) {
    const asked = api.probabilitiesOf(this.#store.state.scene, reply);
    this.#explaining.push({ ...asked, graphs: 0 });
    const answered = asked.relations.every((each) => each.p !== null);
    if (asked.objects.length <= LARGEST_PLAN && answered) this.#planning.push(asked);
  }
}
