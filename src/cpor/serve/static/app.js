// The page: joins what is seen (the modules around) with what is known (store.js) and the service (api.js).

import * as api from "./api.js";
import { Bars } from "./bars.js";
import { mountChanges } from "./changes.js";
import { openCamera, openDepthCamera } from "./camera.js";
import { makeCorrections, makeQueue } from "./correcting.js";
import { mountTools } from "./edit.js";
import { Decider } from "./decider.js";
import { mountDecision } from "./decision.js";
import { byId, onStep } from "./dom.js";
import { droppedFiles, sortFiles, whatOf } from "./files.js";
import { mountGraphs } from "./graphs.js";
import { listenForKeys } from "./keys.js";
import { Relations } from "./relations.js";
import { mountLegend, Stage } from "./stage.js";
import { mountStages, sendShown } from "./stages.js";
import { addressOf, fitting, Store, key, riskOf, unread } from "./store.js";
import { mountGlossary } from "./glossary.js";
import { mountTake } from "./take.js";
import { askForToken as showTokenDialog } from "./token.js";
import { listenForDrops, mountWelcome } from "./welcome.js";

const RETRY_MS = 2000;

const store = new Store();
let opened = null; // the example that is shown; null for files of one's own
let isGoingBack = false; // while what the address says is opened
let parts = {}; // the files of the scene that is shown, so that a depth picture can be added later

// What goes wrong

function report(problem) {
  if (problem instanceof api.GoneError) return lost();
  if (problem.status === 401) return askForToken();
  if (store.state.phase === "deciding") store.set({ phase: "choose", target: null, unanswered: null });
  const error = problem.message + (problem.retryAfter ? ` Try again in ${problem.retryAfter} s.` : "");
  store.set({ busy: null, error, passing: false });
}

function lost() {
  const waits = store.state.gone;
  store.set({ busy: null, gone: true });
  if (!waits) setTimeout(knock, RETRY_MS);
}

async function knock() {
  try {
    store.set({ health: await api.health(), gone: false });
    if (store.state.examples === null) await loadExamples();
    if (store.state.phase === "decided" || store.state.target !== null) decide();
  } catch {
    setTimeout(knock, RETRY_MS);
  }
}

function askForToken() {
  store.set({ busy: null });
  showTokenDialog(() => {
    begin();
    decide();
  });
}

async function busyWith(words, work) {
  store.set({ busy: words, error: unread(store.state) });
  try {
    return await work();
  } catch (problem) {
    report(problem);
    return null;
  } finally {
    store.set({ busy: null });
  }
}

let resending = null; // the picture on its way to a service that forgot it

/** Ask about the scene; a service that forgot it is sent it again. */
async function ask(request) {
  const { scene } = store.state;
  try {
    return await api.decideScene(scene.id, request);
  } catch (problem) {
    if (problem.status !== 404 || store.state.scene !== scene) throw problem;
    if (scene.done > 0) throw new Error("The service forgot this picture and its corrections. Open it again.");
    if (opened === null && !parts.rgb) throw new Error("The service does not keep this picture any more. Open it again.");
    resending ??= (opened ? api.openExample(opened.name, givenMasks()) : api.sendScene(parts)).finally(() => {
      resending = null;
    });
    scene.id = (await resending).id;
    return api.decideScene(scene.id, request);
  }
}

const decider = new Decider(store, ask, report, lost);
const decide = (options) => decider.decide(options);
const page = {
  busyWith, report, remember, decide,
  forgetReply: () => decider.forget(),
  open: (scene, picture, title) => {
    [parts, opened] = [{}, null];
    openScene(scene, picture, title);
  },
  close: (note) => {
    [parts, opened] = [{}, null];
    store.set({ ...decider.forget(), scene: null, picture: null, target: null, phase: "empty", note });
  },
};
const corrections = makeCorrections(store, page);
const queue = makeQueue(store, page);

// What a person can do

/** Want an object; `words` are those that named it, and go where it was pointed at. */
function choose(id, words = "") {
  const { scene, target, phase } = store.state;
  if (!scene) return;
  byId("words").value = words;
  if (id === target && phase === "decided") return;
  const fresh = { question: null, candidates: [], selected: null, error: unread(store.state), note: null };
  store.set({ ...decider.forget(), ...fresh, target: id, phase: "deciding" });
  remember();
  decide();
}

function setTau(wanted) {
  const tau = onStep(wanted, "step");
  if (tau === store.state.tau) return;
  store.set({ tau, mode: null });
  decide({ onlyTau: true });
}

function setMode(mode) {
  store.set({ mode, tau: store.state.scene.modes[mode] });
  remember();
  decide({ onlyTau: true });
}

function select(pair) {
  store.set({ selected: pair && { blocked: pair.blocked, blocker: pair.blocker }, shownGraph: null });
  // On a small screen it opens below what is seen.
  if (pair) byId("relations-title").parentElement.scrollIntoView({ block: "nearest" });
}

function edit(pair, p) {
  const edits = new Map(store.state.edits);
  edits.set(key(pair), p === null ? null : onStep(p, "editStep"));
  changeTo(edits);
}

function reset(pair) {
  const edits = new Map(store.state.edits);
  edits.delete(key(pair));
  const wasFound = store.state.scene.relations.some((each) => key(each) === key(pair));
  if (!wasFound) select(null);
  changeTo(edits);
}

function changeTo(edits) {
  store.set({ edits, plan: null });
  decide();
}

function answer(pair, p) {
  select(pair);
  edit(pair, p);
}

async function askFor(words) {
  const { scene } = store.state;
  if (!words || !scene) return;
  const said = await busyWith("Looking for it…", () => ask({ request: words, ...riskOf(store.state), graphs: 0 }));
  if (said === null || scene !== store.state.scene) return;
  if (said.action !== null) return choose(said.target, words);
  if (said.candidates.length > 0) {
    const candidates = fitting(said.candidates);
    store.set({ ...decider.forget(), target: null, phase: "ambiguous", question: said.question, candidates });
  } else {
    // What was decided before is not what is wanted now.
    store.set({
      ...decider.forget(),
      target: null,
      phase: "choose",
      question: null,
      candidates: [],
      selected: null,
      passing: true,
      error: said.question ?? `Nothing here looks like “${words}”. Try its colour or place, or click it.`,
    });
    remember();
  }
}

// Pictures

function openScene(scene, blob, title, note = null) {
  byId("words").value = "";
  if (store.state.picture) URL.revokeObjectURL(store.state.picture);
  store.set({
    ...decider.forget(),
    scene,
    picture: URL.createObjectURL(blob),
    title,
    target: null,
    mode: scene.mode,
    tau: scene.tau,
    phase: "choose",
    edits: new Map(), selected: null, question: null, candidates: [], error: null, allArrows: false, note,
    tool: null, picked: [],
  });
  remember();
}

const givenMasks = () => store.state.health?.perception === false;

async function openExample(example) {
  const found = await busyWith("Looking at the picture…", () =>
    Promise.all([api.openExample(example.name, givenMasks()), api.examplePicture(example.name)]));
  if (found === null) return false;
  parts = {};
  opened = example;
  openScene(...found, example.title);
  return true;
}

/** A scene that the service keeps, by its id: after a reload, or from a copied address. */
async function openKept(id) {
  store.set({ busy: "Looking for the picture…" });
  try {
    const found = await Promise.all([api.openScene(id), api.scenePicture(id)]);
    page.open(...found, "picture");
    return true;
  } catch (problem) {
    if (problem.status !== 404) report(problem);
    else {
      history.replaceState(null, "", location.pathname);
      store.set({ phase: "empty", note: "The service does not keep this picture any more. Open it again." });
    }
    return false;
  } finally {
    store.set({ busy: null });
  }
}

/** Note in the browser's history where we are, so that Back, a reload and a copied address lead here. */
function remember() {
  const address = addressOf(store.state, opened);
  if (!isGoingBack && address !== location.pathname + location.search) history.pushState(null, "", address);
}

async function openFiles(files) {
  if (files.length === 0) return;
  const sorted = await sortFiles(files);
  // Depth dropped after the colour picture joins it.
  const all = sorted.parts.rgb ? sorted.parts : { ...parts, ...sorted.parts };
  if (!all.rgb) {
    const names = files.map((file) => file.name).join(", ");
    store.set({
      passing: true,
      error: `No colour picture among ${names}. Drop a PNG, JPEG or WebP picture, with its depth picture if you have one.`,
    });
    return;
  }
  const scene = await busyWith("Looking at the picture…", () => sendShown(store, all));
  if (scene === null) return;
  parts = all;
  opened = null;
  openScene(scene, all.rgb, all.rgb.name, whatOf(sorted, all));
  if (sorted.request) {
    byId("words").value = sorted.request;
    askFor(sorted.request);
  }
}

function back() {
  const { selected, shownGraph, error, phase, scene } = store.state;
  if (store.state.tool !== null) store.set({ tool: null, picked: [] });
  else if (error) store.set({ error: null });
  else if (shownGraph !== null) store.set({ shownGraph: null });
  else if (selected) select(null);
  else if (phase === "ambiguous") store.set({ phase: "choose", candidates: [], question: null });
  else if (phase === "empty" && scene) close();
}

const close = () => store.set({ phase: store.state.reply ? "decided" : "choose" });

const useCamera = () => openCamera((file) => openFiles([file]), (error) => store.set({ error, passing: true }));
const useDepthCamera = () => openDepthCamera(page);

// Everything together

function mount() {
  const chooser = byId("file-chooser");
  chooser.addEventListener("change", () => {
    openFiles([...chooser.files]);
    chooser.value = "";
  });
  mountWelcome(byId("welcome"), store, { openExample, chooseFiles: () => chooser.click(), close, useCamera, useDepthCamera });
  mountStages(byId("stages"), store);
  const tools = mountTools(byId("tools"), store, corrections);
  const stage = new Stage(byId("picture"), store, choose, select, tools);
  mountLegend(byId("legend"), store, stage, report);
  mountDecision(byId("verdict"), store, {
    answer,
    choose: (id) => choose(id, byId("words").value), // the words still fit whichever of them is meant
    undoAll: () => changeTo(new Map()),
    again: () => {
      store.set({ error: null });
      decide();
    },
  });
  mountGlossary();
  mountTake(byId("take"), store, {
    files: () => ({ rgb: parts.rgb?.name ?? "rgb.png", depth: store.state.scene.has_depth ? (parts.depth?.name ?? "depth.png") : null }),
    busyWith,
    report,
    go: (address) => {
      history.pushState(null, "", location.pathname + address);
      openAddress();
    },
  });
  const bars = new Bars(byId("bars"), store, { setTau, setMode });
  mountGraphs(byId("graphs"), store);
  mountChanges(byId("changes"), store, select, answer);
  const relations = new Relations(byId("relations"), store, { select, edit, reset });
  const openPictures = () => store.set({ phase: "empty" });
  listenForKeys(store, {
    choose,
    step: (event) => bars.step(event),
    walk: (step) => relations.walk(step),
    open: openPictures,
    back,
    tool: (key) => tools.press(key),
  });
  listenForDrops(async (transfer) => openFiles(await droppedFiles(transfer)));
  byId("open-pictures").addEventListener("click", openPictures);
  byId("request").addEventListener("submit", (event) => {
    event.preventDefault();
    askFor(byId("words").value.trim());
  });
  byId("error-close").addEventListener("click", () => store.set({ error: null }));
  byId("note-close").addEventListener("click", () => store.set({ note: null }));
  const menu = byId("open-tools");
  const showMenu = (whether) => menu.setAttribute("aria-expanded", String(whether));
  menu.addEventListener("click", () => showMenu(menu.getAttribute("aria-expanded") === "false"));
  document.addEventListener("click", ({ target }) => target.closest("#open-tools") || showMenu(false));
  addEventListener("keydown", ({ key: pressed }) => pressed === "Escape" && showMenu(false));
  addEventListener("popstate", openAddress);
  store.view(showState);
}

function showState(state) {
  document.body.dataset.phase = state.phase;
  document.body.dataset.state = state.busy ? "busy" : state.phase;
  byId("busy").hidden = state.busy === null;
  byId("busy-text").textContent = state.busy ?? "";
  byId("gone").hidden = !state.gone;
  byId("note").hidden = !state.note;
  byId("note-text").textContent = state.note ?? "";
  byId("error").hidden = state.error === null;
  if (byId("error-text").textContent !== (state.error ?? "")) byId("error-text").textContent = state.error ?? "";
  byId("request").hidden = state.phase === "empty";
  byId("open-pictures").hidden = state.phase === "empty";
}

async function loadExamples() {
  store.set({ examples: await api.examples() });
}

/** Say hello to the service, and open what the address asks for. */
async function begin() {
  try {
    store.set({ health: await api.health() });
    await loadExamples();
  } catch (problem) {
    if (problem.status !== 503) return report(problem);
    // Its workers are being started: that takes seconds, and is no fault.
    store.set({ busy: "The service is starting…" });
    setTimeout(begin, 1000 * (problem.retryAfter ?? 1));
    return;
  }
  store.set({ busy: null });
  if (store.state.health.labelling) await queue.next();
  else if (!store.state.scene) await openAddress();
}

/** Open what the address says: an example, and an object in it; else the first screen. */
async function openAddress() {
  const wanted = new URLSearchParams(location.search);
  const example = (store.state.examples ?? []).find((each) => each.name === wanted.get("example"));
  const kept = wanted.get("scene");
  if (!example && !kept) {
    if (store.state.scene) store.set({ phase: "empty" });
    return;
  }
  isGoingBack = true;
  try {
    const isThere = example ? opened === example && !store.state.scene.done : store.state.scene?.id === kept;
    if (!isThere && !(await (example ? openExample(example) : openKept(kept)))) return;
    const mode = wanted.get("mode");
    if (mode in store.state.scene.modes) store.set({ mode, tau: store.state.scene.modes[mode] });
    const tau = Number(wanted.get("tau"));
    if (wanted.has("tau") && tau >= 0 && tau <= 1) store.set({ tau, mode: null });
    const target = Number(wanted.get("target"));
    if (store.state.scene.objects.some((each) => each.id === target)) choose(target);
    else store.set({ ...decider.forget(), target: null, phase: "choose", selected: null });
  } finally {
    isGoingBack = false;
  }
}

mount();
begin();
