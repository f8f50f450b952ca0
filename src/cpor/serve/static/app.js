// The page: joins what is seen (the modules around) with what is known (store.js) and the service (api.js).

import * as api from "./api.js";
import { Bars } from "./bars.js";
import { mountChanges } from "./changes.js";
import { Decider } from "./decider.js";
import { mountDecision } from "./decision.js";
import { byId } from "./dom.js";
import { droppedFiles, sortFiles } from "./files.js";
import { mountGraphs } from "./graphs.js";
import { listenForKeys } from "./keys.js";
import { Relations } from "./relations.js";
import { mountLegend, Stage } from "./stage.js";
import { Store, key } from "./store.js";
import { listenForDrops, mountWelcome } from "./welcome.js";

const RETRY_MS = 2000;

const store = new Store();
let parts = {}; // the files of the scene that is shown, so that a depth picture can be added later

// What goes wrong

function report(problem) {
  if (problem instanceof api.GoneError) return lost();
  if (problem.status === 401) return askForToken();
  if (store.state.phase === "deciding") store.set({ phase: "choose", target: null });
  const wait = problem.retryAfter ? ` Try again in ${problem.retryAfter} s.` : "";
  store.set({ busy: null, error: problem.message + wait });
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
  if (!byId("token").open) byId("token").showModal();
}

async function busyWith(words, work) {
  store.set({ busy: words, error: null });
  try {
    return await work();
  } catch (problem) {
    report(problem);
    return null;
  } finally {
    store.set({ busy: null });
  }
}

const decider = new Decider(store, report, lost);
const decide = (options) => decider.decide(options);

// What a person can do

function choose(id) {
  const { scene, target, phase } = store.state;
  if (!scene || (id === target && phase === "decided")) return;
  store.set(
    {
      ...decider.forget(),
      target: id,
      phase: "deciding",
      question: null,
      candidates: [],
      selected: null,
      error: null,
    },
  );
  decide();
}

function setTau(tau) {
  if (tau === store.state.tau) return;
  store.set({ tau });
  decide({ onlyTau: true });
}

const select = (pair) => store.set(
  { selected: pair && { blocked: pair.blocked, blocker: pair.blocker }, shownGraph: null },
);

function edit(pair, p) {
  const edits = new Map(store.state.edits);
  edits.set(key(pair), p);
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

/** Those that fit at all; all of them where the words say nothing of any. */
function fitting(candidates) {
  const some = candidates.filter((each) => each.fit > 0);
  return (some.length > 0 ? some : candidates).map((each) => each.id);
}

async function askFor(words) {
  const { scene } = store.state;
  if (!words || !scene) return;
  const said = await busyWith("Looking for it…", () => api.ground(scene.scene_id, words));
  if (said === null || scene !== store.state.scene) return;
  if (said.state === "found") return choose(said.id);
  if (said.state === "ambiguous") {
    store.set(
      {
        ...decider.forget(),
        target: null,
        phase: "ambiguous",
        question: said.question,
        candidates: fitting(said.candidates),
      },
    );
  } else {
    store.set(
      { error: said.question ?? `Nothing here looks like “${words}”. Try its colour or shape, or click it.` },
    );
  }
}

// Pictures

function openScene(scene, blob, title) {
  if (store.state.picture) URL.revokeObjectURL(store.state.picture);
  store.set({
    ...decider.forget(),
    scene,
    picture: URL.createObjectURL(blob),
    title,
    target: null,
    tau: scene.tau,
    phase: "choose",
    edits: new Map(), selected: null, question: null, candidates: [], error: null, allArrows: false,
  });
}

async function openExample(example) {
  const givenMasks = store.state.health?.perception === false;
  const opened = await busyWith("Looking at the picture…", () =>
    Promise.all([api.openExample(example.name, givenMasks), api.examplePicture(example.name)]));
  if (opened === null) return false;
  parts = {};
  openScene(...opened, example.title);
  return true;
}

async function openFiles(files) {
  if (files.length === 0) return;
  const sorted = await sortFiles(files);
  // Depth dropped after the colour picture joins it.
  const all = sorted.parts.rgb ? sorted.parts : { ...parts, ...sorted.parts };
  if (!all.rgb) {
    store.set(
      {
        error:
          `No colour picture among ${files.map((file) => file.name).join(", ")}. ` +
          "Drop a PNG, JPEG or WebP picture, with its depth picture if you have one.",
      },
    );
    return;
  }
  const scene = await busyWith("Looking at the picture…", () => api.sendScene(all));
  if (scene === null) return;
  parts = all;
  openScene(scene, all.rgb, all.rgb.name);
  if (sorted.request) {
    byId("words").value = sorted.request;
    askFor(sorted.request);
  }
}

function back() {
  const { selected, shownGraph, error, phase, scene } = store.state;
  if (error) store.set({ error: null });
  else if (shownGraph !== null) store.set({ shownGraph: null });
  else if (selected) select(null);
  else if (phase === "ambiguous") store.set({ phase: "choose", candidates: [], question: null });
  else if (phase === "empty" && scene) close();
}

const close = () => store.set({ phase: store.state.reply ? "decided" : "choose" });

// Everything together

function mount() {
  const chooser = byId("file-chooser");
  chooser.addEventListener("change", () => {
    openFiles([...chooser.files]);
    chooser.value = "";
  });
  mountWelcome(byId("welcome"), store, { openExample, chooseFiles: () => chooser.click(), close });
  const stage = new Stage(byId("picture"), store, choose, select);
  mountLegend(byId("legend"), store, stage);
  mountDecision(byId("verdict"), store, { answer, choose, undoAll: () => changeTo(new Map()) });
  const bars = new Bars(byId("bars"), store, setTau);
  mountGraphs(byId("graphs"), store);
  mountChanges(byId("changes"), store, select, answer);
  const relations = new Relations(byId("relations"), store, { select, edit, reset });
  const openPictures = () => store.set({ phase: "empty" });
  listenForKeys(
    store,
    {
      choose,
      step: (event) => bars.step(event),
      walk: (step) => relations.walk(step),
      open: openPictures,
      back,
    },
  );
  listenForDrops(async (transfer) => openFiles(await droppedFiles(transfer)));
  byId("open-pictures").addEventListener("click", openPictures);
  byId("request").addEventListener("submit", (event) => {
    event.preventDefault();
    askFor(byId("words").value.trim());
  });
  byId("error-close").addEventListener("click", () => store.set({ error: null }));
  byId("token-form").addEventListener("submit", () => {
    api.keepToken(byId("token-text").value.trim());
    begin();
  });
  store.view(showState);
}

function showState(state) {
  document.body.dataset.phase = state.phase;
  document.body.dataset.state = state.busy ? "busy" : state.phase;
  byId("busy").hidden = state.busy === null;
  byId("busy-text").textContent = state.busy ?? "";
  byId("gone").hidden = !state.gone;
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
    report(problem);
    return;
  }
  const wanted = new URLSearchParams(location.search);
  const example = store.state.examples.find((each) => each.name === wanted.get("example"));
  if (!example || store.state.scene || !(await openExample(example))) return;
  const tau = Number(wanted.get("tau"));
  if (wanted.has("tau") && tau >= 0 && tau <= 1) store.set({ tau });
  const target = Number(wanted.get("target"));
  if (store.state.scene.objects.some((each) => each.id === target)) choose(target);
}

mount();
begin();
