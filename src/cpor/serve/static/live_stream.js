// Following a run: its events, from a stream that the browser opens again, and its pictures.

import { call, GoneError, read, ServiceError } from "./api.js";

const AGAIN_MS = 1000;
const LOOK_MS = 10000; // a connection that broke without a word is noticed this late

/** Follow a run until it is over. Returns a function that ends it. */
export function follow(runId, { hear, connected, lost }) {
  const path = `/v1/runs/${encodeURIComponent(runId)}`;
  let stream = null;
  let isOver = false;
  const end = () => {
    isOver = true;
    stream.close();
    clearInterval(looking);
  };

  function open() {
    stream = new EventSource(`${path}/events`);
    stream.onopen = () => connected(true);
    stream.onmessage = ({ data }) => take(JSON.parse(data));
    stream.onerror = () => {
      connected(false);
      if (stream.readyState === EventSource.CLOSED) refused(); // else the browser tries again
    };
  }

  function take(event) {
    if (event.run && ["ended", "failed"].includes(event.run.state)) end();
    hear(event);
  }

  /** The stream was not given: the run is over or gone, or the service is busy. */
  async function refused() {
    try {
      take({ run: await read(path) });
    } catch (problem) {
      if (problem instanceof ServiceError && problem.status < 500 && problem.status !== 429) {
        end();
        return lost(problem);
      }
    }
    setTimeout(() => isOver || open(), AGAIN_MS);
  }

  const looking = setInterval(() => {
    read(path, { signal: AbortSignal.timeout(LOOK_MS / 2) }).catch(() => connected(false));
  }, LOOK_MS);
  open();
  return end;
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
