// Following a run: its events, read from a stream that may break off, and its pictures.

import { call, GoneError, ServiceError } from "./api.js";

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 5000;
const SILENCE_MS = 30000; // the service gives a sign of life every 10 s

const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));

/** The blocks of a server-sent stream, as { id, data }. */
async function* blocks(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const found = { id: null, data: "" };
      for (const line of part.split("\n")) {
        if (line.startsWith("id: ")) found.id = line.slice(4);
        else if (line.startsWith("data: ")) found.data += line.slice(6);
      }
      if (found.data) yield found;
    }
  }
}

/** Follow a run until it is over: hears(event), tells connected(whether). Returns a function that ends it. */
export function follow(runId, { hear, connected, lost }) {
  const ending = new AbortController();
  let last = null;
  let over = false;

  async function once() {
    const silence = new AbortController();
    let timer = null;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
    };
    alive();
    try {
      const headers = last === null ? {} : { "Last-Event-ID": last };
      const reply = await call(`/v1/runs/${encodeURIComponent(runId)}/events`, {
        headers,
        signal: AbortSignal.any([ending.signal, silence.signal]),
      });
      if (reply.status === 204) {
        over = true;
        return;
      }
      connected(true);
      for await (const { id, data } of blocks(reply.body, alive)) {
        last = id ?? last;
        const event = JSON.parse(data);
        if (event.run && (event.run.state === "ended" || event.run.state === "failed")) over = true;
        hear(event);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  (async () => {
    let wait = FIRST_WAIT_MS;
    while (!over && !ending.signal.aborted) {
      const before = last;
      try {
        await once();
      } catch (problem) {
        if (ending.signal.aborted) return;
        if (problem instanceof ServiceError && problem.status < 500 && problem.status !== 429) {
          lost(problem);
          return;
        }
        if (!(problem instanceof ServiceError || problem instanceof GoneError || problem.name === "AbortError" || problem.name === "TypeError")) {
          throw problem;
        }
      }
      if (over || ending.signal.aborted) return;
      connected(false);
      wait = last !== before ? FIRST_WAIT_MS : Math.min(2 * wait, LONGEST_WAIT_MS);
      await pause(wait);
    }
  })();
  return () => ending.abort();
}

/** Draws the newest picture it was given on a canvas; one that comes while another loads waits, older ones go. */
export class Screen {
  #canvas;
  #wanted = null;
  #shown = null;
  #busy = false;

  constructor(canvas) {
    this.#canvas = canvas;
  }

  async show(path) {
    this.#wanted = path;
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#wanted !== this.#shown) {
        const next = this.#wanted;
        await this.#draw(next);
        this.#shown = next;
      }
    } finally {
      this.#busy = false;
    }
  }

  async #draw(path) {
    let picture;
    try {
      picture = await createImageBitmap(await (await call(path)).blob());
    } catch (problem) {
      if (problem instanceof ServiceError || problem instanceof GoneError) return; // not kept any more
      throw problem;
    }
    this.#canvas.width = picture.width;
    this.#canvas.height = picture.height;
    this.#canvas.parentElement.style.setProperty("--shape", String(picture.width / picture.height));
    this.#canvas.getContext("2d").drawImage(picture, 0, 0);
    this.#canvas.dataset.picture = path;
    picture.close();
  }
}
