// A queue in this process: the simplest implementation of the contract, and the backend of queues
// whose workers are processes started by this one (`process-pool.ts`). Exists only as long as its
// coordinator.

import type { Clock } from "../lib/clock.ts";
import { systemClock } from "../lib/clock.ts";
import { Waiters } from "../lib/deadline.ts";
import type {
  Control,
  CoordinatorHandlers,
  Job,
  JobQueue,
  Lease,
  Receipt,
  RunState,
  WorkerHandlers,
  WorkerQueue,
  WorkerReport,
} from "./job-queue.ts";
import { WorkerTable } from "./worker-table.ts";

export type MemoryQueueOptions = {
  /** Duration of a lease, in milliseconds. Default: 60,000. */
  readonly leaseMs?: number;
  /** Clock of the leases. Default: the real clock. */
  readonly clock?: Clock;
};

export interface MemoryQueue extends JobQueue {
  /** Connects a worker. */
  connect(handlers: WorkerHandlers): WorkerQueue;
}

export function createMemoryQueue(handlers: CoordinatorHandlers, options: MemoryQueueOptions = {}): MemoryQueue {
  return new LocalQueue(handlers, options);
}

/** A job without a receipt. */
type Entry = { readonly job: Job; deliveries: number };
type Held = { readonly entry: Entry; expiresAt: number };

/** Maximum wait of `take`. */
const longestTakeMs = 30_000;

class LocalQueue implements MemoryQueue {
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly handlers: CoordinatorHandlers;
  readonly table: WorkerTable;
  /** Waiting jobs by episode, oldest first. */
  readonly waiting = new Map<string, Entry>();
  readonly states = new Map<string, RunState>();
  readonly ports = new Set<Port>();
  /** Wakes workers that wait for jobs. */
  readonly added = new Waiters();
  readonly closing = new AbortController();
  #cancelSweep = (): void => undefined;

  constructor(handlers: CoordinatorHandlers, { leaseMs = 60_000, clock = systemClock }: MemoryQueueOptions) {
    this.handlers = handlers;
    this.leaseMs = leaseMs;
    this.clock = clock;
    this.table = new WorkerTable(leaseMs, clock);
    this.#sweep();
  }

  get workers(): readonly WorkerReport[] {
    return this.table.present;
  }

  get closed(): AbortSignal {
    return this.closing.signal;
  }

  connect(handlers: WorkerHandlers): WorkerQueue {
    const port = new Port(this, handlers);
    this.ports.add(port);
    for (const state of this.states.values()) void handlers.onControl({ type: "run", state });
    return port;
  }

  async submit(job: Job): Promise<void> {
    this.waiting.set(keyOf(job), { job, deliveries: 0 });
    this.added.wake();
  }

  async cancel(runId: string, episodeIds: readonly string[]): Promise<readonly string[]> {
    const waited = episodeIds.filter((episodeId) => this.waiting.delete(keyOf({ runId, episodeId })));
    for (const port of this.ports) {
      const held = port.forget(runId, new Set(episodeIds));
      if (held.length > 0) void port.handlers.onControl({ type: "cancel", runId, episodeIds: held });
    }
    return waited;
  }

  async broadcast(control: Control): Promise<void> {
    this.#keep(control);
    for (const { handlers } of this.ports) void handlers.onControl(control);
  }

  gather(control: Control, options: Parameters<JobQueue["gather"]>[1]) {
    return this.table.gather(async (question) => {
      this.#keep(control);
      for (const port of this.ports) {
        void this.#ask(port, control, question);
      }
    }, options);
  }

  async #ask(port: Port, control: Control, question: string): Promise<void> {
    await port.handlers.onControl(control);
    if (port.worker !== null) this.table.acknowledge(question, port.worker);
  }

  async close(): Promise<void> {
    this.#cancelSweep();
    this.closing.abort(new Error("The queue is closed."));
    this.added.wake();
  }

  put(entry: Entry): void {
    if (this.closing.signal.aborted) return;
    // A job that was submitted in the meantime takes precedence.
    const key = keyOf(entry.job);
    if (!this.waiting.has(key)) this.waiting.set(key, entry);
    this.added.wake();
  }

  #keep(control: Control): void {
    if (control.type !== "run") return;
    const { runId, phase } = control.state;
    if (phase === "ended") this.states.delete(runId);
    else this.states.set(runId, control.state);
  }

  #sweep(): void {
    this.#cancelSweep = this.clock.after(this.leaseMs / 4, () => {
      for (const port of this.ports) port.expire();
      this.#sweep();
    });
  }
}

function keyOf({ runId, episodeId }: Pick<Job, "runId" | "episodeId">): string {
  return JSON.stringify([runId, episodeId]);
}

/** One worker's connection. */
class Port implements WorkerQueue {
  readonly handlers: WorkerHandlers;
  /** Name of the worker as it reports it. */
  worker: string | null = null;
  readonly #queue: LocalQueue;
  readonly #held = new Set<Held>();
  readonly #closed = new AbortController();
  readonly closed: AbortSignal;

  constructor(queue: LocalQueue, handlers: WorkerHandlers) {
    this.#queue = queue;
    this.handlers = handlers;
    this.closed = AbortSignal.any([queue.closing.signal, this.#closed.signal]);
  }

  get leaseMs(): number {
    return this.#queue.leaseMs;
  }

  async take(most: number, { signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<readonly Lease[]> {
    const { waiting, added, clock } = this.#queue;
    const until = clock.now() + longestTakeMs;
    const ends = (): boolean => this.closed.aborted || signal?.aborted === true || clock.now() >= until;
    while (waiting.size === 0 && !ends()) {
      const wake = (): void => added.wake();
      const cancel = clock.after(until - clock.now(), wake);
      signal?.addEventListener("abort", wake, { once: true });
      this.closed.addEventListener("abort", wake, { once: true });
      await added.wait();
      cancel();
      signal?.removeEventListener("abort", wake);
      this.closed.removeEventListener("abort", wake);
    }
    if (this.closed.aborted || signal?.aborted === true) return [];
    const leases: Lease[] = [];
    for (const [key, entry] of waiting) {
      if (leases.length >= most) break;
      waiting.delete(key);
      entry.deliveries++;
      leases.push(this.#lease(entry));
    }
    return leases;
  }

  async report(report: WorkerReport): Promise<void> {
    this.worker = report.worker;
    this.#queue.table.report(report);
    this.#queue.handlers.onReport(report);
  }

  async close(): Promise<void> {
    this.#queue.ports.delete(this);
    this.#closed.abort(new Error("The worker has left."));
    for (const held of [...this.#held]) this.#return(held);
    const left = this.worker === null ? null : this.#queue.table.remove(this.worker);
    if (left !== null) this.#queue.handlers.onReport(left);
  }

  /** Ends leases that were not extended. */
  expire(): void {
    const now = this.#queue.clock.now();
    for (const held of [...this.#held]) if (held.expiresAt <= now) this.#return(held);
  }

  /** Ends leases of these episodes and forgets their jobs; returns the episodes that had one. */
  forget(runId: string, episodeIds: ReadonlySet<string>): string[] {
    const found = [...this.#held].filter(({ entry: { job } }) => job.runId === runId && episodeIds.has(job.episodeId));
    for (const held of found) this.#held.delete(held);
    return found.map(({ entry }) => entry.job.episodeId);
  }

  #return(held: Held): void {
    if (this.#held.delete(held)) this.#queue.put(held.entry);
  }

  #lease(entry: Entry): Lease {
    const queue = this.#queue;
    const held: Held = { entry, expiresAt: queue.clock.now() + queue.leaseMs };
    this.#held.add(held);
    return {
      job: entry.job,
      delivery: entry.deliveries,
      extend: async () => {
        held.expiresAt = queue.clock.now() + queue.leaseMs;
        return this.#held.has(held);
      },
      done: async (receipt: Receipt) => {
        this.#held.delete(held);
        // Another delivery of the finished job.
        const waiting = queue.waiting.get(keyOf(entry.job));
        if (waiting !== undefined && waiting.job.fence <= entry.job.fence) queue.waiting.delete(keyOf(entry.job));
        // Called last, because the coordinator may submit the job again, and the worker must not
        // wait for that.
        void queue.handlers.onReceipt(receipt);
      },
      giveBack: async () => this.#return(held),
    };
  }
}
