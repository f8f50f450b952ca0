// The live page: begin a run of the simulated arm, follow it, steer it.

import { forPage, GoneError, health, post, read, ServiceError } from "./api.js";
import { byId, el, keepingFocus, show } from "./dom.js";
import { askForToken } from "./token.js";
import { follow, Screen } from "./live_stream.js";
import { drawBars, drawHits, drawOutcome, drawSteps, drawVerdict, nameOf } from "./live_view.js";

const FORM = "cpor-live-form";
const OVER = new Set(["ended", "failed"]);
const ENDS = {
  unconfirmed: "the robot says that it delivered it, and no look proves it",
  budget: "the allowed number of actions is spent",
  deferred: "it was unsure too often, and nobody told it what to do",
  stopped: "it was stopped",
  fault: "the robot or its camera failed",
  target_lost: "it is not to be seen any more",
  empty: "nothing is left to be seen",
};

const film = new Screen(byId("film"));
const heap = new Screen(byId("heap-picture"));
let run = null;
let cycles = new Map();
let looksAt = null; // the step looked at; null: the newest
let wish = null; // the object asked for instead, until the run has turned to it
let order = null; // what was told to the arm and not done yet: "pause"
let heard = 0; // how often the stream said how the run stands
let isConnected = true;
let hasSimulator = true;
let leave = () => {};

const isLive = () => run !== null && !OVER.has(run.state);
const newest = () => [...cycles.values()].at(-1) ?? null;
const shown = () => (looksAt !== null && cycles.get(looksAt)) || newest();

function complain(problem) {
  const box = byId("problem");
  box.hidden = problem === null;
  box.textContent = problem ?? "";
}

/** Run something that talks to the service; what goes wrong is shown. */
async function trying(work) {
  try {
    const done = await work();
    complain(null);
    return done;
  } catch (problem) {
    if (problem instanceof ServiceError && problem.status === 401) {
      askForToken(async () => goOn(await trying(work)));
    } else if (problem instanceof ServiceError || problem instanceof GoneError) {
      complain(problem.message);
    } else {
      throw problem;
    }
    return null;
  }
}

/** Fill the form as it was when the run of this tab began: a reload must not show another; whether there was one. */
function fillForm() {
  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem(FORM));
  } catch {
    // without storage the form begins as it is
  }
  if (kept === null || typeof kept !== "object") return false;
  for (const name of ["tier", "seed", "eyes", "mode", "speed"]) {
    byId(name).value = String(kept[name]);
    if (byId(name).selectedIndex === -1) byId(name).selectedIndex = 0;
  }
  byId("paused").checked = kept.paused === true;
  return true;
}

function keepForm(request) {
  try {
    sessionStorage.setItem(FORM, JSON.stringify(request));
  } catch {
    // without storage the form begins as it is
  }
}

async function begin() {
  const request = {
    tier: byId("tier").value,
    seed: Number(byId("seed").value),
    eyes: byId("eyes").value,
    mode: byId("mode").value,
    speed: Number(byId("speed").value),
    paused: byId("paused").checked,
  };
  const begun = await trying(() => post("/v1/runs", request));
  if (!begun) return offerRuns();
  keepForm(request);
  watch(begun);
}

/** Runs that go on although this tab did not begin them: rejoin one, or stop it. */
async function offerRuns(except = null) {
  let active = [];
  try {
    active = await read("/v1/runs");
  } catch {
    // whatever is wrong is said of what was asked for, not of this
  }
  show(byId("active"), active.filter((each) => each.run_id !== except).map((each) => {
    const what = each.target_name ? `fetching ${each.target_name}` : "just begun";
    return el("p", { class: "active-run" }, `A run goes on: ${what}, step ${each.cycle + 1}. `,
      el("button", { type: "button", class: "primary", "data-testid": "rejoin", onclick: () => watch(each) }, "Rejoin"), " ",
      el("button", { type: "button", "data-testid": "stop-other", onclick: () => stopOther(each) }, "Stop it"));
  }));
}

async function stopOther({ run_id: id }) {
  const told = await trying(() => post(`/v1/runs/${encodeURIComponent(id)}/control`, { do: "stop" }));
  await offerRuns(told && id); // it ends in a moment
}

/** Watch the run that a call answered once the token was given. */
function goOn(done) {
  if (done?.run_id && !cycles.size) watch(done);
}

function watch(begun) {
  byId("active").replaceChildren();
  leave();
  run = begun;
  cycles = new Map();
  looksAt = wish = order = null;
  history.replaceState(null, "", `#run=${begun.run_id}`);
  leave = follow(begun.run_id, {
    hear,
    connected: (whether) => {
      isConnected = whether;
      drawState();
    },
    lost: (problem) => {
      if (problem.status === 401) {
        askForToken(async () => goOn(await trying(() => read(`/v1/runs/${encodeURIComponent(begun.run_id)}`))));
        return;
      }
      run = run === null || run.state === "preparing" ? null : { ...run, state: "failed", detail: problem.message };
      complain(problem.message);
      history.replaceState(null, "", location.pathname);
      draw();
    },
  });
  draw();
}

function hear(event) {
  if (event.film) {
    film.show(event.film.picture);
    return;
  }
  if (event.cycle) {
    const before = newest();
    const cycle = { ...event.cycle, decision: forPage(event.cycle.decision) };
    cycles.set(cycle.index, cycle);
    if (cycle.retargeted || (before && cycle.index > before.index && wish === cycle.target)) wish = null;
    if (looksAt === cycle.index - 1 && newest() === cycle) looksAt = null; // it goes on: follow it
  }
  if (event.run) {
    run = event.run;
    heard += 1;
    if (run.state !== "running") order = null;
    if (OVER.has(run.state)) wish = null;
  }
  draw();
}

async function control(told) {
  if (!isLive()) return;
  // The arm ends its action first: until then the page must say that it was heard.
  order = told.do === "pause" ? "pause" : told.do === "retarget" ? order : null;
  drawState();
  const before = heard;
  const reply = await trying(() => post(`/v1/runs/${encodeURIComponent(run.run_id)}/control`, told));
  if (!reply) order = null;
  // What the stream said meanwhile is newer than the reply.
  if (reply && reply.run_id === run?.run_id && heard === before && !OVER.has(run.state)) run = reply;
  if (run?.state !== "running") order = null;
  draw();
}

function choose(id) {
  const cycle = newest();
  if (!isLive() || looksAt !== null || !cycle) return;
  if (run.state === "asking") control({ do: "answer", obj: id });
  else if (id !== cycle.target) {
    wish = id;
    control({ do: "retarget", obj: id });
  }
}

const steps = () => [...cycles.values()].filter((each) => each.moment !== "last");
const unsafeSteps = () => steps().filter((each) => each.right === false).length;

function sayState() {
  if (!run) return "No run yet.";
  if (!isConnected && isLive()) return "The connection is lost; trying again …";
  const what = run.target_name ?? "the object";
  const asked = wish !== null && newest() ? ` From the next look on: ${nameOf(newest(), wish)}.` : "";
  switch (run.state) {
    case "preparing": return "Filling a bin with objects …";
    case "running": return `Fetching ${what}: step ${run.cycle + 1}.${order === "pause" ? " It will pause after this action." : ""}${asked}`;
    case "paused": return `Fetching ${what}: waiting before step ${run.cycle + 1}. Press Step or Resume.${asked}`;
    case "asking": return `Fetching ${what}: it is unsure and asks you.`;
    case "failed": return `The run failed: ${run.detail}`;
    default: {
      const many = steps().length;
      const after = `after ${many} ${many === 1 ? "step" : "steps"}`;
      if (run.ended === "retrieved") {
        const unsafe = unsafeSteps();
        if (unsafe === 0) return `✓ Done: retrieved ${what} ${after}.`;
        return `⚠ Retrieved ${what} ${after}, though ${unsafe === 1 ? "one was" : `${unsafe} were`} wrong in truth.`;
      }
      return `✗ Not done: ${what} was not retrieved; ${ENDS[run.ended] ?? run.ended} (${run.detail}).`;
    }
  }
}

function drawState() {
  document.body.dataset.state = run?.state ?? "none";
  document.body.dataset.ended = run?.ended ?? "";
  document.body.dataset.unsafe = String(unsafeSteps() > 0);
  document.body.dataset.connected = String(isConnected);
  const words = sayState();
  if (byId("status").textContent !== words) byId("status").textContent = words;
  const live = isLive();
  byId("pause").disabled = !live || run.state !== "running";
  byId("pause").setAttribute("aria-pressed", String(live && (order === "pause" || run.state === "paused")));
  byId("step").disabled = !live || run.state === "asking" || run.state === "preparing";
  byId("resume").disabled = !live || run.state !== "paused";
  byId("stop").disabled = !live;
  byId("begin").disabled = live || !hasSimulator;
}

const draw = () => keepingFocus(document.body, drawAll);

function drawAll() {
  drawState();
  byId("welcome").hidden = run !== null;
  byId("workplace").hidden = run === null;
  const cycle = shown();
  const canChoose = isLive() && looksAt === null;
  byId("hint").textContent = !canChoose ? (looksAt !== null ? "An earlier step." : "") : run.state === "asking" ? "Click the object that it shall take." : "Click an object to ask for it instead.";
  drawSteps(byId("steps"), [...cycles.values()], cycle?.index ?? null, { look });
  if (!cycle) {
    for (const id of ["verdict", "bars", "outcome", "hits"]) byId(id).replaceChildren();
    byId("verdict").textContent = "It has not looked yet.";
    return;
  }
  const isLast = cycle.moment === "last";
  byId("sees").textContent = isLast ? "The last look" : `What it sees in step ${cycle.index + 1}`;
  byId("heap-picture").setAttribute("aria-label", `The heap from above, ${isLast ? "at the end" : `before step ${cycle.index + 1}`}`);
  drawHits(byId("hits"), cycle, canChoose, { choose });
  heap.show(cycle.picture);
  drawVerdict(byId("verdict"), cycle, run, { answer: (obj) => control({ do: "answer", obj }) });
  drawBars(byId("bars"), cycle, canChoose && run.state !== "asking", { retarget: choose });
  drawOutcome(byId("outcome"), cycle, run);
}

function look(index) {
  looksAt = index === newest()?.index ? null : index;
  draw();
}

function listenForKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input, select, textarea")) return;
    const button = { p: run?.state === "paused" ? "resume" : "pause", s: "step", x: "stop" }[event.key.toLowerCase()];
    if (!button || byId(button).disabled) return;
    event.preventDefault();
    byId(button).click();
  });
}

async function open() {
  byId("start").addEventListener("submit", (event) => {
    event.preventDefault();
    begin();
  });
  for (const each of ["pause", "step", "resume", "stop"]) byId(each).addEventListener("click", () => control({ do: each }));
  listenForKeys();
  let eyesChosen = fillForm();
  byId("eyes").addEventListener("change", () => (eyesChosen = true));
  draw();
  const service = await trying(health);
  if (service && !service.simulator) {
    complain("This service has no simulator, so there is nothing to watch. Install it with: pip install 'cpor-grasp[sim]'");
    hasSimulator = false;
    byId("begin").disabled = true;
  }
  if (service?.perception && !eyesChosen) byId("eyes").value = "networks";
  const known = new URLSearchParams(location.hash.slice(1)).get("run");
  if (!known) await offerRuns();
  else watch({ run_id: known, state: "preparing", cycle: 0, target: null, target_name: null, ended: null, detail: null });
}

open();
