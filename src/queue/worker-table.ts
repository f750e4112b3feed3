// Table of the workers, from their reports, and of the controls that they have obeyed. All queues
// share it.

import { randomUUID } from "node:crypto";
import type { Clock } from "../lib/clock.ts";
import { Waiters } from "../lib/deadline.ts";
import type { Gathered, JobQueue, WorkerReport } from "./job-queue.ts";

type Heard = { readonly report: WorkerReport; readonly at: number };

export class WorkerTable {
  readonly #heard = new Map<string, Heard>();
  readonly #obeyed = new Map<string, Set<string>>();
  readonly #changed = new Waiters();
  readonly #leaseMs: number;
  readonly #clock: Clock;

  constructor(leaseMs: number, clock: Clock) {
    this.#leaseMs = leaseMs;
    this.#clock = clock;
  }

  /** The last report of each worker that has reported within a lease. */
  get present(): readonly WorkerReport[] {
    const now = this.#clock.now();
    for (const [worker, { at }] of this.#heard) if (now - at > this.#leaseMs) this.#heard.delete(worker);
    return [...this.#heard.values()].map(({ report }) => report);
  }

  report(report: WorkerReport): void {
    if (report.phase === "left") this.#heard.delete(report.worker);
    else this.#heard.set(report.worker, { report, at: this.#clock.now() });
    this.#changed.wake();
  }

  /**
   * Removes a worker whose death was detected, and returns its last report; `null` if it is not
   * known, or has left.
   */
  remove(worker: string): WorkerReport | null {
    const { report } = this.#heard.get(worker) ?? {};
    if (report === undefined) return null;
    const left = { ...report, phase: "left", held: 0, callsInFlight: 0 } as const;
    this.report(left);
    return left;
  }

  /** Records that the worker has obeyed the control that was sent as this question. */
  acknowledge(question: string, worker: string): void {
    this.#obeyed.get(question)?.add(worker);
    this.#changed.wake();
  }

  /**
   * Sends a question, and resolves when all workers present at that time have obeyed, left or been
   * silent for a lease, or after the timeout.
   */
  async gather(
    send: (question: string) => Promise<void>,
    { timeoutMs, signal }: Parameters<JobQueue["gather"]>[1],
  ): Promise<Gathered> {
    const question = randomUUID();
    const acknowledged = new Set<string>();
    this.#obeyed.set(question, acknowledged);
    const expected = this.present.map(({ worker }) => worker);
    const deadline = this.#clock.now() + timeoutMs;
    const missing = (): string[] => {
      const present = new Set(this.present.map(({ worker }) => worker));
      return expected.filter((worker) => present.has(worker) && !acknowledged.has(worker));
    };
    try {
      await send(question);
      for (let left = missing(); left.length > 0; left = missing()) {
        signal?.throwIfAborted();
        const now = this.#clock.now();
        if (now >= deadline) return { acknowledged: [...acknowledged], missing: left };
        // Silence causes no event, so the table is checked periodically.
        const lookMs = Math.min(deadline - now, this.#leaseMs / 4);
        const cancel = this.#clock.after(lookMs, () => this.#changed.wake());
        await this.#changed.wait(signal).finally(cancel);
      }
      return { acknowledged: [...acknowledged], missing: [] };
    } finally {
      this.#obeyed.delete(question);
    }
  }
}
