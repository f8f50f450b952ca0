// A bar for every action, the proven interval around it, and the line above which the robot acts.

import { clamp, el, show } from "./dom.js";
import { mark } from "./glossary.js";
import { apart, chip, isExact, likely, percent, sayObject, scoreProof, scoreText, thingColour } from "./words.js";

const MODES = {
  robust: "Acts only where every relation may be off by a factor of 1.2 in odds",
  cautious: "As sure as was tested, where an error rate is promised",
  balanced: "Acts more often, and is wrong more often",
  bold: "Acts wherever that is likelier right than wrong",
};
const STEP = Number(document.body.dataset.step) || 0.01; // a recording has larger ones
const BIG_STEP = 0.1;

export class Bars {
  #store;
  #setTau;
  #modes;
  #rows;
  #track;
  #line;
  #axis;
  #handle;
  #promise;
  #promiseText;
  #promiseLine = el("div", { class: "promise-line", "aria-hidden": "true", hidden: true });
  #fork = el("span", { hidden: true }, "The fork around its end is proven to hold the exact value. ");
  #shown = null;

  /** actions: setTau(tau), setMode(mode). */
  constructor(root, store, { setTau, setMode }) {
    this.#store = store;
    this.#setTau = setTau;
    this.#modes = el("div", { class: "modes", role: "group", "aria-label": "How sure the robot must be" },
      Object.entries(MODES).map(([mode, means]) =>
        el("button", { type: "button", class: "toggle", title: means, "aria-pressed": "false", "data-mode": mode, "data-testid": `mode-${mode}`,
          onclick: () => setMode(mode) }, mode)));
    this.#handle = el(
      "div",
      {
        class: "tau-handle", role: "slider", tabindex: 0, "aria-label": "Act only when surer than", "data-testid": "tau",
        "aria-valuemin": 0, "aria-valuemax": 100, "aria-orientation": "horizontal",
        title: "Drag: how sure the robot must be before it acts (tau)",
        onkeydown: (event) => {
          if (this.step(event)) event.preventDefault();
        },
      },
      el("span", { class: "tau-text" }),
    );
    this.#promise = el("div", { class: "promise-tick", "aria-hidden": "true", hidden: true });
    this.#promiseText = el("div", { class: "promise-label small dim", "data-testid": "promised", hidden: true },
      el("span", {}, "▴ tested"));
    this.#axis = el("div", { class: "axis" }, this.#promise, this.#handle);
    this.#line = el("div", { class: "tau-line" });
    this.#track = el("div", { class: "track-area" },
      el("div", { class: "zone", "aria-hidden": "true" }), this.#promiseLine, this.#line);
    this.#rows = el("ul", { class: "rows" });
    root.append(
      el("div", { class: "mode-row" }, this.#modes, mark("cautious, balanced, bold")),
      el(
        "div",
        { class: "sides small dim", "aria-hidden": "true" },
        el("span", {}, "← asks first"),
        el("span", {}, "acts →"),
      ),
      this.#axis,
      el("div", { class: "plot" }, this.#rows, this.#track),
      this.#promiseText,
      el("p", { class: "small dim under" }, "Bar: how likely this is the right next move. ", this.#fork,
        "Drag the line, or use ← →: the robot acts only on a bar that crosses it."),
    );
    this.#listen(this.#axis);
    this.#listen(this.#line);
    store.view((state, before) => {
      if (state.tau !== before.tau || state.reply !== before.reply) this.#drawTau(state);
      if (state.mode !== before.mode || state.scene !== before.scene) this.#drawModes(state);
      if (state.scene !== before.scene) this.#drawPromise(state.scene);
    });
    store.steadyView(["reply"], (state) => this.#drawRows(state));
  }

  /** Move tau by a key; whether the key meant that. */
  step(event) {
    const tau = this.#store.state.tau;
    const step = event.shiftKey ? BIG_STEP : STEP;
    const to = {
      ArrowRight: tau + step, ArrowUp: tau + step, ArrowLeft: tau - step, ArrowDown: tau - step,
      PageUp: tau + BIG_STEP, PageDown: tau - BIG_STEP, Home: 0, End: 1,
    }[event.key];
    if (to === undefined) return false;
    this.#setTau(clamp(Math.round(to / STEP) * STEP, 0, 1));
    return true;
  }

  #listen(grip) {
    const follow = (event) => {
      const { left, width } = this.#track.getBoundingClientRect();
      this.#setTau(clamp(Math.round(((event.clientX - left) / width) * 1000) / 1000, 0, 1));
    };
    grip.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      event.stopPropagation();
      grip.setPointerCapture(event.pointerId);
      this.#handle.focus({ preventScroll: true });
      follow(event);
      grip.addEventListener("pointermove", follow);
    });
    const stop = () => grip.removeEventListener("pointermove", follow);
    grip.addEventListener("pointerup", stop);
    grip.addEventListener("pointercancel", stop);
  }

  #drawModes({ mode, scene }) {
    for (const button of this.#modes.children) {
      const tau = scene?.modes[button.dataset.mode];
      button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
      button.title = tau === undefined ? "" : `${MODES[button.dataset.mode]}: acts above ${percent(tau)}`;
    }
  }

  /** From where on the error rate of actions was tested. */
  #drawPromise(scene) {
    const above = promisedAbove(scene);
    for (const each of [this.#promise, this.#promiseText, this.#promiseLine]) {
      each.hidden = above === null;
      each.style.setProperty("--promised", String(above ?? 0));
    }
    this.#promiseText.dataset.above = String(above ?? "");
    this.#promiseText.title = above === null ? "" : promiseWords(scene);
  }

  #drawTau({ tau, reply }) {
    const best = reply?.scores[0]?.score ?? null;
    const shown = best === null ? percent(tau) : apart(tau, best)[0];
    for (const each of [this.#track, this.#axis]) each.style.setProperty("--tau", String(tau));
    this.#handle.setAttribute("aria-valuenow", String(Math.round(100 * tau)));
    this.#handle.setAttribute("aria-valuetext", `acts only when surer than ${shown}`);
    this.#handle.firstChild.textContent = shown;
    this.#handle.dataset.tau = String(tau);
  }

  #drawRows(state) {
    const reply = state.reply;
    const scores = reply?.scores ?? [];
    const fingerprint = JSON.stringify([state.scene?.id, state.target, scores]);
    if (fingerprint !== this.#shown) {
      this.#shown = fingerprint;
      this.#fork.hidden = !scores.some((each) => !isExact(each));
      this.#rows.parentElement.parentElement.classList.toggle("ranged", !this.#fork.hidden);
      show(this.#rows, scores.map((each) => this.#row(state, each)));
    }
    for (const [i, row] of [...this.#rows.children].entries()) {
      row.querySelector(".row-value").textContent = isExact(scores[i])
        ? apart(scores[i].score, state.tau, likely)[0]
        : scoreText(scores[i]);
      markChosen(row, reply?.action ?? null);
    }
  }

  #row(state, each) {
    const isTarget = String(each.object) === String(state.target);
    const words = isTarget
      ? `Grasp ${sayObject(state.scene, each.object)} now: nothing is in its way`
      : `Remove ${sayObject(state.scene, each.object)} next: it is in the way, and free itself`;
    return barRow(each, [isTarget ? "Grasp " : "Remove ", chip(state, each.object)], `${words}: ${scoreProof(each)}`);
  }
}

/** A bar with the interval that is proven around its end; `label`: what action it is about. */
export function barRow(each, label, title) {
  const row = el(
    "li",
    { class: "row", "data-id": each.object, "data-testid": `bar-${each.object}`, "data-score": each.score,
      "data-low": each.low, "data-high": each.high, title },
    el("span", { class: "row-label" }, el("span", { class: "tick", "aria-hidden": "true" }), label),
    el("span", { class: "row-track", "aria-hidden": "true" },
      el("span", { class: "fill" }), isExact(each) ? null : el("span", { class: "whisker" })),
    el("span", { class: "row-value" }, scoreText(each)),
    el("span", { class: "visually-hidden" }, `, ${scoreProof(each)}`),
  );
  row.style.setProperty("--thing", thingColour(each.object));
  for (const name of ["score", "low", "high"]) row.style.setProperty(`--${name}`, String(each[name]));
  return row;
}

/** Mark the bar of what is done; `action` null: nothing is. */
export function markChosen(row, action) {
  const isChosen = action !== null && action.type !== "defer" && String(action.object) === row.dataset.id;
  row.classList.toggle("chosen", isChosen);
  row.dataset.action = isChosen ? action.type : "";
  row.querySelector(".tick").textContent = isChosen ? "✓" : "";
}

/** The line that the promise was tested with; null where nothing is promised of such a picture. */
export const promisedAbove = (scene) => (scene?.promise ? scene.modes.cautious : null);

/** What is promised, in words. */
export const promiseWords = (scene) =>
  `In the mode cautious at most ${percent(scene.promise.alpha)} of the actions taken are wrong (confidence ${percent(scene.promise.confidence)})`;
