// The likeliest graphs as a strip of small drawings; pointing at one shows it on the picture.

import { arrowShape } from "./arrows.js";
import { el, show, svg } from "./dom.js";
import { key } from "./store.js";
import { spread } from "./places.js";
import { objectOf, percent, shareOf, thingColour } from "./words.js";

const WIDTH = 128;
const HEIGHT = 58;
const UNLIKELY = 0.01;

export function mountGraphs(root, store) {
  let pinned = null;
  let isOwn = false; // whether a change comes from here
  const point = (index) => {
    isOwn = true;
    store.set({ shownGraph: index });
    isOwn = false;
  };
  store.view((state, before) => {
    if (state.scene !== before.scene || state.target !== before.target) pinned = null;
    if (!isOwn && state.shownGraph === null) pinned = null; // Esc, one arrow, or all of them
    for (const [i, tile] of [...root.querySelectorAll(".graph")].entries()) {
      tile.setAttribute("aria-pressed", String(i === state.shownGraph));
    }
  });

  store.steadyView(["reply"], (state, before) => {
    if (state.reply === null || state.reply.graphs !== before.reply?.graphs) build(state);
  });

  function build(state) {
    const graphs = state.reply?.graphs ?? [];
    if (graphs.length === 0) {
      const missing = state.reply?.relations.some((each) => each.p === null);
      const why = missing ? "Some relations have no answer, so no full picture can be drawn." : "There are too many ways to list them.";
      show(root, el("p", { class: "small dim" }, state.reply ? why : "Choose an object first."));
      return;
    }
    const first = new Set(graphs[0].relations.map(key));
    const known = graphs.every((graph) => graph.share !== null);
    const rest = known ? Math.max(0, 1 - graphs.reduce((sum, graph) => sum + graph.share, 0)) : null;
    show(
      root,
      graphs.map((graph, i) => tile(state, graph, i, first)),
      rest !== null && rest > 0.005
        ? el(
          "div",
          { class: "rest small dim", "data-testid": "graphs-rest" },
          el("b", {}, percent(rest)),
          "all others",
        )
        : null,
      known && graphs[0].share < UNLIKELY
        ? el(
          "p",
          { class: "small dim" },
          "Too many ways for any single one to be likely; the bars add up all of them.",
        )
        : null,
    );
  }

  function tile(state, graph, i, first) {
    const pin = () => {
      pinned = pinned === i ? null : i;
      point(pinned);
    };
    const words = differences(state, graph, first, i);
    return el(
      "button",
      {
        type: "button", class: "graph", "data-testid": "graph", "data-share": graph.share ?? "unknown", "aria-pressed": "false",
        title: `${i === 0 ? "The likeliest way the objects lie" : words}; ${graph.relations.length} relations. Click to see it on the picture`,
        onclick: pin,
        onpointerenter: (event) => event.pointerType === "mouse" && point(i),
        onpointerleave: () => point(pinned),
      },
      drawing(state, graph, first, i),
      el(
        "span",
        { class: "share" },
        el("b", {}, shareOf(graph.share)),
        el("span", { class: "small dim" }, words),
      ),
    );
  }
}

/** How a graph differs from the likeliest one, in a few words. */
function differences(state, graph, first, index) {
  if (index === 0) return "likeliest";
  const here = new Set(graph.relations.map(key));
  const more = [...here].filter((name) => !first.has(name));
  const less = [...first].filter((name) => !here.has(name));
  const called = (id) => `${id} ${objectOf(state.scene, id)?.name ?? ""}`.trim();
  const say = (sign, names) => names.map((name) => `${sign} ${name.split(">").map(called).join(" on ")}`);
  const all = [...say("+", more), ...say("−", less)];
  return all.length > 2 ? `${all[0]} and ${all.length - 1} more` : all.join(", ");
}

function drawing(state, graph, first, index) {
  const seen = state.scene.objects.filter((each) => each.point);
  const size = { width: WIDTH, height: HEIGHT };
  const xs = seen.map((each) => each.point[0]);
  const ys = seen.map((each) => each.point[1]);
  const span = (values) => Math.max(Math.max(...values) - Math.min(...values), 1);
  const place = ([x, y]) => ({
    x: 9 + ((WIDTH - 18) * (x - Math.min(...xs))) / span(xs),
    y: 9 + ((HEIGHT - 18) * (y - Math.min(...ys))) / span(ys),
  });
  const places = spread(seen, place, 13, size, 8);
  const here = new Set(graph.relations.map(key));
  const arrow = (pair, kind) => {
    const [from, to] = [places.get(pair.blocker), places.get(pair.blocked)];
    const shape = from && to ? arrowShape(from, to, 1, 4.5) : null;
    return shape && svg(
      "g",
      { class: `mini-arrow ${kind}` },
      svg("path", { d: shape.line }),
      svg("polygon", { points: shape.head }),
    );
  };
  const gone = [...first].filter((name) => !here.has(name)).map((name) => {
    const [blocker, blocked] = name.split(">").map(Number);
    return arrow({ blocker, blocked }, "gone");
  });
  const used = new Set(graph.relations.flatMap((pair) => [pair.blocked, pair.blocker]));
  const node = (each) => {
    const at = places.get(each.id);
    const kind = each.id === state.target ? "mini-node is-target" : used.has(each.id) ? "mini-node" : "mini-node unused";
    return svg(
      "g",
      { class: kind },
      svg("circle", { cx: at.x, cy: at.y, r: each.id === state.target ? 7 : 6, fill: thingColour(each.id) }),
      svg("text", { x: at.x, y: at.y + 3 }, String(each.id)),
    );
  };
  return svg(
    "svg",
    { class: "mini", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, "aria-hidden": "true" },
    gone,
    graph.relations.map((pair) => arrow(pair, index > 0 && !first.has(key(pair)) ? "added" : "")),
    seen.map(node),
  );
}
