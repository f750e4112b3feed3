// Runs episodes of all requests and producers, at most `concurrency` at once, first come, first served, and keeps recently finished
// ones in memory. Which episodes run and what their ends mean is decided by the schedulers of groups that call it.

import { ConfigurationError, type EpisodeEvent, type GroupRecord } from "../core/index.ts";
import { createSemaphore, type Semaphore } from "../lib/limits.ts";
import { episodeSamples, type FinishedEpisode, type RunEpisode } from "../rollout/index.ts";
import type { JobStore } from "./job-store.ts";
import { type EpisodeJob, summarize, viewEvent } from "./jobs.ts";
import { ServiceError } from "./service-error.ts";
import type { EndedEpisode, PolicyRequest, ServiceParts } from "./service-options.ts";

/** Finished episodes in memory: trainers fetch samples soon after the end. */
const mostRecent = 256;

export type PoolOptions = {
  /** Of a producer: it does not count among the requested episodes that wait. Default: false. */
  readonly isProduced?: boolean;
  /** Called when the job was cancelled before it began: whether it is run all the same, and ends at once. Default: it is not. */
  readonly runsCancelled?: () => boolean;
  readonly onEvent?: (event: EpisodeEvent) => void | Promise<void>;
  /** Receives what an earlier process recorded of it. */
  readonly onRecorded?: ((event: EpisodeEvent) => void) | undefined;
};

export class EpisodePool {
  readonly #parts: Pick<ServiceParts, "gate" | "store" | "archive" | "formats">;
  readonly #jobs: JobStore;
  readonly #permits: Semaphore;
  readonly #recent = new Map<string, EndedEpisode>();
  readonly #running = new Set<Promise<unknown>>();
  #waitingOfProducers = 0;
  #isClosing = false;

  constructor(
    parts: Pick<ServiceParts, "gate" | "store" | "archive" | "formats">,
    { jobs, concurrency }: { readonly jobs: JobStore; readonly concurrency: number },
  ) {
    this.#parts = parts;
    this.#jobs = jobs;
    this.#permits = createSemaphore(concurrency);
  }

  /** Episodes that have a permit. */
  get running(): number {
    return this.#permits.running;
  }

  /** Episodes that wait for a permit. */
  get waiting(): number {
    return this.#permits.waiting;
  }

  /** Waiting episodes that no producer began. */
  get waitingRequests(): number {
    return this.#permits.waiting - this.#waitingOfProducers;
  }

  /** Nothing begins from now on. Suspends what waits; and what runs, unless `wait` lets it finish. */
  close(jobs: Iterable<EpisodeJob>, { wait }: { readonly wait: boolean }): void {
    this.#isClosing = true;
    const waits = wait && this.#parts.gate.isOpen;
    for (const job of jobs) if (job.status === "waiting" || !waits) job.suspend();
  }

  /** Resolves when nothing runs any more. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
  }

  /**
   * Runs it once it has a permit, and stores it. Resolves with `null` when it was suspended, or cancelled before it began; then
   * nothing is stored. Rejects with the error of the runner or the store.
   */
  run(job: EpisodeJob, runner: RunEpisode, options: PoolOptions = {}): Promise<FinishedEpisode | null> {
    const running = this.#run(job, runner, options).finally(() => this.#running.delete(running));
    this.#running.add(running);
    return running;
  }

  /** A finished episode with its training rows; `null` while it runs, and when there is none. */
  async ended(episodeId: string): Promise<EndedEpisode | null> {
    const recent = this.#recent.get(episodeId);
    if (recent !== undefined) return recent;
    const job = this.#jobs.job(episodeId);
    if (job !== null && job.status !== "ended") return null;
    const episode = await this.#parts.archive.find(episodeId);
    return episode === null ? null : { episode, result: episodeSamples(episode) };
  }

  /** Records the decision on a group, with its rows when it is kept. */
  async record(group: GroupRecord): Promise<void> {
    const sampleLines = group.decision === "kept" ? await this.#rowsOf(group) : [];
    await this.#parts.store.appendGroup({ group, sampleLines });
  }

  async #rowsOf({ episodeIds, groupIndex }: GroupRecord): Promise<string[]> {
    const [format] = this.#parts.formats.values();
    if (format === undefined) return [];
    const ended = await Promise.all(episodeIds.map((episodeId) => this.ended(episodeId)));
    const found = ended.filter((one) => one !== null);
    return format(found, groupIndex).map((row) => JSON.stringify(row));
  }

  async #run(
    job: EpisodeJob,
    runner: RunEpisode,
    { isProduced = false, runsCancelled, onEvent, onRecorded }: PoolOptions,
  ): Promise<FinishedEpisode | null> {
    const { task, ...place } = job.place;
    if (this.#isClosing) job.suspend();
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
      if (job.isSuspended || runsCancelled?.() !== true) return null;
    }
    try {
      job.begin();
      const finished = await runner(task, {
        ...place,
        signal: job.signal,
        onEvent: (event) => {
          job.see(viewEvent(event));
          return onEvent?.(event);
        },
        ...(onRecorded && { onRecorded }),
      });
      const { episode, result, origin } = finished;
      if (job.isSuspended && episode.stopReason === "cancelled") return null;
      if (origin !== "stored") await this.#parts.store.append(episode);
      this.#remember({ episode, result });
      job.end(summarize(episode), { isStored: true });
      this.#jobs.trim();
      return finished;
    } finally {
      release();
    }
  }

  /** Episodes leave memory long before their summaries do, the oldest first. */
  #remember(ended: EndedEpisode): void {
    this.#recent.set(ended.episode.id, ended);
    for (const episodeId of this.#recent.keys()) {
      if (this.#recent.size <= mostRecent) break;
      this.#recent.delete(episodeId);
      this.#jobs.job(episodeId)?.forgetEvents();
    }
  }
}

/** The runner of a policy. Throws a `ServiceError` when there is none. */
export function runnerFor(policy: PolicyRequest, { runner }: Pick<ServiceParts, "runner">): RunEpisode {
  try {
    return runner(policy);
  } catch (error) {
    if (error instanceof ConfigurationError) throw new ServiceError("bad-request", error.message);
    throw error;
  }
}

/** Of a request that an earlier process accepted: what is wrong with it now becomes the failure of its episodes. */
export function runnerAgain(policy: PolicyRequest, parts: Pick<ServiceParts, "runner">): RunEpisode {
  try {
    return runnerFor(policy, parts);
  } catch (error) {
    return async () => {
      throw error;
    };
  }
}
