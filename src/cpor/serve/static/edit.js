// Correct what was seen: tools to hold, and what their clicks and strokes mean to the service.

import { byId, el, show } from "./dom.js";
import { mark } from "./glossary.js";
import { unread } from "./store.js";
import { sayObject } from "./words.js";

const RADIUS = 0.012; // of the brush, as a share of the picture's longer side

/** key: takes the tool while the tools are shown; clicks: how many make a correction; onObject: whether each must hit one; make: (picked, state) -> correction. */
const TOOLS = {
  add: {
    label: "Add", key: "+", hint: "Click an object that was missed.", clicks: 1,
    make: ([{ point }]) => ({ tool: "add", point }),
  },
  delete: {
    label: "Delete", key: "d", hint: "Click what is no object.", clicks: 1, onObject: true,
    make: ([{ id }]) => ({ tool: "delete", object: id }),
  },
  split: {
    label: "Split", key: "s", hint: "Click both parts of what is two objects.", clicks: 2, onObject: true,
    make: ([a, b]) => ({ tool: "split", object: a.id, a: a.point, b: b.point }),
  },
  merge: {
    label: "Merge", key: "m", hint: "Click two parts of one object.", clicks: 2, onObject: true,
    make: ([a, b]) => ({ tool: "merge", objects: [a.id, b.id] }),
  },
  "brush-on": { label: "Brush", key: "b", hint: "Paint from inside of an object over what belongs to it.", brush: true },
  "brush-off": { label: "Erase", key: "e", hint: "Paint from inside of an object over what does not belong to it.", brush: true },
  rename: { label: "Rename", key: "r", hint: "Click an object to name it.", clicks: 1, onObject: true },
  relate: {
    label: "Lies on", key: "u", hint: "Click what lies on top, then what lies below.", clicks: 2, onObject: true,
    make: ([upper, lower]) => ({ tool: "relate", blocked: lower.id, blocker: upper.id, p: 1.0 }),
  },
  workspace: { label: "Workspace", key: "w", hint: "Click the corners, then press Done. Objects outside cannot be asked for.", clicks: Infinity },
};

/** actions: correct(request), save(), forget(). Returns what the stage tells of the pointer. */
export function mountTools(root, store, actions) {
  const hint = el("span", { class: "tool-hint", role: "status", "data-testid": "tool-hint" });
  const done = el("button", { type: "button", class: "primary", "data-testid": "tool-done", onclick: finish }, "Done");
  const buttons = Object.entries(TOOLS).map(([name, { label, hint: title, key }]) =>
    el("button", { type: "button", class: "toggle", title: `${title} (${key})`, "aria-keyshortcuts": key, "aria-pressed": "false", "data-tool": name, "data-testid": `tool-${name}`,
      onclick: () => take(store.state.tool === name ? null : name) }, label));
  const step = (name, label, act, key = null) => el("button", { type: "button", "data-testid": name, onclick: act,
    title: key && `${label} (${key})`, "aria-keyshortcuts": key }, label);
  const undo = step("undo", "Undo", () => actions.correct({ do: "undo" }), "z");
  const redo = step("redo", "Redo", () => actions.correct({ do: "redo" }), "y");
  const save = step("save", "Save", actions.save);
  save.title = "Download a labelled scene folder: masks and relations as you corrected or accepted them; `cpor fit` reads it";
  const forget = step("forget", "Forget this picture", actions.forget);
  forget.title = "Delete it from the service at once; otherwise it is kept for half an hour";
  const inside = [...buttons, mark("workspace"), done, undo, redo, save, forget, hint];
  let isOpen = false;
  const toggle = el("button", { type: "button", class: "toggle", "aria-expanded": "false", "data-testid": "correct",
    title: "Correct what was seen: objects, names, who lies on whom", onclick: () => {
      isOpen = !isOpen;
      take(null);
    } }, "✎ Correct…");
  root.append(toggle, ...inside);

  store.view((state) => {
    root.hidden = !state.scene || state.phase === "empty";
    const open = isOpen || state.labelling;
    toggle.setAttribute("aria-expanded", String(open));
    for (const each of inside) each.hidden = !open;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.tool === state.tool));
    undo.disabled = !state.scene?.done;
    redo.disabled = !state.scene?.undone;
    done.style.visibility = state.tool === "workspace" ? "visible" : "hidden"; // nothing moves under the hand
    done.disabled = state.picked.length < 3;
    show(hint, say(state));
  });

  function say({ tool, picked, scene }) {
    if (tool === null) return scene?.done ? `${scene.done} corrected by hand.` : "";
    const first = picked[0]?.id ? ` First: ${sayObject(scene, picked[0].id)}.` : "";
    return `${TOOLS[tool].hint}${first} Esc: put it away.`;
  }

  function take(tool) {
    store.set({ tool, picked: [] });
  }

  function finish() {
    actions.correct({ correction: { tool: "workspace", corners: store.state.picked.map((each) => each.point) } });
    take(null);
  }

  function click(id, point) {
    const { tool, picked } = store.state;
    const { clicks, onObject, make } = TOOLS[tool];
    if (onObject && id === null) return store.set({ error: "There is no object at this point. Click one.", passing: true });
    const now = [...picked, { id, point }];
    if (now.length < clicks) return store.set({ picked: now, error: unread(store.state) });
    store.set({ picked: [] });
    if (tool === "rename") return askName(id);
    actions.correct({ correction: make(now) });
  }

  function askName(id) {
    const dialog = byId("rename");
    byId("rename-text").value = store.state.scene.objects.find((each) => each.id === id)?.name ?? "";
    dialog.onclose = () => {
      if (dialog.returnValue !== "save") return;
      actions.correct({ correction: { tool: "rename", object: id, name: byId("rename-text").value.trim() || null } });
    };
    dialog.returnValue = "";
    dialog.showModal();
  }

  return {
    stroke({ id, points }) {
      const { tool, scene, target } = store.state;
      if (tool === null) return;
      if (!TOOLS[tool].brush) return click(id, points.at(-1));
      const object = id ?? target;
      if (object === null) return store.set({ error: "Begin the stroke inside of the object that it belongs to.", passing: true });
      const radius = Math.max(2, RADIUS * Math.max(scene.width, scene.height));
      actions.correct({ correction: { tool: "brush", object, points, radius, erase: tool === "brush-off" } });
    },
    pick(id) {
      click(id, store.state.scene.objects.find((each) => each.id === id).point);
    },
    putAway: () => take(null),
    /** Press the button of a key while the tools are shown; whether there is one. */
    press(key) {
      const button = root.querySelector(`[aria-keyshortcuts="${CSS.escape(key)}"]`);
      if (!button || button.hidden || root.hidden) return false;
      button.click();
      return true;
    },
  };
}
