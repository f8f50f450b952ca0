// What a person corrects: each correction goes to the service, and the decision follows. Also the queue of `cpor label`.

import * as api from "./api.js";
import { byId, download } from "./dom.js";
import { requestOf, unread } from "./store.js";

/** page: busyWith(words, work), report(problem), remember(), decide(), forgetReply() -> fields, close(note). */
export function makeCorrections(store, page) {
  async function correct(request) {
    const { scene } = store.state;
    if (!scene) return;
    store.set({ asking: true }); // the decision follows
    try {
      show(await api.correct(scene.id, request));
    } catch (problem) {
      if (problem.status === 404) problem.message = "The service does not keep this picture any more. Open it again.";
      store.set({ asking: false });
      page.report(problem);
    }
  }

  function show(scene) {
    const { target, edits, phase } = store.state;
    const there = new Set(scene.objects.map((each) => each.id));
    const stays = new Map([...edits].filter(([name]) => name.split(">").every((id) => there.has(Number(id)))));
    const wanted = there.has(target) ? target : null;
    store.set({
      ...(wanted === null ? page.forgetReply() : { plan: null, explained: null }),
      scene, edits: stays, target: wanted, selected: null, shownGraph: null, error: unread(store.state), candidates: [], question: null,
      phase: wanted === null ? "choose" : phase,
    });
    page.remember();
    store.set({ asking: false });
    page.decide();
  }

  async function save() {
    const { scene } = store.state;
    const { relations } = requestOf(store.state, 0);
    const blob = await page.busyWith("Saving…", () => api.saveScene(scene.id, relations));
    if (blob !== null) download(blob, "scene.zip");
  }

  async function forget() {
    const { scene } = store.state;
    if (await page.busyWith("Forgetting it…", () => api.forgetScene(scene.id)) === null) return;
    page.close("The picture is deleted from the service.");
    history.replaceState(null, "", location.pathname);
  }

  return { correct, save, forget };
}

/** Photographs to label, one after the other. page: busyWith(words, work), open(scene, picture, title), close(note). */
export function makeQueue(store, page) {
  byId("queue-accept").addEventListener("click", () => label("accept"));
  byId("queue-skip").addEventListener("click", () => label("skip"));

  async function next(what = "next", body = {}) {
    const words = what === "accept" ? "Saving the labels…" : "Looking at the photograph…";
    const found = await page.busyWith(words, async () => {
      const reply = await api.queue(what, body);
      return { ...reply, picture: reply.scene && (await api.scenePicture(reply.scene.id)) };
    });
    if (found === null) return;
    byId("queue").hidden = false;
    byId("queue-accept").disabled = byId("queue-skip").disabled = found.scene === null;
    const time = Math.max(1, Math.round(found.minutes_left));
    byId("queue-text").textContent = found.scene === null
      ? `All ${found.total} photographs are labelled. Fit a model to them: cpor fit.`
      : `${found.name}: correct what is wrong, then accept. ${found.left} of ${found.total} photographs left, about ${time} min.`;
    if (found.scene === null) return page.close(null);
    page.open(found.scene, found.picture, found.name);
    store.set({ labelling: true });
  }

  function label(what) {
    const { scene } = store.state;
    if (scene) next(what, { id: scene.id, relations: requestOf(store.state, 0).relations });
  }

  return { next };
}
