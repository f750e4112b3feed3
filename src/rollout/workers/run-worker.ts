// One worker: takes jobs, runs their episodes, writes them, and sends a receipt once they are on
// the disk. Knows no broker and no engine: it receives a connected queue, and its owner opens runs.
// Decides nothing about groups, and keeps no job that it cannot finish.
//
//   leased ─► run is open ─► journal of another worker is taken over ─► running ─► stored, synced ─► receipt
//               │                                                         ├─ cancelled: stored as aborted, receipt
//               └─ refused: given back, the worker says why               ├─ lease lost, run ended: aborted, its journal stays
//                                                                         └─ store failed (full disk): given back, store opened again

import { readdir } from "node:fs/promises";
import {
  AttributedError,
  ConfigurationError,
  type EpisodeEvent,
  type Failure,
  messageOf,
  type SamplingParams,
  type Task,
} from "../../core/index.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { Waiters } from "../../lib/deadline.ts";
import type {
  Control,
  Lease,
  Receipt,
  RunState,
  WorkerHandlers,
  WorkerQueue,
  WorkerReport,
} from "../../queue/job-queue.ts";
import type { ShardStore } from "../../store/index.ts";
import { observedIn } from "../concurrency/episode-limit.ts";
import { endedOf, type EpisodeRequest, type FinishedEpisode } from "../episode-runner.ts";
import { TotalsCounter } from "../run-totals.ts";
import { isTooLarge } from "./coordinator.ts";
import { deadlyEpisode, Deaths, placeOf } from "./deaths.ts";

/** A run that a worker has opened. */
export interface WorkerRun {
  readonly shard: ShardStore;
  /** Throws for an index that is not in the split. */
  task(split: string, index: number): Task;
  /** Resumes from the shard's journal, and records in it. */
  runEpisode(task: Task, request: EpisodeRequest): Promise<FinishedEpisode>;
  /** Engine calls in flight. */
  readonly callsInFlight: number;
  /** "paused": no engine call begins. Resolves when none is in flight. */
  obey(state: RunState): Promise<void>;
  /** Closes the shard and opens it again, after a fault of the store. */
  reopen(): Promise<void>;
  close(): Promise<void>;
}

export type WorkerOptions = {
  /** Name of the worker and of its shard; unique among live workers. */
  readonly name: string;
  /** Version of the package. */
  readonly version: string;
  /** Maximum number of episodes in flight. */
  readonly capacity: number;
  readonly connect: (handlers: WorkerHandlers) => WorkerQueue | Promise<WorkerQueue>;
  /** Rejects with a `ConfigurationError` for a run that cannot be run here. */
  readonly openRun: (state: RunState) => Promise<WorkerRun>;
  /** Stops taking jobs; running episodes finish. */
  readonly drain?: AbortSignal | undefined;
  /** Ends the worker: running episodes are released, and their journals stay. */
  readonly signal?: AbortSignal | undefined;
  readonly onNotice: (message: string) => void;
  /**
   * Interval between reports, in milliseconds. Default: 1,000, or a quarter of a lease if that is
   * less.
   */
  readonly reportMs?: number;
  readonly clock?: Clock;
};

/**
 * Resolves when the worker was drained or stopped, or the queue is permanently closed; nothing of
 * it runs any more then.
 */
export function runWorker(options: WorkerOptions): Promise<void> {
  return new Worker(options).run();
}

/** Shortest and longest delay before retrying after a full disk, or a queue that cannot be reached. */
const firstWaitMs = 500;
const longestWaitMs = 30_000;
const longestFailure = 2000;

type Held = {
  readonly lease: Lease;
  readonly counter: TotalsCounter;
  readonly controller: AbortController;
  /** The shard that the episode is written into. */
  shard: ShardStore | null;
  /** The reason for aborting it: its coordinator cancelled it, or another worker has it now. */
  ended: "cancelled" | "lost" | null;
};

type KnownRun = {
  state: RunState;
  readonly opened: Promise<WorkerRun>;
  run: WorkerRun | null;
  reopening: Promise<void> | null;
};

class Worker {
  readonly #options: WorkerOptions;
  readonly #clock: Clock;
  readonly #held = new Set<Held>();
  readonly #working = new Set<Promise<void>>();
  readonly #runs = new Map<string, KnownRun>();
  /**
   * Work in progress on each episode. The same job may come again while it runs, and a journal has
   * one writer.
   */
  readonly #episodes = new Map<string, Promise<void>>();
  readonly #freed = new Waiters();
  readonly #deaths = new Deaths();
  /**
   * Number of running episodes; then of those that wait to run without any others, because they may
   * have killed their workers.
   */
  #running = 0;
  #waitingAlone = 0;
  #isAlone = false;
  readonly #changed = new Waiters();
  /** Aborts once the worker takes no more jobs. */
  readonly #refusal = new AbortController();
  #queue: WorkerQueue | null = null;
  #phase: WorkerReport["phase"] = "working";
  #reason: string | null = null;
  /** Delay before the next job is taken, after a full disk. */
  #restMs = 0;
  #observed = { calls: 0, sampledTokens: 0, overloads: 0 };
  #cancelTimers: (() => void)[] = [];

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  async run(): Promise<void> {
    const { connect, onNotice, drain, signal, reportMs = 1000 } = this.#options;
    const queue = await connect({ onControl: (control) => this.#onControl(control), onNotice });
    this.#queue = queue;
    const stops = AbortSignal.any([queue.closed, ...(signal === undefined ? [] : [signal])]);
    const takes = AbortSignal.any([stops, this.#refusal.signal, ...(drain === undefined ? [] : [drain])]);
    try {
      await this.#report();
      this.#every(Math.min(reportMs, queue.leaseMs / 4), () => this.#report());
      this.#every(queue.leaseMs / 3, () => this.#extend());
      await this.#takeJobs(takes);
      this.#phase = this.#phase === "refused" ? "refused" : "draining";
      if (stops.aborted || this.#phase === "refused") this.#abortAll("lost");
      else {
        const cut = (): void => this.#abortAll("lost");
        stops.addEventListener("abort", cut, { once: true });
      }
      while (this.#working.size > 0) await Promise.allSettled(this.#working);
    } finally {
      for (const cancel of this.#cancelTimers) cancel();
      await Promise.allSettled([...this.#runs.values()].map(closeRun));
      if (this.#phase !== "refused") this.#phase = "left";
      await this.#report();
      await queue.close();
    }
  }

  async #takeJobs(signal: AbortSignal): Promise<void> {
    let waitMs = firstWaitMs;
    while (!signal.aborted && this.#phase === "working") {
      const room = this.#options.capacity - this.#held.size;
      if (room <= 0 || this.#restMs > 0) {
        const rest = this.#restMs;
        this.#restMs = 0;
        const waiting = rest > 0 ? this.#clock.sleep(rest, signal) : this.#freed.wait(signal);
        await waiting.catch(() => undefined);
        continue;
      }
      try {
        const leases = await this.#queue!.take(room, { signal });
        for (const lease of leases) this.#begin(lease);
        waitMs = firstWaitMs;
      } catch (error) {
        this.#options.onNotice(`Notice: cannot fetch jobs: ${messageOf(error)}`);
        await this.#clock.sleep(waitMs, signal).catch(() => undefined);
        waitMs = Math.min(2 * waitMs, longestWaitMs);
      }
    }
  }

  #begin(lease: Lease): void {
    const planned = { groups: 1, groupSize: 1, target: null };
    const counter = new TotalsCounter(planned, () => this.#clock.now());
    const held: Held = { lease, counter, controller: new AbortController(), shard: null, ended: null };
    this.#held.add(held);
    const key = JSON.stringify([lease.job.runId, lease.job.episodeId]);
    const work = (): Promise<void> => this.#work(held).catch((error: unknown) => this.#fail(held, error));
    const working = this.#episodes.get(key)?.then(work, work) ?? work();
    this.#episodes.set(key, working);
    void this.#track(
      working.finally(() => {
        if (this.#episodes.get(key) === working) this.#episodes.delete(key);
        this.#held.delete(held);
        this.#freed.wake();
      }),
    );
  }

  /** Tracks work that must finish before the worker ends. */
  #track(work: Promise<void>): Promise<void> {
    const tracked = work.finally(() => this.#working.delete(tracked));
    this.#working.add(tracked);
    return tracked;
  }

  async #work(held: Held): Promise<void> {
    const { lease } = held;
    const { job } = lease;
    const known = this.#runs.get(job.runId);
    // The state of a run arrives before its jobs, unless the run has ended.
    if (known === undefined) return lease.giveBack("the run is not known here");
    const run = await known.opened;
    const task = run.task(job.split, job.taskIndex);
    if (task.contentHash !== job.contentHash) {
      throw new ConfigurationError(
        `Cannot run episode "${job.episodeId}": task "${task.id}" has other content here (${task.contentHash.slice(0, 12)}, ` +
          `expected ${job.contentHash.slice(0, 12)}); use the data and the package of its coordinator for the worker.`,
      );
    }
    held.shard = run.shard;
    if (lease.delivery > 1 || job.fence > 1) await takeOver(run.shard, job.episodeId, job.shards);
    const place = lease.delivery > 1 ? placeOf(await run.shard.recorded(job.episodeId)) : 0;
    const suspicion = await this.#deaths.suspicion(lease, place);
    const isAlone = suspicion === "alone";
    await this.#enter(isAlone);
    const noted = { place, location: run.shard.location, isAlone };
    let isDone = false;
    try {
      await this.#deaths.begin(lease, noted);
      const failure = suspicion === "fatal" ? deadlyEpisode(job.episodeId) : null;
      isDone = await this.#run(held, { run, task, failure });
    } finally {
      await this.#deaths.end(lease, noted, isDone);
      this.#leave(isAlone);
    }
  }

  /**
   * Resolves when the episode may run: on its own, or next to others while none is waiting to run
   * on its own.
   */
  async #enter(isAlone: boolean): Promise<void> {
    if (isAlone) this.#waitingAlone++;
    while (this.#isAlone || (isAlone ? this.#running : this.#waitingAlone) > 0) await this.#changed.wait();
    if (isAlone) this.#waitingAlone--;
    else this.#running++;
    this.#isAlone = isAlone;
  }

  #leave(isAlone: boolean): void {
    if (isAlone) this.#isAlone = false;
    else this.#running--;
    this.#changed.wake();
  }

  /**
   * `failure`: the episode is not run, and ends with this failure. Resolves with true if its
   * receipt was sent.
   */
  async #run(
    held: Held,
    { run, task, failure: fatal }: { readonly run: WorkerRun; readonly task: Task; readonly failure: Failure | null },
  ): Promise<boolean> {
    const { lease, counter, controller } = held;
    const { job } = lease;
    const sampling = job.sampling === null ? {} : { sampling: JSON.parse(job.sampling) as SamplingParams };
    const { episodeId, groupId, sampleIndex, seed, engineUrl } = job;
    // A server may still execute the last call of another worker, and refuses a second call with
    // the same id.
    const requestTag = lease.delivery > 1 ? { requestTag: globalThis.crypto.randomUUID().slice(0, 8) } : {};
    const finished = await run.runEpisode(task, {
      episodeId,
      groupId,
      sampleIndex,
      seed,
      engineUrl,
      ...sampling,
      ...requestTag,
      signal: controller.signal,
      onEvent: (event) => this.#onEvent(event, counter),
      onRecorded: (event) => counter.recorded(event),
      ...(fatal === null ? {} : { failure: fatal }),
    });
    const { episode, origin } = finished;
    if (episode.stopReason === "cancelled" && held.ended !== "cancelled") return false;
    // The fault is in this worker's disk, not in the episode: another worker may run it, or this
    // one later.
    if (episode.failure?.boundary === "store") throw new AttributedError(episode.failure);
    const { shard } = run;
    held.shard = shard;
    const stored = origin === "stored" ? await shard.receipt(episodeId) : null;
    const entry = stored ?? (await shard.append(episode));
    const { failure, ending, metrics, weightSpans, samples, trainedTokens, dropped } = endedOf(finished).summary;
    await this.#send(held, {
      runId: job.runId,
      fence: job.fence,
      episodeId,
      worker: this.#options.name,
      origin,
      counts: counter.eventCounts,
      entry: { ...entry },
      details: { failure: shortened(failure), ending, metrics, weightSpans, samples, trainedTokens, dropped },
    });
    this.#restMs = 0;
    return true;
  }

  /**
   * Sends the receipt until the queue has it: sending again costs less than running a stored
   * episode again.
   */
  async #send({ lease }: Held, receipt: Receipt): Promise<void> {
    const { closed } = this.#queue!;
    for (let waitMs = firstWaitMs; !closed.aborted; waitMs = Math.min(2 * waitMs, longestWaitMs)) {
      try {
        return await lease.done(receipt);
      } catch (error) {
        if (isTooLarge(error)) throw error;
        this.#options.onNotice(`Notice: a receipt was not sent and is sent again: ${messageOf(error)}`);
        await this.#clock.sleep(waitMs, closed).catch(() => undefined);
      }
    }
  }

  /** Handles a fault of the worker itself, not of an episode: another worker may succeed. */
  async #fail({ lease, controller, shard }: Held, error: unknown): Promise<void> {
    const reason = messageOf(error);
    if (!controller.signal.aborted)
      this.#options.onNotice(`Notice: episode "${lease.job.episodeId}" is given back: ${reason}`);
    await lease.giveBack(reason).catch(() => undefined);
    if (error instanceof AttributedError && error.failure.boundary === "store") {
      this.#restMs = Math.min(longestWaitMs, Math.max(firstWaitMs, 2 * this.#restMs));
      const known = this.#runs.get(lease.job.runId);
      // If many episodes fail with one shard, the first of them reopens it.
      if (known?.run?.shard === shard) known.reopening ??= this.#reopen(known);
      await known?.reopening;
    } else if (!controller.signal.aborted) await this.#refuse(reason);
  }

  async #reopen(known: KnownRun): Promise<void> {
    await known.run?.reopen().catch((fault: unknown) => this.#options.onNotice(`Notice: ${messageOf(fault)}`));
    known.reopening = null;
  }

  async #refuse(reason: string): Promise<void> {
    if (this.#phase === "refused") return;
    this.#phase = "refused";
    this.#reason = reason.slice(0, 5 * longestFailure);
    this.#refusal.abort();
    this.#freed.wake();
    await this.#report();
  }

  #onEvent(event: EpisodeEvent, counter: TotalsCounter): void {
    counter.event(event);
    const { calls = 0, sampledTokens = 0, overloads = 0 } = observedIn(event) ?? {};
    this.#observed.calls += calls;
    this.#observed.sampledTokens += sampledTokens;
    this.#observed.overloads += overloads;
  }

  async #onControl(control: Control): Promise<void> {
    if (control.type === "cancel") return this.#cancel(control.runId, new Set(control.episodeIds));
    const { state } = control;
    const { runId, fence, revision } = state;
    const known = this.#runs.get(runId);
    if (known !== undefined && !isNewer(state, known.state)) return;
    if (state.phase === "ended") {
      this.#runs.delete(runId);
      this.#abortAll("lost", (held) => held.lease.job.runId === runId && held.lease.job.fence <= fence);
      return known === undefined ? undefined : this.#track(closeRun(known));
    }
    if (state.version !== this.#options.version) {
      return this.#refuse(
        `Cannot run "${runId}": its coordinator has version ${state.version} of trainable-agents, this worker has ${this.#options.version}; install the same version.`,
      );
    }
    const entry = known ?? { state, opened: this.#options.openRun(state), run: null, reopening: null };
    this.#runs.set(runId, entry);
    entry.state = state;
    try {
      entry.run = await entry.opened;
    } catch (error) {
      return this.#refuse(messageOf(error));
    }
    // A later state may have arrived in the meantime; its own call obeys it.
    if (entry.state.revision === revision) await entry.run.obey(state);
  }

  #cancel(runId: string, episodeIds: ReadonlySet<string>): void {
    this.#abortAll("cancelled", ({ lease: { job } }) => job.runId === runId && episodeIds.has(job.episodeId));
  }

  #abortAll(ended: "cancelled" | "lost", which: (held: Held) => boolean = () => true): void {
    for (const held of this.#held) {
      if (held.ended !== null || !which(held)) continue;
      held.ended = ended;
      held.controller.abort(new Error(ended === "lost" ? "The lease has ended." : "The episode was cancelled."));
    }
  }

  async #extend(): Promise<void> {
    await Promise.all(
      [...this.#held].map(async (held) => {
        // An unreachable queue does not mean that the lease has ended.
        const holds = await held.lease.extend().catch(() => true);
        if (!holds) this.#abortAll("lost", (one) => one === held);
      }),
    );
  }

  async #report(): Promise<void> {
    const { name: worker, version, capacity } = this.#options;
    let [callsInFlight, turns, sampledTokens] = [0, 0, 0];
    for (const { run } of this.#runs.values()) callsInFlight += run?.callsInFlight ?? 0;
    for (const { counter } of this.#held) {
      const counts = counter.eventCounts;
      turns += counts.turns;
      sampledTokens += counts.sampledTokens;
    }
    const observed = this.#observed;
    this.#observed = { calls: 0, sampledTokens: 0, overloads: 0 };
    const own = { worker, version, phase: this.#phase, reason: this.#reason, capacity, held: this.#held.size };
    const report = { ...own, callsInFlight, observed, unfinished: { turns, sampledTokens } };
    // Control messages that arrive while connecting are obeyed before the queue is known here.
    await this.#queue?.report(report).catch(() => undefined);
  }

  #every(ms: number, action: () => Promise<void>): void {
    let cancel = (): void => undefined;
    let isOver = false;
    const next = (): void => {
      cancel = this.#clock.after(ms, () => void action().finally(() => isOver || next()));
    };
    next();
    this.#cancelTimers.push(() => {
      isOver = true;
      cancel();
    });
  }
}

async function closeRun({ opened }: KnownRun): Promise<void> {
  const run = await opened.catch(() => null);
  await run?.close();
}

function isNewer(state: RunState, known: RunState): boolean {
  return state.fence > known.fence || (state.fence === known.fence && state.revision > known.revision);
}

/** Takes over the journal of the process that had the episode before, if its folder is on this disk. */
async function takeOver(shard: ShardStore, episodeId: string, shards: string | null): Promise<void> {
  if (shards === null) return;
  for (const name of [...(await readdir(shards).catch(() => [])), null])
    if ((await shard.adopt(episodeId, name)) > 0) return;
}

function shortened(failure: Failure | null): Failure | null {
  if (failure === null) return null;
  const cut = (text: string): string => (text.length > longestFailure ? `${text.slice(0, longestFailure - 1)}…` : text);
  const { boundary, code, message, retryable, cause } = failure;
  return {
    boundary,
    code: code.slice(0, 256),
    retryable,
    message: cut(message),
    cause: cause === null ? null : cut(cause),
  };
}
