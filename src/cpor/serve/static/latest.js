// Requests that follow a moving hand: at most one more start a frame, few under way, and the latest wins.

/**
 * Runs `task(input, signal)` for the newest input only and hands its result to `done`; replies that come after a
 * newer one was shown are dropped.
 */
export class Latest {
  #task;
  #done;
  #failed;
  #most;
  #number = 0;
  #shown = 0;
  #underWay = 0;
  #waiting = null;
  #scheduled = false;
  #abort = new AbortController();

  constructor(task, done, failed, most = 2) {
    this.#task = task;
    this.#done = done;
    this.#failed = failed;
    this.#most = most;
  }

  /** Ask for this input: at once where nothing is under way, else at the next frame; one that waits is forgotten. */
  push(input) {
    this.#waiting = { input };
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (this.#underWay === 0) this.#start();
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#start();
    });
  }

  /** Whatever is under way or waits no longer matters; tasks that heed their signal end. */
  forget() {
    this.#waiting = null;
    this.#shown = this.#number;
    this.#abort.abort();
    this.#abort = new AbortController();
  }

  async #start() {
    if (this.#waiting === null || this.#underWay >= this.#most) return;
    const { input } = this.#waiting;
    this.#waiting = null;
    const number = ++this.#number;
    this.#underWay++;
    try {
      const result = await this.#task(input, this.#abort.signal);
      if (number > this.#shown) {
        this.#shown = number;
        this.#done(result, input);
      }
    } catch (problem) {
      if (number > this.#shown) {
        this.#shown = number;
        this.#failed(problem);
      }
    } finally {
      this.#underWay--;
      this.#start();
    }
  }
}

/** Call `act` once things have been quiet for a while; its `cancel` forgets a call that waits. */
export function debounced(act, quietMs) {
  let timer = 0;
  const later = (...inputs) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...inputs), quietMs);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}
