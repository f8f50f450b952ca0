// Every relation as a list; one of them in detail: change it by hand, and see what each stage said of it.

import { byId, clamp, el, show } from "./dom.js";
import { evidenceList, markOverruled } from "./evidence.js";
import { key, relationsOf, relevant } from "./store.js";
import { chip, percent } from "./words.js";

export class Relations {
  #root;
  #store;
  #actions;
  #detail = null; // the inputs of the open relation, kept while they are used

  /** actions: select(pair or null), edit(pair, p), reset(pair). */
  constructor(root, store, actions) {
    this.#root = root;
    this.#store = store;
    this.#actions = actions;
    store.steadyView(["edits", "selected", "unanswered"], (state) => this.#draw(state));
  }

  /** Open the next or previous relation of the list. */
  walk(step) {
    const state = this.#store.state;
    const list = ordered(state);
    if (list.length === 0) return;
    const here = state.selected ? list.findIndex((each) => key(each) === key(state.selected)) : -1;
    this.#actions.select(list[(here + step + list.length + (here < 0 && step < 0 ? 1 : 0)) % list.length]);
  }

  #draw(state) {
    byId("workplace").dataset.detail = state.selected ? "open" : "closed";
    byId("relations-title").textContent = state.selected ? "One relation, and where it comes from" : "What is in the way of what?";
    if (!state.scene || state.target === null) {
      this.#detail = null;
      show(this.#root, el("p", { class: "small dim" }, "Shown once you have chosen an object."));
    } else if (!state.selected) {
      this.#detail = null;
      this.#drawList(state);
    } else if (this.#detail?.name === key(state.selected) && this.#detail.scene === state.scene) {
      this.#refresh(state);
    } else {
      this.#open(state);
    }
  }

  #drawList(state) {
    const list = ordered(state);
    const matter = new Set(relevant(list, state.target, 0.02).map(key));
    const row = (each) => {
      const edited = state.edits.has(key(each));
      const shown = el(
        "button",
        {
          type: "button", class: `relation plain${matter.has(key(each)) ? "" : " aside"}`, "data-testid": "relation", "data-pair": key(each),
          title: matter.has(key(each)) ? "See where it comes from, or change it" : "Does not matter to the object you want",
          onclick: () => this.#actions.select(each),
        },
        el(
          "span",
          { class: "pair" },
          chip(state, each.blocker),
          el("span", { "aria-label": "in the way of" }, " → "),
          chip(state, each.blocked),
        ),
        el("span", { class: "mini-bar", "aria-hidden": "true" }, el("span", { class: "fill" })),
        el(
          "span",
          { class: "row-value" },
          percent(each.p),
          edited ? el("b", { class: "edited", title: "changed by hand" }, " ✎") : null,
        ),
      );
      shown.style.setProperty("--score", String(each.p ?? 0));
      shown.classList.toggle("unknown", each.p === null);
      return el("li", {}, shown);
    };
    show(this.#root, list.length > 0
      ? el("ul", { class: "relation-list" }, list.map(row))
      : el("p", { class: "small dim" }, "Nothing touches anything else."), this.#adder(state));
  }

  /** A relation that was not found can be added. */
  #adder(state) {
    const choice = (label, testid) => el("select", { "aria-label": label, "data-testid": testid },
      state.scene.objects.map((each) => el("option", { value: each.id }, `${each.id} ${each.name ?? ""}`)));
    const [blocker, blocked] = [choice("In the way", "add-blocker"), choice("Of", "add-blocked")];
    const add = () => {
      const pair = { blocker: Number(blocker.value), blocked: Number(blocked.value) };
      if (pair.blocker === pair.blocked) return;
      if (!relationsOf(this.#store.state).some((each) => key(each) === key(pair))) this.#actions.edit(
        pair,
        0.5,
      );
      this.#actions.select(pair);
    };
    return el("details", { class: "adder" }, el("summary", {}, "Add one that was missed"),
      el("div", { class: "adder-row" }, blocker, " is in the way of ", blocked, el("button", { type: "button", onclick: add, "data-testid": "add" }, "Add")));
  }

  #open(state) {
    const pair = { blocked: state.selected.blocked, blocker: state.selected.blocker };
    const found = state.scene.relations.find((each) => key(each) === key(pair));
    const set = (value) => {
      const number = Number(value);
      if (value !== "" && Number.isFinite(number)) this.#actions.edit(pair, clamp(number / 100, 0, 1));
    };
    const range = el(
      "input",
      {
        type: "range",
        min: 0,
        max: 100,
        step: 1,
        "aria-label": "How likely it is in the way, in percent",
        "data-testid": "edit-range",
        oninput: (event) => set(event.target.value),
      },
    );
    const number = el(
      "input",
      {
        type: "number",
        min: 0,
        max: 100,
        step: 1,
        "aria-label": "The same as a number, in percent",
        "data-testid": "edit-number",
        oninput: (event) => set(event.target.value),
        onchange: (event) => {
          const typed = Number(event.target.value); // what is out of range is taken as its nearest end: show that
          if (event.target.value !== "") event.target.value = String(clamp(typed, 0, 100));
        },
      },
    );
    const none = el(
      "button",
      {
        type: "button",
        "data-testid": "edit-none",
        "aria-pressed": "false",
        title: "As if there were no answer",
        onclick: () => this.#actions.edit(pair, null),
      },
      "No answer",
    );
    const undo = el(
      "button",
      {
        type: "button",
        "data-testid": "edit-reset",
        title: found ? `Back to ${percent(found.p)}` : "Take it away again",
        onclick: () => this.#actions.reset(pair),
      },
      "Undo",
    );
    const note = el("p", { class: "edited small", "data-testid": "edited-mark" });
    this.#detail = { name: key(pair), scene: state.scene, range, number, none, undo, note, found };
    const evidence = state.scene.evidence.find((each) => key(each) === key(pair));
    show(
      this.#root,
      el("div", { class: "detail-head" },
        el(
          "button",
          {
            type: "button",
            class: "plain",
            "data-testid": "detail-close",
            "aria-label": "Back to all relations",
            title: "Back to all relations (Esc)",
            onclick: () => this.#actions.select(null),
          },
          "←",
        ),
        el("h3", {}, "Is ", chip(state, pair.blocker), " in the way of ", chip(state, pair.blocked), "?")),
      el("div", { class: "editor" }, range, el("span", { class: "number-box" }, number, " %"), none, undo),
      note,
      evidenceList(pair, evidence),
    );
    this.#refresh(state);
  }

  #refresh(state) {
    const { range, number, none, undo, note, found, name } = this.#detail;
    const now = relationsOf(state).find((each) => key(each) === name);
    const p = now ? now.p : null;
    const edited = state.edits.has(name);
    range.value = String(Math.round(100 * (p ?? 0.5)));
    range.classList.toggle("unknown", p === null);
    range.setAttribute("aria-valuetext", p === null ? "no answer" : percent(p));
    markOverruled(this.#root, edited);
    if (document.activeElement !== number) number.value = p === null ? "" : String(Math.round(1000 * p) / 10);
    none.setAttribute("aria-pressed", String(p === null));
    undo.disabled = !edited;
    note.textContent = edited ? `✎ Changed by hand: ${answered(p)} instead of ${found ? answered(found.p) : "not found"}` : "";
  }
}

const answered = (p) => (p === null ? "no answer" : percent(p));

/** Relations in the order of the list: those that matter first, the likeliest first. */
function ordered(state) {
  const all = relationsOf(state);
  const matter = new Set(relevant(all, state.target, 0.02).map(key));
  const rank = (each) => (matter.has(key(each)) ? 2 : 0) + (each.p ?? 1);
  return all.sort((a, b) => rank(b) - rank(a));
}
