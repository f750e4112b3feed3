// Workers as child processes, over the channel that Node gives them: the queue in memory, with a
// port for each child. If a child dies, its jobs are released and it is started again; a child that
// cannot start ends the run. Both sides of the channel are in this file.

import type { ChildProcess } from "node:child_process";
import { type Clock, systemClock } from "../lib/clock.ts";
import type {
  Control,
  CoordinatorHandlers,
  Job,
  JobQueue,
  Lease,
  Receipt,
  WorkerHandlers,
  WorkerQueue,
  WorkerReport,
} from "./job-queue.ts";
import { createMemoryQueue, type MemoryQueue, type MemoryQueueOptions } from "./memory-queue.ts";
import { readOrNotice, readReceipt, readReport } from "./messages.ts";

type ToParent =
  | { readonly type: "take"; readonly most: number }
  | { readonly type: "report"; readonly report: WorkerReport }
  | { readonly type: "extend"; readonly batch: number; readonly leases: readonly number[] }
  | { readonly type: "done"; readonly lease: number; readonly receipt: Receipt }
  | { readonly type: "give-back"; readonly lease: number; readonly reason: string }
  | { readonly type: "obeyed"; readonly control: number }
  | { readonly type: "notice"; readonly message: string };

type ToChild =
  | { readonly type: "leases"; readonly leases: readonly SentLease[]; readonly leaseMs: number }
  | { readonly type: "extended"; readonly batch: number; readonly lost: readonly number[] }
  | { readonly type: "control"; readonly id: number; readonly control: Control };

type SentLease = { readonly lease: number; readonly delivery: number; readonly job: Job };

export type ProcessPoolOptions = MemoryQueueOptions & {
  readonly processes: number;
  /**
   * Number in the workers' names: it differs for each process that coordinates a run, because its
   * workers may outlive it briefly.
   */
  readonly generation: number;
  /**
   * Starts the program of one worker, with a channel; the name is the same each time that the
   * worker is started.
   */
  readonly start: (name: string) => ChildProcess;
  /** Ends the run: a worker cannot be started, or user code has blocked it. */
  readonly onFault: (reason: string) => void;
};

/** Maximum number of consecutive restarts of a child that ends before it has sent a message. */
const mostFailedStarts = 3;
const firstRestartMs = 200;
const longestRestartMs = 30_000;
/**
 * Exit code of a process that code of a user's module has blocked or ended: another process would
 * fail the same way.
 */
const stuckExitCode = 70;
/** Time for a child to close its files, in milliseconds. */
const closeMs = 10_000;

/** Creates the queue and starts the children at once. */
export function createProcessPool(handlers: CoordinatorHandlers, options: ProcessPoolOptions): JobQueue {
  const queue = createMemoryQueue(handlers, options);
  const slots = Array.from({ length: options.processes }, (_, index) => {
    return new Slot(`worker-${options.generation}-${index + 1}`, { queue, handlers, ...options });
  });
  return {
    leaseMs: queue.leaseMs,
    closed: queue.closed,
    get workers() {
      return queue.workers;
    },
    submit: (job) => queue.submit(job),
    cancel: (runId, episodeIds) => queue.cancel(runId, episodeIds),
    broadcast: (control) => queue.broadcast(control),
    gather: (control, settings) => queue.gather(control, settings),
    close: async () => {
      await Promise.all(slots.map((slot) => slot.close()));
      await queue.close();
    },
  };
}

type SlotOptions = ProcessPoolOptions & { readonly queue: MemoryQueue; readonly handlers: CoordinatorHandlers };

/** A worker's name, and its current process. */
class Slot {
  readonly #name: string;
  readonly #options: SlotOptions;
  readonly #clock: Clock;
  #child: ChildProcess | null = null;
  #exited: Promise<void> = Promise.resolve();
  /** True if the current process has sent a message: until then it has nothing to close. */
  #hasBegun = (): boolean => false;
  #isClosing = false;
  /** Number of consecutive failed starts. */
  #failedStarts = 0;
  #cancelRestart = (): void => undefined;

  constructor(name: string, options: SlotOptions) {
    this.#name = name;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#start();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.#cancelRestart();
    const child = this.#child;
    if (child?.connected === true) child.disconnect();
    if (!this.#hasBegun()) child?.kill("SIGKILL");
    // A process that hangs or was stopped sends nothing more.
    const cancel = this.#clock.after(closeMs, () => child?.kill("SIGKILL"));
    await this.#exited;
    cancel();
  }

  #start(): void {
    const { queue, handlers, start } = this.#options;
    const child = start(this.#name);
    const channel = new ParentChannel(child, queue, handlers.onNotice);
    this.#child = child;
    this.#hasBegun = () => channel.hasReported;
    this.#exited = new Promise((resolve) => {
      let isOver = false;
      const end = (what: string, code: number | null): void => {
        if (isOver) return;
        isOver = true;
        void channel.close();
        resolve();
        if (!this.#isClosing) this.#restart(what, { code, hasReported: channel.hasReported });
      };
      child.once("exit", (code, signal) => end(signal === null ? `with exit code ${code}` : `by ${signal}`, code));
      child.once("error", (error) => end(`: ${error.message}`, null));
    });
  }

  #restart(what: string, { code, hasReported }: { readonly code: number | null; readonly hasReported: boolean }): void {
    const { handlers, onFault } = this.#options;
    this.#failedStarts = hasReported ? 1 : this.#failedStarts + 1;
    if (code === stuckExitCode || this.#failedStarts > mostFailedStarts) {
      return onFault(`Cannot continue: ${this.#name}, a process of this run, ended ${what}; see its output above.`);
    }
    const waitMs = Math.min(longestRestartMs, firstRestartMs * 2 ** (this.#failedStarts - 1));
    handlers.onNotice(`Notice: ${this.#name} ended ${what} and is started again; others have its episodes meanwhile.`);
    this.#cancelRestart = this.#clock.after(waitMs, () => this.#start());
  }
}

/** The parent's end of a child's channel. */
class ParentChannel {
  hasReported = false;
  readonly #child: ChildProcess;
  readonly #port: WorkerQueue;
  readonly #onNotice: (message: string) => void;
  readonly #leases = new Map<number, Lease>();
  readonly #controls = new Map<number, () => void>();
  #next = 0;

  constructor(child: ChildProcess, queue: MemoryQueue, onNotice: (message: string) => void) {
    this.#child = child;
    this.#onNotice = onNotice;
    this.#port = queue.connect({ onControl: (control) => this.#tell(control), onNotice });
    child.on("message", (message) => void this.#receive(message as ToParent));
  }

  async close(): Promise<void> {
    await this.#port.close();
    for (const resolve of this.#controls.values()) resolve();
  }

  #tell(control: Control): Promise<void> {
    const id = this.#next++;
    return new Promise((resolve) => {
      this.#controls.set(id, resolve);
      this.#send({ type: "control", id, control });
    });
  }

  #send(message: ToChild): void {
    // The end of the child follows a broken channel.
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  async #receive(message: ToParent): Promise<void> {
    switch (message.type) {
      case "take":
        return this.#take(message.most);
      case "report": {
        const report = readOrNotice(readReport, message.report, this.#onNotice);
        this.hasReported ||= report !== null;
        if (report !== null) await this.#port.report(report);
        return;
      }
      case "extend": {
        const { batch, leases } = message;
        const holds = await Promise.all(
          leases.map(async (lease) => (await this.#leases.get(lease)?.extend()) ?? false),
        );
        return this.#send({ type: "extended", batch, lost: leases.filter((_, place) => holds[place] !== true) });
      }
      case "done": {
        const receipt = readOrNotice(readReceipt, message.receipt, this.#onNotice);
        const { job } = this.#leases.get(message.lease) ?? {};
        const isItsOwn =
          receipt?.runId === job?.runId && receipt?.fence === job?.fence && receipt?.episodeId === job?.episodeId;
        if (receipt === null || !isItsOwn)
          return this.#giveBack(message.lease, "its receipt is none, or of another job");
        await this.#leases.get(message.lease)?.done(receipt);
        this.#leases.delete(message.lease);
        return;
      }
      case "give-back":
        return this.#giveBack(message.lease, message.reason);
      case "obeyed":
        this.#controls.get(message.control)?.();
        this.#controls.delete(message.control);
        return;
      case "notice":
        return this.#onNotice(message.message);
      default:
        // A message of a program that is not ours.
        return message satisfies never;
    }
  }

  async #take(most: number): Promise<void> {
    const taken = await this.#port.take(most);
    const leases = taken.map((lease): SentLease => {
      const id = this.#next++;
      this.#leases.set(id, lease);
      return { lease: id, delivery: lease.delivery, job: lease.job };
    });
    this.#send({ type: "leases", leases, leaseMs: this.#port.leaseMs });
  }

  async #giveBack(lease: number, reason: string): Promise<void> {
    await this.#leases.get(lease)?.giveBack(reason);
    this.#leases.delete(lease);
  }
}

/** The worker's side, in a child process. `leaseMs`: the same as in the parent. */
export function connectToParent(handlers: WorkerHandlers, leaseMs: number): WorkerQueue {
  return new ChildChannel(handlers, leaseMs);
}

class ChildChannel implements WorkerQueue {
  readonly leaseMs: number;
  readonly #closed = new AbortController();
  readonly closed = this.#closed.signal;
  readonly #handlers: WorkerHandlers;
  #taken: ((leases: readonly SentLease[]) => void) | null = null;
  /** Leases to extend with the next message. */
  #batch: { readonly leases: Set<number>; readonly lost: Promise<ReadonlySet<number>> } | null = null;
  readonly #batches = new Map<number, (lost: ReadonlySet<number>) => void>();
  #next = 0;

  constructor(handlers: WorkerHandlers, leaseMs: number) {
    this.#handlers = handlers;
    this.leaseMs = leaseMs;
    process.on("message", this.#receive);
    process.once("disconnect", this.#end);
    // The parent may die while this process starts.
    if (!process.connected) this.#end();
  }

  async take(most: number, { signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<readonly Lease[]> {
    if (this.closed.aborted || signal?.aborted === true) return [];
    const leases = await new Promise<readonly SentLease[]>((resolve) => {
      const none = (): void => this.#taken?.([]);
      this.#taken = (sent) => {
        signal?.removeEventListener("abort", none);
        this.#taken = null;
        resolve(sent);
      };
      signal?.addEventListener("abort", none, { once: true });
      void this.#send({ type: "take", most });
    });
    return leases.map((sent) => this.#leaseOf(sent));
  }

  report(report: WorkerReport): Promise<void> {
    return this.#send({ type: "report", report });
  }

  async close(): Promise<void> {
    process.off("message", this.#receive);
    process.off("disconnect", this.#end);
    if (process.connected) process.disconnect();
    this.#end();
  }

  readonly #end = (): void => {
    this.#closed.abort(new Error("The process that started this one is gone."));
    this.#taken?.([]);
    for (const resolve of this.#batches.values()) resolve(new Set());
  };

  readonly #receive = (message: unknown): void => {
    const received = message as ToChild;
    if (received.type === "leases") {
      if (this.#taken !== null) this.#taken(received.leases);
      // The caller no longer waits.
      else for (const { lease } of received.leases) void this.#send({ type: "give-back", lease, reason: "not taken" });
    } else if (received.type === "extended") {
      this.#batches.get(received.batch)?.(new Set(received.lost));
      this.#batches.delete(received.batch);
    } else if (received.type === "control") void this.#obey(received.id, received.control);
  };

  async #obey(control: number, given: Control): Promise<void> {
    await this.#handlers.onControl(given);
    await this.#send({ type: "obeyed", control });
  }

  #leaseOf({ lease, delivery, job }: SentLease): Lease {
    return {
      job,
      delivery,
      extend: async () => !(await this.#extend(lease)).has(lease),
      done: (receipt) => this.#send({ type: "done", lease, receipt }),
      giveBack: (reason) => this.#send({ type: "give-back", lease, reason }),
    };
  }

  /** Leases that are extended together share a message. */
  #extend(lease: number): Promise<ReadonlySet<number>> {
    if (this.#batch === null) {
      const batch = this.#next++;
      const leases = new Set<number>();
      const lost = new Promise<ReadonlySet<number>>((resolve) => this.#batches.set(batch, resolve));
      this.#batch = { leases, lost };
      setImmediate(() => {
        this.#batch = null;
        void this.#send({ type: "extend", batch, leases: [...leases] });
      });
    }
    this.#batch.leases.add(lease);
    return this.#batch.lost;
  }

  /** A broken channel ends the worker, so errors of sending are ignored. */
  #send(message: ToParent): Promise<void> {
    return new Promise((resolve) => {
      if (!process.connected || process.send === undefined) return resolve();
      process.send(message, () => resolve());
    });
  }
}
