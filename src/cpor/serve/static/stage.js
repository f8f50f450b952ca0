// The picture with what was found on it: outlines, badges, arrows, and the object that is acted on.

import { arrowsToShow, drawArrow, makeRoom } from "./arrows.js";
import { clamp, el, onPress, svg, titled } from "./dom.js";
import { mark } from "./glossary.js";
import { spread } from "./places.js";
import { sayObject, thingColour } from "./words.js";

const RADIUS = 12;
const MOST_POINTS = 500; // of one stroke, as the service takes them

export class Stage {
  #store;
  #choose;
  #root;
  #below = svg("g");
  #badges = svg("g");
  #badgesOf = null;
  #layers = {};
  #zoomed = true;
  #shift = { scale: 1, dx: 0, dy: 0 };
  #marks = svg("g", { class: "marks" });
  #places = new Map();

  /** choose(id), select(pair); tools: of edit.js, who gets clicks and strokes while a tool is in hand. */
  constructor(root, store, choose, select, tools) {
    this.#store = store;
    this.#choose = (id) => (store.state.tool === null ? choose(id) : tools.pick(id));
    this.select = select;
    this.#root = svg(
      "svg",
      { class: "stage", role: "group", "aria-label": "Objects found in the picture" },
      this.#below,
      this.#badges,
      this.#marks,
    );
    root.append(this.#root);
    this.#listen(tools);
    new ResizeObserver(() => this.#build()).observe(root);
    store.view((state, before) => this.#draw(state, before));
  }

  get root() {
    return this.#root.parentElement;
  }

  get zoomed() {
    return this.#zoomed;
  }

  zoom(on) {
    this.#zoomed = on;
    this.#build();
  }

  #draw(state, before) {
    if (state.scene !== before.scene || state.picture !== before.picture) return this.#build();
    if (state.tool !== before.tool || state.picked !== before.picked) this.#markPicked(state);
    const fields = ["target", "candidates", "edits", "selected", "shownGraph", "allArrows", "phase", "unanswered"];
    // While tau moves most replies say the same: painting the picture again for each would cost most of the time.
    if (fields.some(
      (field) => state[field] !== before[field],
    ) || said(state.reply) !== said(before.reply)) this.#mark(state);
  }

  /** The part of the picture to show, of the shape of the screen's: all objects with a margin. */
  #window(scene, width, height) {
    const whole = { x: 0, y: 0, w: scene.width, h: scene.height };
    const boxes = scene.objects.map((each) => each.box).filter(Boolean);
    if (!this.#zoomed || boxes.length === 0) return whole;
    const margin = 0.025 * Math.max(scene.width, scene.height);
    const left = Math.min(...boxes.map((box) => box[0])) - margin;
    const top = Math.min(...boxes.map((box) => box[1])) - margin;
    let w = Math.max(...boxes.map((box) => box[2])) + margin - left;
    let h = Math.max(...boxes.map((box) => box[3])) + margin - top;
    const [cx, cy] = [left + w / 2, top + h / 2];
    w = Math.min(Math.max(w, (h * width) / height), scene.width);
    h = Math.min(Math.max(h, (w * height) / width), scene.height);
    return { x: clamp(cx - w / 2, 0, scene.width - w), y: clamp(cy - h / 2, 0, scene.height - h), w, h };
  }

  #build() {
    const state = this.#store.state;
    const { width, height } = this.#root.getBoundingClientRect();
    if (!state.scene || width < 10 || height < 10) return;
    const scene = state.scene;
    const window = this.#window(scene, width, height);
    const scale = Math.min(width / window.w, height / window.h);
    const dx = (width - scale * window.w) / 2 - scale * window.x;
    const dy = (height - scale * window.h) / 2 - scale * window.y;
    this.#shift = { scale, dx, dy };
    const placed = ([x, y]) => ({ x: scale * x + dx, y: scale * y + dy });
    const pathOf = (outlines) =>
      outlines.map(
        (line) => `M${line.map((at) => Object.values(placed(at)).map((v) => v.toFixed(1)).join(" ")).join("L")}Z`,
      ).join("");
    this.#places = spread(scene.objects, placed, 2 * RADIUS + 5, { width, height }, RADIUS + 2);
    this.#root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const picture = svg("image", {
      href: state.picture, x: dx, y: dy, width: scale * scene.width, height: scale * scene.height, preserveAspectRatio: "none",
    });
    const objects = scene.objects.map((each) => this.#object(each, pathOf));
    if (this.#badgesOf !== scene) {
      // Kept while the picture changes its size, so that the keyboard's focus stays where it is.
      this.#badgesOf = scene;
      this.#badges.replaceChildren(
        ...scene.objects.filter((each) => this.#places.has(each.id)).map((each) => this.#badge(each)),
      );
    }
    for (const node of this.#badges.children) {
      const at = this.#places.get(Number(node.dataset.id));
      node.setAttribute("transform", `translate(${at.x} ${at.y})`);
    }
    this.#layers = { objects: svg("g", {}, objects), arrows: svg("g", { class: "arrows" }) };
    this.#below.replaceChildren(picture, this.#layers.objects, this.#layers.arrows);
    this.#mark(state);
  }

  #object(each, pathOf) {
    const visible = pathOf(each.visible);
    const group = svg(
      "g",
      {
        class: "object", "data-id": each.id, "data-testid": "object",
        onclick: () => this.#store.state.tool === null && this.#choose(each.id),
      },
      ...(each.amodal.length > 0 ? hatching(each.id, `${pathOf(each.amodal)}${visible}`) : []),
      each.amodal.length > 0 ? svg("path", { class: "hidden-halo", d: pathOf(each.amodal) }) : null,
      each.amodal.length > 0 ? svg("path", { class: "hidden-part", d: pathOf(each.amodal) }) : null,
      svg("path", { class: "visible-halo", d: visible }),
      svg("path", { class: "visible", d: visible }),
    );
    group.style.setProperty("--thing", thingColour(each.id));
    const hidden = each.hidden_share ? `, ${Math.round(100 * each.hidden_share)} % of it hidden` : "";
    return titled(group, `${sayObject(this.#store.state.scene, each.id)}${hidden}: click to want this one`);
  }

  #badge(each) {
    const choose = () => this.#choose(each.id);
    const badge = svg(
      "g",
      {
        class: "badge-on-picture", tabindex: 0, role: "button", "data-id": each.id, "data-testid": `badge-${each.id}`,
        "aria-label": `Want ${sayObject(this.#store.state.scene, each.id)}`,
        // With a tool in hand the pointer is followed below, to the pixel; a key means the whole object.
        onclick: () => this.#store.state.tool === null && choose(),
        onkeydown: onPress(choose),
      },
      svg("circle", { class: "touch", r: 20 }),
      svg("circle", { class: "disc", r: RADIUS }),
      svg("text", { y: 4.5 }, String(each.id)),
      svg("g", { class: "sign" }),
    );
    badge.style.setProperty("--thing", thingColour(each.id));
    return badge;
  }

  /** With a tool in hand, what the pointer does is the tool's: a click, or a stroke from where it went down. */
  #listen(tools) {
    let stroke = null;
    const pointOf = (event) => {
      const { left, top } = this.#root.getBoundingClientRect();
      const { scale, dx, dy } = this.#shift;
      const { width, height } = this.#store.state.scene;
      const x = clamp((event.clientX - left - dx) / scale, 0, width - 1);
      return [x, clamp((event.clientY - top - dy) / scale, 0, height - 1)];
    };
    this.#root.addEventListener("pointerdown", (event) => {
      if (this.#store.state.tool === null || event.button !== 0) return;
      event.preventDefault();
      const id = Number(event.target.closest("[data-id]")?.dataset.id) || null;
      stroke = { id, points: [pointOf(event)] };
      this.#root.setPointerCapture(event.pointerId);
    });
    this.#root.addEventListener("pointermove", (event) => {
      if (stroke === null || stroke.points.length >= MOST_POINTS) return;
      stroke.points.push(pointOf(event));
      if (this.#store.state.tool.startsWith("brush")) this.#markPicked(this.#store.state, stroke.points);
    });
    this.#root.addEventListener("pointerup", () => {
      if (stroke !== null) tools.stroke(stroke);
      stroke = null;
    });
    this.#root.addEventListener("pointercancel", () => {
      stroke = null;
    });
  }

  /** The points picked so far, and the stroke under way. */
  #markPicked(state, points = null) {
    this.#root.classList.toggle("in-hand", state.tool !== null);
    const { scale, dx, dy } = this.#shift;
    const at = ([x, y]) => [scale * x + dx, scale * y + dy];
    const dots = state.picked.map((each) => at(each.point));
    const line = points ?? (dots.length > 1 ? state.picked.map((each) => each.point) : []);
    this.#marks.replaceChildren(
      ...dots.map(([cx, cy]) => svg("circle", { class: "dot", cx, cy, r: 5 })),
      ...(line.length > 1 ? [svg("polyline", { class: "stroke", points: line.map((each) => at(each).join(",")).join(" ") })] : []),
    );
  }

  /** Everything that follows the target, the decision and the hand. */
  #mark(state) {
    if (!this.#layers.arrows) return;
    const action = state.unanswered ? null : (state.reply?.action ?? null);
    const acted = action && action.type !== "defer" ? action.object : null;
    const candidates = new Set(state.candidates);
    for (const node of this.#root.querySelectorAll("[data-id]")) {
      const id = Number(node.dataset.id);
      node.classList.toggle("is-target", id === state.target);
      node.classList.toggle("is-acted", id === acted);
      node.classList.toggle("is-candidate", candidates.has(id));
      node.classList.toggle("is-other", candidates.size > 0 && !candidates.has(id));
      if (node.getAttribute("role") === "button") {
        node.setAttribute("aria-pressed", String(id === state.target));
        node.querySelector(".sign").replaceChildren(...sign(id, state, acted, action));
      }
    }
    const arrows = (state.target === null && !state.labelling) || state.candidates.length > 0 ? [] : arrowsToShow(state);
    for (const node of this.#badges.children) node.querySelector(".sign").classList.toggle(
      "below",
      this.#leansUp(arrows, Number(node.dataset.id)),
    );
    const raised = [state.target, acted].map((id) => this.#layers.objects.querySelector(`[data-id="${id}"]`));
    this.#layers.objects.append(...raised.filter(Boolean));
    this.#layers.arrows.replaceChildren(...this.#arrows(arrows));
  }

  /** Whether an object's arrows run upwards from its badge: then its sign stands below, out of their way. */
  #leansUp(arrows, id) {
    const here = this.#places.get(id);
    const touching = arrows.filter((each) => each.blocker === id || each.blocked === id);
    const ends = touching.map(
      (each) => this.#places.get(each.blocker === id ? each.blocked : each.blocker),
    ).filter(Boolean);
    const steep = ends.filter((end) => Math.abs(end.y - here.y) > Math.abs(end.x - here.x));
    return steep.reduce((sum, end) => sum + Math.sign(end.y - here.y), 0) < 0;
  }

  #arrows(arrows) {
    const draw = (each) =>
      drawArrow(
        each,
        this.#places.get(each.blocker),
        this.#places.get(each.blocked),
        RADIUS + 3,
        this.select,
      );
    const seen = arrows.filter((each) => this.#places.has(each.blocked) && this.#places.has(each.blocker));
    return makeRoom(seen, this.#places, RADIUS + 3).map(draw).filter(Boolean);
  }
}

/** Slanted lines in an object's colour, over what is inside of only one of its two outlines: the hidden part. */
function hatching(id, d) {
  const line = svg("path", { class: "hatch-line", d: "M0 0V8" });
  const size = { width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${id % 2 ? 45 : -45})` };
  const area = svg("path", { class: "hatched", d, "fill-rule": "evenodd" });
  area.style.fill = `url(#hatch-${id})`;
  return [svg("pattern", { id: `hatch-${id}`, ...size }, line), area];
}

const said = (reply) => JSON.stringify(reply && [reply.action, reply.relations.map((each) => each.in_cycle)]);

function sign(id, state, acted, action) {
  const words = [];
  if (id === state.target) words.push("★");
  if (id === acted) words.push(action.type === "grasp" ? "grasp" : "remove");
  if (state.candidates.includes(id)) words.push("this one?");
  if (words.length === 0) return [];
  const text = words.join(" ");
  const width = 10 + 7 * text.length;
  return [
    svg("rect", { class: "tag", x: -width / 2, y: -RADIUS - 21, width, height: 19, rx: 9.5 }),
    svg("text", { class: "tag-text", y: -RADIUS - 7 }, text),
  ];
}

/** One sign of the picture and what it means; `term` opens the glossary. */
const legendItem = (sign, text, term) =>
  el("span", { class: "legend-item" }, el("b", { "aria-hidden": "true" }, sign), ` ${text} `, term ? mark(term) : "");

/** What the signs on the picture mean, and two switches. */
export function mountLegend(root, store, stage, report) {
  const all = el("button", { type: "button", class: "toggle", "aria-pressed": "false", "data-testid": "all-arrows",
    title: "Show unlikely relations too, and those that do not matter to the object you want",
    onclick: () => store.set({ allArrows: !store.state.allArrows, shownGraph: null }) }, "All arrows");
  const zoom = el("button", { type: "button", class: "toggle", "aria-pressed": "false", onclick: () => {
    stage.zoom(!stage.zoomed);
    zoom.setAttribute("aria-pressed", String(!stage.zoomed));
  } }, "Whole picture");
  const words = el("span", { class: "legend-words" },
    legendItem("→", "obstructs; thicker: more probable"),
    legendItem("⟳", "dashed: contradiction", "contradiction"),
    legendItem("┈", "dotted: no answer", "no answer"),
    legendItem("▨", "hatched: hidden part", "hidden part"));
  let space = null; // the view in three dimensions, once it was asked for
  const turn = el("button", { type: "button", class: "toggle", "aria-pressed": "false", "data-testid": "depth-view",
    title: "Turn the scene in three dimensions", onclick: async () => {
      try {
        space ??= new (await import("./depth_view.js")).DepthView(stage.root, store);
        if (space.isOpen) space.close();
        else await space.open();
      } catch (problem) {
        report(problem);
      }
      turn.setAttribute("aria-pressed", String(space?.isOpen ?? false));
    } }, "3-D");
  root.append(words, turn, all, zoom);
  store.view((state) => {
    all.setAttribute("aria-pressed", String(state.allArrows));
    turn.hidden = !state.scene?.has_depth;
    turn.setAttribute("aria-pressed", String(space?.isOpen ?? false));
  });
}
