// A decision to take away: files, calls that ask the same from a program, all modes side by side, what was asked before.

import * as api from "./api.js";
import { byId, download, el, show } from "./dom.js";
import { requestOf, riskOf } from "./store.js";
import { actionParts, likely, percent } from "./words.js";

const MOST_KEPT = 20;

/** Calls that ask for the same decision from a program; `files`: names of the picture files. */
export function snippets(state, origin, files) {
  const [risk, value] = Object.entries(riskOf(state))[0];
  const depth = files.depth ? ` -F depth=@${files.depth}` : "";
  const shown = typeof value === "string" ? `"${value}"` : value;
  return {
    Python: `from cpor.serve.client import Client

with Client("${origin}") as client:
    seen = client.look("${files.rgb}"${files.depth ? `, "${files.depth}"` : ""})
    answer = client.decide_scene(seen.id, target=${state.target}, ${risk}=${shown})
    print(answer.action, answer.scores, answer.promise)`,
    curl: `curl -s ${origin}/v1/decide/rgbd -F rgb=@${files.rgb}${depth} -F target=${state.target} -F ${risk}=${value}`,
  };
}

/** actions: files() -> names of the picture files, busyWith(words, work), report(problem), go(address). */
export function mountTake(root, store, actions) {
  const kept = []; // the newest first
  byId("open-take").addEventListener("click", open);
  store.view((state, before) => {
    byId("open-take").hidden = state.phase !== "decided";
    if (state.reply && state.reply !== before.reply && state.unanswered === null) keep(state);
  });

  function keep({ reply, target, mode, tau, title }) {
    const said = { title, target, risk: mode ?? percent(tau), action: reply.action, address: location.search };
    const same = kept[0] && kept[0].address === said.address && kept[0].risk === said.risk;
    if (same) kept[0] = said;
    else kept.unshift(said);
    kept.length = Math.min(kept.length, MOST_KEPT);
  }

  async function take(kind) {
    const { scene, reply } = store.state;
    if (kind === "json") {
      return download(new Blob([JSON.stringify(reply.raw, null, 2)], { type: "application/json" }), "decision.json");
    }
    const request = requestOf(store.state, 0);
    const blob = await actions.busyWith("Drawing it…", () => api.decisionFile(scene.id, kind, request));
    if (blob !== null) download(blob, `decision.${kind}`);
  }

  function open() {
    const { state } = store;
    const files = ["json", "png", "html"].map((kind) =>
      el("button", { type: "button", "data-testid": `take-${kind}`, onclick: () => take(kind) }, kind.toUpperCase()));
    const calls = Object.entries(snippets(state, location.origin, actions.files())).map(([name, text]) => [
      el("h3", {}, name, " ", el("button", { type: "button", "data-testid": `copy-${name}`, onclick: () => navigator.clipboard.writeText(text) }, "Copy")),
      el("pre", { "data-testid": `snippet-${name}`, tabindex: 0 }, text),
    ]);
    const table = el("tbody", { "data-testid": "compare" });
    show(
      root,
      el("h2", { id: "take-title" }, "Export this decision"),
      el("p", { class: "answers" }, "Download:", ...files),
      el("p", { class: "dim" }, "The address of this page leads back here while the service keeps the picture."),
      el("h2", {}, "Settings side by side"),
      el("table", { class: "compare" }, el("thead", {}, el("tr", {}, ["Mode", "Acts above", "Decision", "Probability right"].map((each) => el("th", {}, each)))), table),
      el("h2", {}, "Asked before"),
      el("ul", { class: "history", "data-testid": "history" }, kept.map(row)),
      el("h2", {}, "The same from a program"),
      ...calls.flat(),
      el("form", { method: "dialog" }, el("button", { class: "primary" }, "Close")),
    );
    byId("take").showModal();
    compare(table);
  }

  function row({ title, target, risk, action, address }) {
    const go = (event) => {
      event.preventDefault();
      byId("take").close();
      actions.go(address);
    };
    const done = action.type === "defer" ? "ask first" : `${action.type} object ${action.object}`;
    const words = `${title ?? "Picture"}; asked for object ${target}, ${risk}: ${done}`;
    return el("li", {}, el("a", { href: address || "/", onclick: go }, words));
  }

  async function compare(table) {
    const { state } = store;
    const { scene, target } = state;
    const { relations } = requestOf(state, 0);
    try {
      const own = state.mode === null ? [["your line", { tau: state.tau }]] : [];
      for (const [name, risk] of [...own, ...Object.keys(scene.modes).map((mode) => [mode, { mode }])]) {
        const reply = await api.decideScene(scene.id, { target, ...risk, relations, graphs: 0 });
        const score = reply.scores.find((each) => each.object === reply.action.object);
        table.append(el("tr", { "data-mode": name, "data-action": reply.action.type, "data-object": reply.action.object ?? "" },
          el("th", { scope: "row" }, name), el("td", {}, percent(reply.tau)), el("td", {}, ...actionParts(state, reply.action)),
          el("td", {}, score ? likely(score.score) : "–")));
      }
    } catch (problem) {
      actions.report(problem);
    }
  }
}
