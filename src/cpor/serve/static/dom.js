// Elements without markup in strings: data only ever becomes text or an attribute, never HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** An HTML element: attributes, `onclick` and the like, children (nodes or text). */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Words with what is to be typed, between backticks, set apart. */
export const prose = (words) => words.split("`").map((part, k) => (k % 2 ? el("code", {}, part) : part));

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

const ICONS = {
  grasp: ["M24 3v10M13 22l-4 10 6 9M35 22l4 10-6 9M13 22h22M13 22v-3a6 6 0 0 1 6-6h10a6 6 0 0 1 6 6v3", [24, 36, 6]],
  remove: ["M6 27h17v15h-17zM15 21C15 9 31 6 39 15M40 5v11H29M31 42h1M37 42h1M43 42h1"],
  defer: ["M8 8h32v26H24l-9 8v-8H8zM19 17a5 5 0 1 1 7 4.5c-1.5.7-2 1.5-2 3.5", [24, 29.5, 2.2]],
  point: ["M12 8l8 30 6-12 12-6zM27 27l11 12"],
};

/** The sign of an action: grasp, remove, defer; point: choose an object. */
export function icon(name) {
  const [d, dot] = ICONS[name];
  const line = { fill: "none", stroke: "currentColor", "stroke-width": 4, "stroke-linecap": "round", "stroke-linejoin": "round" };
  return svg(
    "svg",
    { class: "verdict-icon", viewBox: "0 0 48 48", "aria-hidden": "true" },
    svg("path", { d, ...line }),
    dot ? svg("circle", { cx: dot[0], cy: dot[1], r: dot[2], fill: "currentColor" }) : null,
  );
}

/** An SVG element with a tooltip. */
export function titled(node, text) {
  node.prepend(svg("title", {}, text));
  return node;
}

/** The nearest number on the steps that the page offers: a recording of answers has some, a service has any. */
export function onStep(value, name) {
  const step = Number(document.body.dataset[name]);
  return step > 0 ? Math.round(value / step) * step : value;
}

/** A listener of keys that acts at Enter and space, as a button does. */
export const onPress = (act) => (event) => {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  act();
};

export const byId = (id) => document.getElementById(id);

/** Put children in place of whatever is there. */
export function show(parent, ...children) {
  parent.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

/** Hand a blob to the person as a file. */
export function download(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** Draw, and give the focus back to what had it: whoever uses the keyboard must not begin anew at each step. */
export function keepingFocus(root, draw) {
  const had = root.contains(document.activeElement) ? document.activeElement : null;
  draw();
  if (had === null || had.isConnected) return;
  const again = had.dataset.testid && root.querySelector(`[data-testid="${CSS.escape(had.dataset.testid)}"]`);
  const instead = again || root.querySelector(".headline") || root;
  if (!again && !instead.hasAttribute("tabindex")) instead.setAttribute("tabindex", "-1");
  instead.focus({ preventScroll: true });
}
