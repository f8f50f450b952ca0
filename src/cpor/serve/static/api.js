// All talk with the service. Every failure becomes a ServiceError (it answered, and said what is wrong)
// or a GoneError (it did not answer).

export class ServiceError extends Error {
  constructor(status, code, message, retryAfter = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

export class GoneError extends Error {}

export async function call(path, options = {}) {
  let reply;
  try {
    reply = await fetch(path, { ...options, cache: "no-store" });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new GoneError("The service does not answer.");
  }
  return reply.ok ? reply : refused(reply, reply.headers.get("Retry-After"));
}

/** Throw what a reply says is wrong. */
async function refused(reply, retryAfter) {
  let said = null;
  try {
    said = await reply.json();
  } catch {
    // not JSON: something between us and the service answered
  }
  const message = said?.message ?? `The service answered with status ${reply.status}.`;
  throw new ServiceError(reply.status, said?.code ?? "failed", message, retryAfter);
}

export const read = async (path, options) => (await call(path, options)).json();
export const post = (path, body, signal) =>
  read(
    path,
    { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal },
  );
const name = encodeURIComponent;
const blob = async (path, options) => (await call(path, options)).blob();
const postForBlob = (path, body) =>
  blob(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export const health = () => read("/healthz");
export const examples = () => read("/v1/examples");
export const examplePicture = (example) => blob(`/v1/examples/${name(example)}/rgb.png`);
export const smallExample = (example) => blob(`/v1/examples/${name(example)}/small.jpg`);
export const openExample = (example, givenMasks) =>
  read(`/v1/examples/${name(example)}${givenMasks ? "?masks=given" : ""}`, { method: "POST" });
export const decideScene = async (scene, request) => forPage(await post(`/v1/scenes/${name(scene)}/decide`, request));
export const openScene = (scene) => read(`/v1/scenes/${name(scene)}`);
export const scenePicture = (scene) => blob(`/v1/scenes/${name(scene)}/rgb.png`);
export const scenePoints = (scene) => call(`/v1/scenes/${name(scene)}/points`);
export const forgetScene = (scene) => call(`/v1/scenes/${name(scene)}`, { method: "DELETE" });
export const correct = async (scene, request) => (await post(`/v1/scenes/${name(scene)}/corrections`, request)).scene;
export const saveScene = (scene, relations) => postForBlob(`/v1/scenes/${name(scene)}/folder.zip`, { relations });
export const decisionFile = (scene, kind, request) => postForBlob(`/v1/scenes/${name(scene)}/decision.${kind}`, request);
export const cameraView = () => blob("/v1/camera/view.jpg");
export const lookNow = () => read("/v1/camera/look", { method: "POST" });
export const openapi = () => read("/openapi.json");
export const queue = (what, body = {}) => post(`/v1/queue/${what}`, body);
export const plan = (request, signal) => post("/v1/plan", request, signal);

const CERTIFIED = ["exact", "action", "defer"];
const UNSEEN = 0; // the number of what nobody segmented: it has no place in the picture, and nobody can remove it
const NOT_SEEN = "something that is not seen";

/**
 * An answer as the page draws it: its words on top, and scores as a list, the best first, each with the interval
 * that holds it. An answer that asks back has no scores.
 */
export function forPage(said) {
  if (!said || said.action === null) return said;
  const { certificate, target, scores, edges, top_graphs: graphs, words } = said;
  const known = said.score_ranges ?? said.score_bounds;
  const around = (score) => [Math.max(0, score - certificate.epsilon), Math.min(1, score + certificate.epsilon)];
  const seen = Object.entries(scores).filter(([id]) => Number(id) !== UNSEEN);
  const ranked = seen.map(([id, score]) => {
    const [low, high] = known?.[id] ?? around(score);
    return { object: Number(id), score: Math.min(Math.max(score, 0), 1), low, high };
  });
  ranked.sort((a, b) => b.score - a.score || (b.object === target) - (a.object === target));
  const certified = CERTIFIED.includes(certificate.kind);
  const relations = edges.filter((each) => each.blocker !== UNSEEN);
  const unseen = edges.filter((each) => each.blocker === UNSEEN);
  const proof = { ...certificate, certified };
  return { ...said, raw: said, ...words, scores: ranked, relations, unseen, graphs, certificate: proof };
}

/** The probabilities of an answer as `explain` and `plan` take them; what is not seen goes by a name. */
export function probabilitiesOf(scene, { target, tau, relations, unseen }) {
  const objects = scene.objects.map((each) => each.id);
  if (unseen.length > 0) objects.push(NOT_SEEN);
  const given = [...relations, ...unseen.map((each) => ({ ...each, blocker: NOT_SEEN }))];
  const pairs = given.map(({ blocked, blocker, p }) => ({ blocked, blocker, p }));
  return { objects, target, tau, relations: pairs, unseen: unseen.length > 0 ? NOT_SEEN : null };
}

/** What would change the decision, as the page draws it: what is not seen can only be asked about. */
export async function explain(request, signal) {
  const said = await post("/v1/explain", request, signal);
  const effects = said.effects.filter((each) => each.blocker !== NOT_SEEN);
  const ask = said.ask_next?.blocker === NOT_SEEN ? null : said.ask_next;
  return { ...said, effects, ask_next: ask };
}

const TEXTS = ["camera", "objects", "scores", "sources"];

/** Send a scene; `files` maps rgb, depth, instances, amodal and the JSON files of a scene folder to File. */
export async function sendScene(files, onSent = () => {}) {
  const form = new FormData();
  for (const part of ["rgb", "depth", "instances", "amodal"]) {
    if (files[part]) form.append(part, files[part], files[part].name);
  }
  for (const part of TEXTS) {
    const goesWithMasks = part !== "camera";
    if (files[part] && (files.instances || !goesWithMasks)) form.append(part, await files[part].text());
  }
  return sendForm("/v1/scenes", form, onSent);
}

/** Post a form; `onSent` is told the share of it that has left, which `fetch` cannot say. */
function sendForm(path, form, onSent) {
  if (!globalThis.XMLHttpRequest) return read(path, { method: "POST", body: form }); // a recorded page has none
  return new Promise((found, failed) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.upload.addEventListener("progress", ({ loaded, total }) => onSent(total ? loaded / total : 0));
    request.upload.addEventListener("load", () => onSent(1));
    request.addEventListener("error", () => failed(new GoneError("The service does not answer.")));
    request.addEventListener("load", () => {
      const reply = new Response(request.responseText, { status: request.status });
      const wait = request.getResponseHeader("Retry-After");
      (reply.ok ? reply.json() : refused(reply, wait)).then(found, failed);
    });
    request.send(form);
  });
}
