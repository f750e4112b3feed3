// Limits the duration of an action. An asynchronous action gets a signal that aborts at the
// deadline; if the action ignores the signal, its caller continues anyway. Synchronous code from
// outside (a chat template, a regular expression) is interrupted by Node's `vm`, which does not
// serve as a sandbox here. Signals are composed by hand, because `AbortSignal.any` leaks memory on
// long-lived signals in Node 20.

import { type Clock, systemClock } from "./clock.ts";
import { type Steps, takeSteps } from "./steps.ts";

/**
 * One listener per signal, shared by all its calls: a run has one signal and thousands of calls,
 * Node reports eleven listeners as a leak, and removing a listener searches all of them.
 */
const subscribers = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls back when the signal aborts (at once if it has already), until the returned function is
 * called.
 */
export function subscribeToAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal?.aborted) callback();
  if (signal === undefined || signal.aborted) return () => undefined;
  let callbacks = subscribers.get(signal);
  if (callbacks === undefined) {
    const fresh = new Set<() => void>();
    callbacks = fresh;
    subscribers.set(signal, fresh);
    signal.addEventListener(
      "abort",
      () => {
        for (const call of fresh) call();
      },
      { once: true },
    );
  }
  const joined = callbacks;
  joined.add(callback);
  return () => void joined.delete(callback);
}

/** The deadline was exceeded. */
export class DeadlineError extends Error {
  readonly timeoutMs: number;

  constructor(timeoutMs: number) {
    super(`Time is up: ${timeoutMs} ms have passed.`);
    this.name = "DeadlineError";
    this.timeoutMs = timeoutMs;
  }
}

/**
 * Runs actions one after another, each with a deadline. They share one signal until it is aborted,
 * because a new signal for every action would cost more than a small action. Actions must not
 * overlap.
 */
export class DeadlineRunner {
  readonly #clock: Clock;
  readonly #signal: AbortSignal | undefined;
  #controller = new AbortController();

  constructor(options: { readonly clock?: Clock; readonly signal?: AbortSignal | undefined } = {}) {
    this.#clock = options.clock ?? systemClock;
    this.#signal = options.signal;
  }

  /**
   * Settles like the action, or rejects with a `DeadlineError` after `timeoutMs` (`Infinity`:
   * never), or with the reason of the signal. Anything the action does after that is ignored.
   */
  async run<T>(action: (signal: AbortSignal) => Promise<T>, timeoutMs: number): Promise<T> {
    const signal = this.#signal;
    signal?.throwIfAborted();
    if (this.#controller.signal.aborted) this.#controller = new AbortController();
    const controller = this.#controller;
    let cancel: (() => void) | null = null;
    let leave: (() => void) | null = null;
    try {
      return await new Promise<T>((resolve, reject) => {
        const end = (reason: Error): void => {
          controller.abort(reason);
          reject(reason);
        };
        if (timeoutMs !== Infinity) cancel = this.#clock.after(timeoutMs, () => end(new DeadlineError(timeoutMs)));
        if (signal !== undefined) leave = subscribeToAbort(signal, () => end(signal.reason as Error));
        action(controller.signal).then(resolve, reject);
      });
    } finally {
      (cancel as (() => void) | null)?.();
      (leave as (() => void) | null)?.();
    }
  }
}

/** Runs one action with a deadline, like {@link DeadlineRunner.run}. */
export function withDeadline<T>(
  action: (signal: AbortSignal) => Promise<T>,
  options: { readonly timeoutMs: number; readonly clock?: Clock; readonly signal?: AbortSignal | undefined },
): Promise<T> {
  return new DeadlineRunner(options).run(action, options.timeoutMs);
}

/** The work exceeded its time limit; the data that it was changing must not be used again. */
export class TimeLimitError extends Error {}

type Bounded = {
  readonly script: { runInContext(context: object, options: { readonly timeout: number }): unknown };
  readonly context: object;
};

let current: () => void = () => undefined;
let bounded: Bounded | null = null;

/**
 * Returns or throws the result of `work`; throws a {@link TimeLimitError} if it takes more than
 * `timeoutMs`. Each call starts a watchdog thread. V8 can be interrupted anywhere in JavaScript,
 * even in the middle of a backtracking match. Without Node, in a browser, the work runs unbounded:
 * a page has its own watchdog.
 */
export function runBounded<T>(work: () => T, timeoutMs: number): T {
  bounded ??= createBounded();
  if (bounded === null) return work();
  const results: T[] = [];
  const outer = current;
  current = () => {
    results.push(work());
  };
  try {
    bounded.script.runInContext(bounded.context, { timeout: timeoutMs });
  } catch (error) {
    if (isTimeout(error)) throw new TimeLimitError(`It takes more than ${timeoutMs} ms.`, { cause: error });
    throw error;
  } finally {
    current = outer;
  }
  return results[0]!;
}

/**
 * Duration in milliseconds for which steps run under one watchdog: starting it costs a fiftieth of
 * that.
 */
const watchedMs = 5;

/**
 * The same steps; they throw a {@link TimeLimitError} once they have taken more than `timeoutMs` in
 * total, pauses not counted.
 */
export function* withinTime<T>(steps: Steps<T>, timeoutMs: number): Steps<T> {
  for (let left = timeoutMs; left > 0;) {
    const start = performance.now();
    const step = runBounded(() => takeSteps(steps, watchedMs), Math.ceil(left));
    if (step.done === true) return step.value;
    left -= performance.now() - start;
    yield;
  }
  throw new TimeLimitError(`It takes more than ${timeoutMs} ms.`);
}

function createBounded(): Bounded | null {
  const vm = (globalThis as { readonly process?: NodeJS.Process }).process?.getBuiltinModule?.("node:vm");
  if (vm === undefined) return null;
  return { script: new vm.Script("run()"), context: vm.createContext({ run: () => current() }) };
}

/** Checks the name, because the error belongs to the class of the other context, not to ours. */
function isTimeout(error: unknown): boolean {
  return (
    typeof error === "object" && error !== null && "code" in error && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT"
  );
}

export class Waiters {
  readonly #waiting = new Set<() => void>();

  /** Resolves at the next {@link wake}; rejects with the signal's reason when it aborts first. */
  wait(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const onAbort = (): void => {
        this.#waiting.delete(proceed);
        reject(signal?.reason as Error);
      };
      const proceed = (): void => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      };
      this.#waiting.add(proceed);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** Wakes all waiters in the order of arrival. */
  wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const proceed of waiting) proceed();
  }
}
