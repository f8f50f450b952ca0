// How far a picture is on its way: sent, looked at.

import * as api from "./api.js";
import { el, show } from "./dom.js";

const STAGES = ["Send the pictures", "Find the objects, and what lies on what"];

/** Draw the stages of the upload that goes on. */
export function mountStages(root, store) {
  store.view(({ stage }, before) => {
    if (stage === before.stage) return;
    root.hidden = stage === null;
    if (stage !== null) show(root, STAGES.map((words, k) => line(words, k, stage)));
  });
}

function line(words, k, { at, share }) {
  const state = k < at ? "done" : k === at ? "now" : "later";
  const sent = k === 0 && state === "now" ? ` ${Math.round(100 * share)} %` : "";
  return el("li", { "data-stage": state, "aria-current": state === "now" ? "step" : null },
    `${{ done: "✓", now: "…", later: "·" }[state]} ${words}${sent}`);
}

/** Send a scene, and say how far that is. */
export async function sendShown(store, files) {
  const tell = (share) => store.set({ stage: { at: share < 1 ? 0 : 1, share } });
  tell(0);
  try {
    return await api.sendScene(files, tell);
  } finally {
    store.set({ stage: null });
  }
}
