// The scene as points in space, turned with the mouse, a finger or the arrow keys. Loaded when asked for.

import * as api from "./api.js";
import { arrowsToShow } from "./arrows.js";
import { clamp, el } from "./dom.js";
import { thingColour } from "./words.js";

const RECORD = 18; // bytes a point: x, y, z as float32, red, green, blue, 0, the object's id as uint16
const TURN = 0.006; // radians a pixel
const BACKGROUND = [24, 28, 36];

export class DepthView {
  #store;
  #root;
  #canvas = el("canvas", {
    class: "depth-canvas", tabindex: 0, role: "img", "data-testid": "depth-canvas",
    "aria-label": "The scene in three dimensions; arrow keys turn it, plus and minus change its size",
  });
  #points = null;
  #angles = { turn: 0.35, tilt: -0.5, zoom: 1 };
  #due = false;

  constructor(root, store) {
    this.#store = store;
    this.#root = el("div", { class: "depth-view", "data-testid": "depth-view-open" }, this.#canvas);
    root.append(this.#root);
    this.#listen();
    new ResizeObserver(() => this.#draw()).observe(this.#root);
    store.view((state, before) => {
      if (state.scene !== before.scene) this.close();
      else if (["target", "reply", "edits", "allArrows", "shownGraph", "selected"].some((field) => state[field] !== before[field])) this.#draw();
    });
    this.close();
  }

  get isOpen() {
    return !this.#root.hidden;
  }

  async open() {
    const scene = this.#store.state.scene;
    const points = decode(await (await api.scenePoints(scene.id)).arrayBuffer(), scene.objects);
    if (scene !== this.#store.state.scene) return;
    this.#points = points;
    this.#root.hidden = false;
    this.#draw();
    this.#canvas.focus({ preventScroll: true });
  }

  close() {
    this.#root.hidden = true;
    this.#points = null;
  }

  #listen() {
    const canvas = this.#canvas;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      event.preventDefault();
      canvas.focus({ preventScroll: true });
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons === 0) return;
      this.#turn(event.movementX * TURN, event.movementY * TURN);
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.#size(event.deltaY < 0 ? 1.1 : 1 / 1.1);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
      const size = { "+": 1.1, "=": 1.1, "-": 1 / 1.1 }[event.key];
      if (!by && !size) return;
      event.preventDefault();
      event.stopPropagation();
      if (by) this.#turn(...by);
      else this.#size(size);
    });
  }

  #turn(turn, tilt) {
    this.#angles.turn += turn;
    this.#angles.tilt = clamp(this.#angles.tilt + tilt, -1.5, 1.5);
    this.#draw();
  }

  #size(factor) {
    this.#angles.zoom = clamp(this.#angles.zoom * factor, 0.4, 6);
    this.#draw();
  }

  #draw() {
    if (this.#due || !this.isOpen || !this.#points) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      if (this.isOpen && this.#points) this.#paint();
    });
  }

  #paint() {
    const { width, height } = this.#root.getBoundingClientRect();
    const [w, h] = [Math.max(Math.round(width), 1), Math.max(Math.round(height), 1)];
    Object.assign(this.#canvas, { width: w, height: h });
    const context = this.#canvas.getContext("2d");
    const place = projection(this.#points, this.#angles, w, h);
    context.putImageData(splat(this.#points, place, w, h), 0, 0);
    this.#annotate(context, place);
    this.#canvas.dataset.angles = [this.#angles.turn, this.#angles.tilt].map((each) => each.toFixed(2)).join(" ");
  }

  /** Arrows from blockers to what they obstruct, and a badge on each object. */
  #annotate(context, place) {
    const state = this.#store.state;
    const at = new Map([...this.#points.middles].map(([id, point]) => [id, place(...point)]));
    for (const { blocker, blocked } of arrowsToShow(state)) {
      const [from, to] = [at.get(blocker), at.get(blocked)];
      if (from && to) arrow(context, from, to);
    }
    const acted = state.reply?.action.type === "defer" ? null : state.reply?.action.object;
    for (const [id, [x, y]] of at) {
      context.beginPath();
      context.arc(x, y, id === acted ? 14 : 11, 0, 2 * Math.PI);
      context.fillStyle = thingColour(id);
      context.fill();
      context.lineWidth = id === acted || id === state.target ? 4 : 1.5;
      context.strokeStyle = id === acted ? "#ffffff" : "#10141a";
      context.stroke();
      context.fillStyle = "#181c24";
      context.font = "700 12px sans-serif";
      context.textAlign = "center";
      context.fillText(`${id === state.target ? "★" : ""}${id}`, x, y + 4);
    }
  }
}

/** Points by column, the middle of each object, and the middle and reach of all. */
function decode(buffer, objects) {
  const view = new DataView(buffer);
  const n = Math.floor(buffer.byteLength / RECORD);
  const points = { n, x: new Float32Array(n), y: new Float32Array(n), z: new Float32Array(n), colour: new Uint8Array(3 * n) };
  const sums = new Map();
  for (let k = 0; k < n; k += 1) {
    const from = k * RECORD;
    const at = [0, 4, 8].map((offset) => view.getFloat32(from + offset, true));
    [points.x[k], points.y[k], points.z[k]] = at;
    for (let c = 0; c < 3; c += 1) points.colour[3 * k + c] = view.getUint8(from + 12 + c);
    const id = view.getUint16(from + 16, true);
    if (id === 0) continue;
    const sum = sums.get(id) ?? [0, 0, 0, 0];
    sums.set(id, [...at.map((each, i) => sum[i] + each), sum[3] + 1]);
    const tint = [1, 3, 5].map((i) => parseInt(thingColour(id).slice(i, i + 2), 16));
    for (let c = 0; c < 3; c += 1) points.colour[3 * k + c] = 0.7 * points.colour[3 * k + c] + 0.3 * tint[c];
  }
  const known = new Set(objects.map((each) => each.id));
  points.middles = new Map([...sums].filter(([id]) => known.has(id)).map(([id, [x, y, z, count]]) => [id, [x / count, y / count, z / count]]));
  const inside = points.middles.size > 0 ? [...points.middles.values()] : [[0, 0, points.z[0] ?? 1]];
  points.middle = [0, 1, 2].map((i) => inside.reduce((sum, each) => sum + each[i], 0) / inside.length);
  const far = inside.map((each) => Math.hypot(...each.map((value, i) => value - points.middle[i])));
  points.reach = Math.max(...far, 0.02) + 0.06;
  return points;
}

/** From a point to pixels and distance, seen from the turned direction. */
function projection({ middle, reach }, { turn, tilt, zoom }, width, height) {
  const [ct, st, cp, sp] = [Math.cos(turn), Math.sin(turn), Math.cos(tilt), Math.sin(tilt)];
  const away = 3 * reach;
  const scale = (zoom * 1.35 * away * Math.min(width, height)) / (2 * reach);
  return (x, y, z) => {
    const [dx, dy, dz] = [x - middle[0], y - middle[1], z - middle[2]];
    const [ax, az] = [ct * dx + st * dz, -st * dx + ct * dz];
    const [by, bz] = [cp * dy - sp * az, sp * dy + cp * az];
    const depth = bz + away;
    return [width / 2 + (scale * ax) / depth, height / 2 + (scale * by) / depth, depth];
  };
}

/** The points as small squares, the nearer in front. */
function splat(points, place, width, height) {
  const image = new ImageData(width, height);
  const near = new Float32Array(width * height).fill(Infinity);
  for (let i = 0; i < width * height; i += 1) image.data.set([...BACKGROUND, 255], 4 * i);
  for (let k = 0; k < points.n; k += 1) {
    const [px, py, depth] = place(points.x[k], points.y[k], points.z[k]);
    if (depth < 0.3 * points.reach) continue;
    const half = 1 + Math.round((4 * points.reach) / depth);
    for (let y = Math.round(py) - half; y <= py + half; y += 1) {
      for (let x = Math.round(px) - half; x <= px + half; x += 1) {
        if (x < 0 || y < 0 || x >= width || y >= height || depth >= near[y * width + x]) continue;
        near[y * width + x] = depth;
        for (let c = 0; c < 3; c += 1) image.data[4 * (y * width + x) + c] = points.colour[3 * k + c];
      }
    }
  }
  return image;
}

function arrow(context, [x0, y0], [x1, y1]) {
  const length = Math.hypot(x1 - x0, y1 - y0);
  if (length < 30) return;
  const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
  const tip = [x1 - 15 * ux, y1 - 15 * uy];
  for (const [colour, width] of [["#10141a", 6], ["#ffffff", 3]]) {
    context.strokeStyle = colour;
    context.fillStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(tip[0] - 6 * ux, tip[1] - 6 * uy);
    context.stroke();
    context.beginPath();
    context.moveTo(...tip);
    context.lineTo(tip[0] - 13 * ux + 6 * uy, tip[1] - 13 * uy - 6 * ux);
    context.lineTo(tip[0] - 13 * ux - 6 * uy, tip[1] - 13 * uy + 6 * ux);
    context.fill();
  }
}
