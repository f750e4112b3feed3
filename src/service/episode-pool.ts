// Runs episodes of all requests and producers, at most `concurrency` concurrently, in the order of
// arrival, and keeps recently finished ones in memory. The group schedulers that call it decide
// which episodes run and how their results are used.

import { ConfigurationError, type EpisodeEvent, type GroupRecord } from "../core/index.ts";
import type { Clock } from "../lib/clock.ts";
import { createSemaphore, type Semaphore } from "../lib/limits.ts";
import type { DiskGuard } from "../store/index.ts";
import { type DispatchEpisode, type EndedEpisode, endedOf, episodeSamples } from "../rollout/index.ts";
import type { Adapters } from "./adapters.ts";
import { notStarted, viewEvent, viewSummary } from "./episode-view.ts";
import type { JobStore } from "./job-store.ts";
import type { EpisodeJob, GroupJob } from "./jobs.ts";
import { ServiceError } from "./service-error.ts";
import type { ExportedEpisode, PolicyRequest, ServiceLimits, ServiceParts } from "./service-options.ts";

/** Parts that requests and producers share. */
export type SharedParts = {
  readonly parts: ServiceParts;
  readonly limits: ServiceLimits;
  /** Clock that measures leases. */
  readonly clock: Clock;
  readonly jobs: JobStore;
  readonly pool: EpisodePool;
  readonly guard: DiskGuard;
  readonly adapters: Adapters;
};

/** Maximum number of finished episodes in memory: trainers fetch samples soon after the end. */
const mostRecent = 256;

export type PoolOptions = {
  /**
   * True for an episode of a producer: it does not count among the requested episodes that wait.
   * Default: false.
   */
  readonly isProduced?: boolean;
  /**
   * True if the episode is not stored, and does not count as ended, until its group has been
   * compared: see `settle`. Default: false.
   */
  readonly isHeld?: boolean;
  /**
   * Called if the job was cancelled before it began: returns true to run it anyway, so that it ends
   * at once. Default: it is not run.
   */
  readonly runsCancelled?: () => boolean;
  readonly onEvent?: (event: EpisodeEvent) => void | Promise<void>;
  /** Receives the events that an earlier process recorded of the episode. */
  readonly onRecorded?: ((event: EpisodeEvent) => void) | undefined;
};

export class EpisodePool {
  readonly #parts: ServiceParts;
  readonly #jobs: JobStore;
  readonly #permits: Semaphore;
  readonly #recent = new Map<string, ExportedEpisode>();
  readonly #tracked = new Set<Promise<unknown>>();
  /** Aborts comparisons of groups when the service closes without waiting. */
  readonly #cut = new AbortController();
  #waitingOfProducers = 0;
  /** True once the service accepts, begins and decides nothing more. Set by `close`. */
  isClosing = false;

  constructor(parts: ServiceParts, jobs: JobStore, { concurrency }: { readonly concurrency: number }) {
    this.#parts = parts;
    this.#jobs = jobs;
    this.#permits = createSemaphore(concurrency);
  }

  /** Number of episodes that have a permit. */
  get running(): number {
    return this.#permits.running;
  }

  /** Number of episodes that wait for a permit. */
  get waiting(): number {
    return this.#permits.waiting;
  }

  /** Number of waiting episodes that no producer began. */
  get waitingRequests(): number {
    return this.#permits.waiting - this.#waitingOfProducers;
  }

  /**
   * Begins nothing more. Waiting episodes are suspended, and so are running ones, unless `wait`
   * lets them finish. Resolves when no episode runs and no tracked work is in flight.
   */
  async close({ wait }: { readonly wait: boolean }): Promise<void> {
    this.isClosing = true;
    const waits = wait && this.#parts.gate.isOpen;
    if (!waits) this.#cut.abort(new Error("The service is closing."));
    for (const job of this.#jobs.all()) if (job.status === "waiting" || !waits) job.suspend();
    while (this.#tracked.size > 0) await Promise.allSettled(this.#tracked);
  }

  /** Tracks work that a closing service waits for, and returns it. */
  track<T>(work: Promise<T>): Promise<T> {
    const tracked = work.finally(() => this.#tracked.delete(tracked));
    this.#tracked.add(tracked);
    return tracked;
  }

  /**
   * Runs a job once it has a permit, and stores its episode. Resolves with `null` if the job was
   * suspended, or was cancelled before it began and so has ended; then nothing is stored. Rejects
   * with the error of the runner or the store.
   */
  run(job: EpisodeJob, runner: DispatchEpisode, options: PoolOptions = {}): Promise<EndedEpisode | null> {
    return this.track(this.#run(job, runner, options));
  }

  /** Signal that aborts when the service closes without waiting for running episodes. */
  get cut(): AbortSignal {
    return this.#cut.signal;
  }

  /** Stores an episode that was held, or has just finished, and ends its job. */
  async settle(job: EpisodeJob, { summary, store, counts, open }: EndedEpisode): Promise<void> {
    await store?.(this.#parts.store);
    // An episode that ran in another process is read from its disk only when it is requested.
    if (counts === null) this.#remember(await open());
    job.end(viewSummary(summary), { isStored: true });
    this.#jobs.trim();
  }

  /** A finished episode with its training rows; `null` while it runs, or if there is none. */
  async ended(episodeId: string): Promise<ExportedEpisode | null> {
    const recent = this.#recent.get(episodeId);
    if (recent !== undefined) return recent;
    const job = this.#jobs.job(episodeId);
    if (job !== null && job.status !== "ended") return null;
    const episode = await this.#parts.archive.find(episodeId);
    return episode === null ? null : { episode, result: episodeSamples(episode) };
  }

  /** Records the decision on a group, with its rows if it is kept and rows are to be written. */
  async record(group: GroupRecord): Promise<void> {
    const [format] = this.#parts.formats.values();
    let sampleLines: readonly string[] = [];
    if (group.decision === "kept" && this.#parts.writeSamples === true && format !== undefined) {
      const ended = await Promise.all(group.episodeIds.map((episodeId) => this.ended(episodeId)));
      const found = ended.filter((one) => one !== null);
      sampleLines = format(found, group.groupIndex, { turnRewards: "keep" }).map((row) => JSON.stringify(row));
    }
    await this.#parts.store.appendGroup({ group, sampleLines });
  }

  async #run(
    job: EpisodeJob,
    runner: DispatchEpisode,
    { isProduced = false, isHeld = false, runsCancelled, onEvent, onRecorded }: PoolOptions,
  ): Promise<EndedEpisode | null> {
    const { task, ...place } = job.place;
    if (this.isClosing) job.suspend();
    let release = (): void => undefined;
    const waits = isProduced && this.#permits.running >= this.#permits.limit;
    if (waits) this.#waitingOfProducers++;
    try {
      release = await this.#permits.acquire(job.signal).finally(() => {
        if (waits) this.#waitingOfProducers--;
      });
      await this.#parts.gate.pass(job.signal);
    } catch {
      release();
      if (job.isSuspended) return null;
      if (runsCancelled?.() !== true) {
        job.end(notStarted);
        return null;
      }
    }
    try {
      job.begin();
      const running = runner(task, {
        ...place,
        signal: job.signal,
        onEvent: (event) => {
          job.see(viewEvent(event));
          return onEvent?.(event);
        },
        ...(onRecorded && { onRecorded }),
      });
      const finished = await running;
      if (finished === null) {
        if (!job.isSuspended) job.end(notStarted);
        return null;
      }
      const ended = endedOf(finished);
      if (job.isSuspended && ended.summary.stopReason === "cancelled") return null;
      // The disk failed, not the episode: the next process resumes it.
      if (ended.summary.failure?.boundary === "store") {
        job.suspend();
        return null;
      }
      if (!isHeld) await this.settle(job, ended);
      return ended;
    } finally {
      release();
    }
  }

  /** Keeps an episode in memory, removing the oldest. Summaries stay much longer than episodes. */
  #remember(ended: ExportedEpisode): void {
    this.#recent.set(ended.episode.id, ended);
    for (const episodeId of this.#recent.keys()) {
      if (this.#recent.size <= mostRecent) break;
      this.#recent.delete(episodeId);
      this.#jobs.job(episodeId)?.forgetEvents();
    }
  }
}

/** Decision to keep a group with all its stored episodes. */
export function keptGroup({ groupId, groupIndex, task, jobs }: GroupJob): GroupRecord {
  const stored = jobs.filter(({ isStored }) => isStored);
  return {
    groupId,
    taskId: task.id,
    groupIndex,
    decision: "kept",
    reason: null,
    episodeIds: stored.map(({ place }) => place.episodeId),
    rewards: stored.map(({ summary }) => summary.reward),
  };
}

/** The runner of a group, whose episodes all have its adapter. */
export function runnerOf({ adapter = null }: GroupJob, runner: DispatchEpisode): DispatchEpisode {
  return adapter === null ? runner : (task, place) => runner(task, { ...place, adapter });
}

/** Runner of a policy. Throws a `ServiceError` if the policy is not available. */
export function runnerFor(policy: PolicyRequest, { runner }: ServiceParts): DispatchEpisode {
  try {
    return runner(policy);
  } catch (error) {
    if (error instanceof ConfigurationError) throw new ServiceError("bad-request", error.message);
    throw error;
  }
}

/**
 * Runner for a request that an earlier process accepted: if the request is no longer valid, its
 * episodes fail with that reason.
 */
export function runnerAgain(policy: PolicyRequest, parts: ServiceParts): DispatchEpisode {
  try {
    return runnerFor(policy, parts);
  } catch (error) {
    return async () => {
      throw error;
    };
  }
}
