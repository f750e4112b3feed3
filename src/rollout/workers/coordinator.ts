// Runs episodes in other processes, for schedulers: submits a job for each and resolves with the
// contents of its receipt. One coordinator serves one run or one service; it knows the open
// episodes, the state that their workers share, and the episodes that already count. Not a
// scheduler: the layer above decides which episode is next, and the queue below decides where it
// runs.
//
//   runEpisode ─► submitted ─┬─ receipt of this fence ─► resolved; a second one, or one of an older fence, is dropped
//                            ├─ the queue forgot ─► submitted again
//                            └─ cancelled ─► its aborted episode, or nothing when it never began

import { AttributedError, ConfigurationError, type EpisodeSummary, messageOf, type Task } from "../../core/index.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { subscribeToAbort } from "../../lib/deadline.ts";
import { failedStartMs, Opened } from "../../lib/opened.ts";
import type {
  CoordinatorHandlers,
  Gathered,
  Job,
  JobQueue,
  Receipt,
  RunState,
  WorkerReport,
} from "../../queue/job-queue.ts";
import { summaryFromPlain, type UnnumberedSummary } from "../../store/index.ts";
import type { DispatchEpisode, EndedEpisode, EpisodeRequest, FinishedEpisode } from "../episode-runner.ts";

export type CoordinatorOptions = {
  readonly runId: string;
  /** Fence of this coordinator; higher than that of every earlier coordinator of the run. */
  readonly fence: number;
  /** Version of the package. */
  readonly version: string;
  /** JSON text; see `RunState`. */
  readonly settings: string;
  /** Folder with the workers' shards, for workers that can reach it; `null` if it is elsewhere. */
  readonly shards: string | null;
  /** Connects with a queue whose workers are running or being started. `fail` ends the run. */
  readonly connect: (handlers: CoordinatorHandlers, fail: (reason: string) => void) => JobQueue | Promise<JobQueue>;
  /** Store in which receipts become part of the run. */
  readonly store: { appendIndexed(summary: UnnumberedSummary): Promise<boolean> };
  /** Reads an episode that counts, or that a receipt names, with its rows. */
  readonly open: (summary: UnnumberedSummary) => Promise<Omit<FinishedEpisode, "origin">>;
  /**
   * Returns an episode that already counts, which is then resolved without a job; `null` if it does
   * not count yet.
   */
  readonly stored?: ((episodeId: string) => Promise<FinishedEpisode | null>) | undefined;
  /**
   * True: a worker that cannot run its jobs ends the run. Default: only a notice, because other
   * workers may be able to.
   */
  readonly endsOnRefusal?: boolean;
  readonly onNotice: (message: string) => void;
  /** Called after the last episode was opened. */
  readonly onClose?: (() => Promise<void>) | undefined;
  /** Called when workers have reported. */
  readonly onReport?: (() => void) | undefined;
  readonly clock?: Clock;
};

type Open = {
  readonly job: Job;
  readonly request: EpisodeRequest;
  readonly resolve: (ended: EndedEpisode | null) => void;
  readonly reject: (error: unknown) => void;
  /**
   * Cancels the timer that waits for the receipt of a cancelled episode; `null` if it was not
   * cancelled.
   */
  cancelTimer: (() => void) | null;
};

/** Longest wait for the receipt of a cancelled episode, in addition to the lease. */
const cancelGraceMs = 5_000;

export class Coordinator {
  readonly #options: CoordinatorOptions;
  readonly #clock: Clock;
  readonly #open = new Map<string, Open>();
  #queue: JobQueue | null = null;
  #state: RunState;
  /** Set once receipts no longer count. */
  #stopped: Error | null = null;
  #refusal: ConfigurationError | null = null;

  private constructor(options: CoordinatorOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    const { runId, fence, version, settings } = options;
    this.#state = {
      runId,
      fence,
      revision: 1,
      version,
      settings,
      phase: "running",
      weightVersion: null,
      workers: 1,
    };
  }

  /** Connects and broadcasts the state of the run. Leaves nothing open if that fails. */
  static async open(options: CoordinatorOptions): Promise<Coordinator> {
    const coordinator = new Coordinator(options);
    const handlers: CoordinatorHandlers = {
      onReceipt: (receipt) => coordinator.#onReceipt(receipt),
      onReport: (report) => coordinator.#onReport(report),
      onForgotten: () => void coordinator.#submitAgain(),
      onNotice: options.onNotice,
    };
    const opened = new Opened(options.clock);
    try {
      opened.add(() => options.onClose?.());
      const queue = await options.connect(handlers, (reason) => coordinator.#fail(reason));
      opened.add(() => queue.close());
      coordinator.#queue = queue;
      // A closed queue sends nothing more, so episodes that only wait for it would never resolve.
      subscribeToAbort(queue.closed, () => {
        if (coordinator.#stopped === null) coordinator.#fail(messageOf(queue.closed.reason));
      });
      await queue.broadcast({ type: "run", state: coordinator.#state });
    } catch (error) {
      coordinator.#stopped = new Error("The run did not begin.");
      await opened.abandon(failedStartMs);
      throw error;
    }
    return coordinator;
  }

  /** Turns and tokens that workers have sampled in episodes without a receipt so far. */
  get unfinished(): { readonly turns: number; readonly sampledTokens: number } {
    let [turns, sampledTokens] = [0, 0];
    for (const { unfinished } of this.#queue?.workers ?? []) {
      turns += unfinished.turns;
      sampledTokens += unfinished.sampledTokens;
    }
    return { turns, sampledTokens };
  }

  /**
   * `DispatchEpisode` over the queue; `null` if the episode was cancelled before a worker began it,
   * so that nothing of it is recorded.
   */
  readonly runEpisode: DispatchEpisode = async (task, request) => {
    if (this.#refusal !== null) throw this.#refusal;
    if (this.#stopped !== null) return abortedEpisode(task, request);
    const stored = (await this.#options.stored?.(request.episodeId)) ?? null;
    if (stored !== null) {
      if (request.onRecorded !== undefined) stored.episode.events.forEach(request.onRecorded);
      return stored;
    }
    const job = this.#jobOf(task, request);
    const { episodeId } = job;
    const ended = new Promise<EndedEpisode | null>((resolve, reject) => {
      this.#open.set(episodeId, { job, request, resolve, reject, cancelTimer: null });
    });
    const unsubscribe = subscribeToAbort(request.signal, () => void this.#cancel(episodeId));
    try {
      await this.#submit(job);
      return await ended.then((one) => one ?? (this.#stopped === null ? null : abortedEpisode(task, request)));
    } finally {
      unsubscribe();
      this.#open.get(episodeId)?.cancelTimer?.();
      this.#open.delete(episodeId);
    }
  };

  /**
   * Stops engine calls: none begins from now on. Resolves when none is in flight: every worker has
   * reported so, or has been silent until its leases have expired. `missing`: workers that may
   * still have one.
   */
  pause(options: { readonly timeoutMs: number; readonly signal?: AbortSignal }): Promise<Gathered> {
    const state = this.#change({ phase: "paused" });
    return this.#queue!.gather({ type: "run", state }, options);
  }

  async continue(): Promise<void> {
    await this.#broadcast({ phase: "running" });
  }

  /**
   * Resolves when the queue has the version: a worker passes it to its engines before the next
   * call.
   */
  async reportWeightVersion(weightVersion: string): Promise<void> {
    await this.#broadcast({ weightVersion });
  }

  /**
   * Stops the run: workers abort their episodes, without receipts, and keep their journals for a
   * later process. Must be called before the signals of open episodes abort, which then resolve as
   * cancelled.
   */
  async stop(): Promise<void> {
    if (this.#stopped !== null) return;
    this.#stopped = new Error("The run was cancelled.");
    for (const { resolve, cancelTimer } of this.#open.values()) if (cancelTimer !== null) resolve(null);
    await this.#broadcast({ phase: "ended" });
  }

  /** Closes the run here and in all workers. */
  async close(): Promise<void> {
    await this.stop();
    await this.#queue?.close();
    await this.#options.onClose?.();
  }

  #jobOf(task: Task, { episodeId, groupId, sampleIndex, seed, sampling, engineUrl = null }: EpisodeRequest): Job {
    const { runId, fence, shards } = this.#options;
    return {
      runId,
      fence,
      episodeId,
      groupId,
      sampleIndex,
      seed,
      engineUrl,
      shards,
      split: task.split,
      taskIndex: task.index,
      contentHash: task.contentHash,
      sampling: sampling === undefined ? null : JSON.stringify(sampling),
    };
  }

  #change(changes: Partial<RunState>): RunState {
    this.#state = { ...this.#state, ...changes, revision: this.#state.revision + 1 };
    return this.#state;
  }

  async #broadcast(changes: Partial<RunState>): Promise<void> {
    const state = this.#change(changes);
    await this.#queue
      ?.broadcast({ type: "run", state })
      .catch((error: unknown) => this.#notice("the state of the run was not sent", error));
  }

  async #cancel(episodeId: string): Promise<void> {
    const open = this.#open.get(episodeId);
    if (open === undefined || open.cancelTimer !== null) return;
    if (this.#stopped !== null) return open.resolve(null);
    // The worker aborts the episode and sends a receipt; a worker that has died, or never had it,
    // sends none.
    const waitMs = this.#queue!.leaseMs + cancelGraceMs;
    open.cancelTimer = this.#clock.after(waitMs, () => open.resolve(null));
    const waited = await this.#queue!.cancel(this.#options.runId, [episodeId]).catch((): readonly string[] => []);
    if (waited.includes(episodeId)) open.resolve(null);
  }

  async #onReceipt(receipt: Receipt): Promise<void> {
    if (receipt.runId !== this.#options.runId || this.#stopped !== null) return;
    const open = this.#open.get(receipt.episodeId);
    // The first receipt of the current fence counts: one of another delivery, or of a worker that
    // was believed killed, comes too late.
    if (open === undefined || receipt.fence !== this.#options.fence) return;
    let summary: UnnumberedSummary;
    try {
      summary = summaryFromPlain(receipt.entry, `the receipt of worker "${receipt.worker}"`);
      const { id, place, task } = summary;
      if (place.shard !== receipt.worker) throw new Error("Its shard belongs to another worker.");
      if (id !== receipt.episodeId) throw new Error("It names another episode.");
      if (task.contentHash !== open.job.contentHash) throw new Error(`Episode "${id}" ran on another task.`);
    } catch (error) {
      this.#notice(`a receipt of episode "${receipt.episodeId}" was dropped`, error);
      // The queue considers the job done, so it is submitted again.
      return this.#submit(open.job);
    }
    open.cancelTimer?.();
    this.#open.delete(summary.id);
    const { store } = this.#options;
    const origin = receipt.origin === "new" ? "new" : "resumed";
    open.resolve({
      summary: summaryOf(summary, receipt),
      // The origin stays "new" or "resumed": the episode was in the shard, but not in the run.
      origin,
      counts: receipt.counts,
      store: async () => void (await store.appendIndexed(summary)),
      open: async () => ({ ...(await this.#options.open(summary)), origin }),
    });
  }

  #onReport(report: WorkerReport): void {
    const { endsOnRefusal = false, onNotice, onReport } = this.#options;
    if (report.phase === "refused") {
      const reason = report.reason ?? "it does not say why";
      if (endsOnRefusal) this.#fail(reason);
      else onNotice(`Notice: worker "${report.worker}" cannot run the episodes: ${reason}`);
    }
    // All open episodes share one limit, so one of them is enough to report to it.
    const [open] = this.#open.values();
    open?.request.onObserved?.(report.observed);
    void this.#share();
    onReport?.();
  }

  /** Rejects all open episodes, and those that begin later, which ends the run. */
  #fail(reason: string): void {
    this.#refusal ??= new ConfigurationError(reason);
    for (const { reject } of this.#open.values()) reject(this.#refusal);
  }

  /** Shares the limits of the run among the current workers. */
  async #share(): Promise<void> {
    const workers = Math.max(1, this.#queue?.workers.length ?? 1);
    if (workers !== this.#state.workers && this.#stopped === null) await this.#broadcast({ workers });
  }

  /**
   * Submits a job. If the queue cannot be reached, a notice is given, and everything is submitted
   * again once it is back.
   */
  async #submit(job: Job): Promise<void> {
    try {
      await this.#queue!.submit(job);
    } catch (error) {
      // Submitting it again later would also fail.
      if (isTooLarge(error)) this.#open.get(job.episodeId)?.reject(error);
      else this.#notice("a job was not submitted", error);
    }
  }

  async #submitAgain(): Promise<void> {
    if (this.#stopped !== null) return;
    await this.#broadcast({});
    for (const { job, cancelTimer } of this.#open.values()) {
      if (cancelTimer !== null || this.#stopped !== null) continue;
      await this.#submit(job);
    }
  }

  #notice(what: string, error: unknown): void {
    if (this.#stopped !== null) return;
    this.#options.onNotice(`Notice: ${what}: ${messageOf(error)}`);
  }
}

/** True if the queue never takes a message of this length, so that sending it again is useless. */
export function isTooLarge(error: unknown): boolean {
  return error instanceof AttributedError && error.failure.code === "message-too-large";
}

function summaryOf(entry: UnnumberedSummary, { details, counts }: Receipt): EpisodeSummary {
  const { id, groupId, sampleIndex, task, outcome, stopReason, reward, problems, sampledTokens } = entry;
  return {
    id,
    groupId,
    sampleIndex,
    taskId: task.id,
    outcome,
    stopReason,
    reward,
    problems,
    sampledTokens,
    ...details,
    // Replies of an agent behind an API also count as turns.
    turns: Math.max(entry.turns, counts.turns),
  };
}

/**
 * Result that a run counts for an episode that it cancelled before its result was known. A later
 * process resumes it.
 */
function abortedEpisode(task: Task, { episodeId, groupId, sampleIndex }: EpisodeRequest): EndedEpisode {
  return {
    summary: {
      id: episodeId,
      groupId,
      sampleIndex,
      taskId: task.id,
      outcome: "aborted",
      stopReason: "cancelled",
      failure: null,
      ending: null,
      reward: null,
      metrics: {},
      turns: 0,
      sampledTokens: 0,
      weightSpans: [],
      problems: {},
      samples: 0,
      trainedTokens: 0,
      dropped: {},
    },
    origin: "new",
    store: null,
    counts: null,
    open: () => Promise.reject(new Error(`Episode "${episodeId}" was cancelled, and a later process resumes it.`)),
  };
}
