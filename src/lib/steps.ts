// Long computations in steps, so that everything else of the process is served between them: what a client sends may be a hundred
// thousand times as long as usual, and while one function runs, no other request, timer or signal is. The same generator serves both
// ways: at once (`finish`) where the input is the process's own, in turns with the event loop (`takeTurns`) where it is not.

/** A computation that pauses after each step. A step takes about a millisecond or less; the last one returns the result. */
export type Steps<T> = Generator<void, T, void>;

/** All steps at once. */
export function finish<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** How long steps run before the event loop has a turn, in milliseconds. A request of others takes about ten turns. */
const sliceMs = 5;

type Job = {
  /** Runs steps for a while; true once it has ended. */
  readonly run: () => boolean;
};

/** Those that wait for their next slice. All of them share one slice a turn, so that many cost others no more than one does. */
const waiting: Job[] = [];
let isScheduled = false;

/**
 * The result, with the event loop served every few milliseconds. The first slice runs at once, so that a small computation is over
 * when this returns. Rejects with what a step throws, or with the signal's reason; then no further step is taken.
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

/** Steps until they have ended, or the time is up. At least one is taken. */
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

/** Items of a list that are taken in one step where each is small. */
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
