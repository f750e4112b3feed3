// The disk below a store: a refused write is kept and repeated, from the byte where it stopped,
// until it succeeds or its time runs out. So nothing is lost and nothing is written twice while a
// disk is full. Not the files themselves (`lines.ts`), and not the behaviour of callers in the
// meantime: they wait, or ask `fault`.
//
//   written ◄── succeeds ── refused ─┬─ for want of room ─► again, for `waitMs` ─► final: every later call rejects with it
//                                    └─ otherwise ────────► the same with `waitsForAll`, else final at once

import { messageOf } from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { Waiters } from "../lib/deadline.ts";
import { isOutOfSpace, remedyOf, systemCode } from "../lib/system-error.ts";

/** The fault that currently makes the disk refuse writes. */
export type DiskFault = {
  /** The system's code, such as "ENOSPC"; `null` if it has none. */
  readonly code: string | null;
  /** Message for people, with the remedy. */
  readonly message: string;
};

export type DiskPatience = {
  /**
   * Time that a write waits for room, in milliseconds; `Infinity`: until `giveUp`. Default 0: only
   * one attempt.
   */
  readonly waitMs?: number;
  /** True: writes wait as long for every fault, such as a read-only file system. Default: false. */
  readonly waitsForAll?: boolean;
};

/** Delay between two attempts: the first, and the longest. */
const firstRestMs = 50;
const longestRestMs = 1000;
/** Longest wait of {@link Disk.retry}, since a network disk may never answer. */
const longestTryMs = 1000;

export class Disk {
  readonly #location: string;
  readonly #waitMs: number;
  readonly #waitsForAll: boolean;
  readonly #clock: Clock;
  /** Waiting writes, and the disk's last error for each. */
  readonly #held = new Map<object, unknown>();
  readonly #resting = new Waiters();
  readonly #tried = new Waiters();
  readonly #listeners = new Set<() => void>();
  #final: { readonly error: unknown } | null = null;
  #isGivenUp = false;

  /** `location`: name of the place in messages. */
  constructor(location: string, options: DiskPatience & { readonly clock?: Clock } = {}) {
    this.#location = location;
    this.#waitMs = options.waitMs ?? 0;
    this.#waitsForAll = options.waitsForAll ?? false;
    this.#clock = options.clock ?? systemClock;
  }

  /** The current fault; `null` if no write is waiting. */
  get fault(): DiskFault | null {
    const [waiting] = this.#held.values();
    const error = this.#final === null ? waiting : this.#final.error;
    return error === undefined ? null : { code: systemCode(error), message: diskMessage(this.#location, error) };
  }

  /** True if every further write rejects. */
  get isFinal(): boolean {
    return this.#final !== null;
  }

  /** Calls back when a fault begins and when it ends, until the returned function is called. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Retries waiting writes at once. Resolves with the remaining fault; `null` if there is none. */
  async retry(): Promise<DiskFault | null> {
    // The first attempt to end may have begun before this call, when the disk was still full.
    for (let round = 0; round < 2 && this.#held.size > 0; round++) {
      const tried = this.#tried.wait();
      this.#resting.wake();
      let cancel = (): void => undefined;
      await Promise.race([tried, new Promise<void>((end) => (cancel = this.#clock.after(longestTryMs, end)))]);
      cancel();
    }
    return this.fault;
  }

  /** Stops all waiting: waiting writes reject with their fault, and so does every later write. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#resting.wake();
  }

  /**
   * Ends every wait with a fault that no further attempt can fix, such as data that the system has
   * lost.
   */
  fail(error: unknown): void {
    if (this.#final !== null) return;
    this.#final = { error };
    this.#resting.wake();
    this.#tell();
  }

  /**
   * Repeats a write until it succeeds. `attempt` continues where its last call stopped. Rejects
   * with the error of the system once the disk's patience ends; then every later call rejects with
   * the same error.
   */
  async repeat<T>(attempt: () => Promise<T>): Promise<T> {
    const own = {};
    let restMs = firstRestMs;
    let since: number | null = null;
    try {
      for (;;) {
        if (this.#final !== null) throw this.#final.error;
        try {
          const result = await attempt();
          this.#release(own);
          return result;
        } catch (error) {
          if (this.#waitMs === 0 || systemCode(error) === null) throw error;
          since ??= this.#clock.now();
          const isOver = this.#isGivenUp || this.#clock.now() - since >= this.#waitMs;
          if (isOver || !(this.#waitsForAll || isOutOfSpace(error))) {
            this.fail(error);
            throw error;
          }
          const isFirst = this.#held.size === 0;
          this.#held.set(own, error);
          if (isFirst) this.#tell();
          this.#tried.wake();
          await this.#rest(restMs);
          restMs = Math.min(2 * restMs, longestRestMs);
        }
      }
    } finally {
      this.#release(own);
    }
  }

  #release(own: object): void {
    if (!this.#held.delete(own)) return;
    this.#tried.wake();
    if (this.#held.size === 0 && this.#final === null) this.#tell();
  }

  async #rest(ms: number): Promise<void> {
    if (this.#isGivenUp || this.#final !== null) return;
    let cancel = (): void => undefined;
    await Promise.race([this.#resting.wait(), new Promise<void>((end) => (cancel = this.#clock.after(ms, end)))]);
    cancel();
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Message with the remedy, where one is known. */
function diskMessage(location: string, error: unknown): string {
  const remedy = remedyOf(error);
  return `Cannot write into "${location}": ${messageOf(error)}${remedy === null ? "" : `; ${remedy}`}.`;
}
