// Long computations in steps, so that the event loop is served in between: data from a client may
// be a hundred thousand times larger than usual, and while one function runs, the process serves no
// other request, timer or signal. The same generator supports both modes: at once (`finish`) for
// the process's own data, in turns with the event loop (`takeTurns`) for data from outside.

/**
 * A computation that pauses after each step. A step takes about a millisecond or less; the last one
 * returns the result.
 */
export type Steps<T> = Generator<void, T, void>;

/** Runs all steps at once. */
export function finish<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/**
 * Duration in milliseconds for which steps run before the event loop gets a turn. Another request
 * takes about ten turns.
 */
const sliceMs = 5;

type Job = {
  /** Runs steps for a while; returns true once they have ended. */
  readonly run: () => boolean;
};

/**
 * Jobs that wait for their next slice. They share one slice per turn, so that many delay others no
 * more than one does.
 */
const waiting: Job[] = [];
let isScheduled = false;

/**
 * The result, computed while the event loop is served every few milliseconds. The first slice runs
 * at once, so that a small computation is done when this returns. Rejects with the error of a step,
 * or with the signal's reason; no further step runs after that.
 */
export function takeTurns<T>(steps: Steps<T>, signal?: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const run = (): boolean => {
      try {
        signal?.throwIfAborted();
        const step = takeSteps(steps, sliceMs);
        if (step.done !== true) return false;
        resolve(step.value);
      } catch (error) {
        // oxlint-disable-next-line prefer-promise-reject-errors -- as it was thrown
        reject(error);
      }
      return true;
    };
    if (run()) return;
    waiting.push({ run });
    schedule();
  });
}

/** Runs steps until they have ended or the time is up, but at least one. */
export function takeSteps<T>(steps: Steps<T>, milliseconds: number): IteratorResult<void, T> {
  const end = performance.now() + milliseconds;
  for (;;) {
    const step = steps.next();
    if (step.done === true || performance.now() >= end) return step;
  }
}

function schedule(): void {
  if (isScheduled || waiting.length === 0) return;
  isScheduled = true;
  setImmediate(() => {
    isScheduled = false;
    const job = waiting.shift()!;
    if (!job.run()) waiting.push(job);
    schedule();
  });
}

/** Number of list items per step, if each is small. */
export const stepItems = 512;

/** `list.map(change)`, in steps. */
export function* mapInSteps<T, U>(list: readonly T[], change: (item: T, place: number) => U): Steps<U[]> {
  const changed: U[] = [];
  for (const [place, item] of list.entries()) {
    changed.push(change(item, place));
    if (place % stepItems === stepItems - 1) yield;
  }
  return changed;
}
