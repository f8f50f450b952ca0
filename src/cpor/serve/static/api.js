// All talk with the service. Every failure becomes a ServiceError (it answered, and said what is wrong)
// or a GoneError (it did not answer).

const TOKEN = "cpor-token";

export class ServiceError extends Error {
  constructor(status, code, message, retryAfter = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

export class GoneError extends Error {}

function token() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

export function keepToken(text) {
  try {
    sessionStorage.setItem(TOKEN, text);
  } catch {
    // without storage it is asked for again
  }
}

export async function call(path, options = {}) {
  const headers = new Headers(options.headers);
  if (token()) headers.set("Authorization", `Bearer ${token()}`);
  let reply;
  try {
    reply = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new GoneError("The service does not answer.");
  }
  if (reply.ok) return reply;
  let said = null;
  try {
    said = await reply.json();
  } catch {
    // not JSON: something between us and the service answered
  }
  const message = said?.message ?? `The service answered with status ${reply.status}.`;
  throw new ServiceError(reply.status, said?.code ?? "failed", message, reply.headers.get("Retry-After"));
}

export const read = async (path, options) => (await call(path, options)).json();
export const post = (path, body, signal) =>
  read(
    path,
    { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal },
  );
const name = encodeURIComponent;

export const health = () => read("/healthz");
export const examples = () => read("/v1/examples");
export const examplePicture = async (example) => (await call(`/v1/examples/${name(example)}/rgb.png`)).blob();
export const openExample = (example, givenMasks) =>
  read(`/v1/examples/${name(example)}${givenMasks ? "?masks=given" : ""}`, { method: "POST" });
export const decide = (request) => post("/v1/decide", request);
export const explain = (request, signal) => post("/v1/explain", request, signal);
export const plan = (request, signal) => post("/v1/plan", request, signal);
export const ground = (scene, words) => post(`/v1/scenes/${name(scene)}/ground`, { words });

/** Send a scene; `files` maps rgb, depth, camera, instances, amodal to File. */
export async function sendScene(files) {
  const form = new FormData();
  for (const part of ["rgb", "depth", "instances", "amodal"]) {
    if (files[part]) form.append(part, files[part], files[part].name);
  }
  if (files.camera) form.append("camera", await files.camera.text());
  return read("/v1/scenes", { method: "POST", body: form });
}
