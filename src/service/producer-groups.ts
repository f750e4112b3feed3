// The groups of one producer, from their beginning until they are decided: connects the library's callbacks (a group begins, an
// episode runs, a group is decided) with the service (jobs, pool, log, archive). Which group is next, and when, is decided by the
// library's producer.

import type { GroupRecord } from "../core/index.ts";
import { subscribeToAbort } from "../lib/deadline.ts";
import type { Clock } from "../lib/clock.ts";
import { createSemaphore } from "../lib/limits.ts";
import type { BegunGroup, EpisodeRequest, FinishedEpisode, ProducerState, RunEpisode } from "../rollout/index.ts";
import type { EpisodePool } from "./episode-pool.ts";
import type { JobStore } from "./job-store.ts";
import { type EpisodeJob, type GroupJob, notRun, notStarted, openGroup, summarize } from "./jobs.ts";
import { groupRequestOf, type ProducerRequest } from "./producer-request.ts";
import type { ServiceParts } from "./service-options.ts";

export type ProducerDependencies = {
  readonly parts: ServiceParts;
  readonly jobs: JobStore;
  readonly pool: EpisodePool;
  /** Measures leases. */
  readonly clock: Clock;
};

export type ProducerGroupsOptions = {
  readonly producerId: string;
  readonly request: ProducerRequest;
  readonly runner: RunEpisode;
  readonly state: () => ProducerState;
};

type OpenGroup = {
  readonly group: GroupJob;
  readonly logged: Promise<void>;
  /** An earlier process began it. */
  readonly isEarlier: boolean;
};

/** Episodes that are read at once when a service resumes many groups: each is an open file. */
const mostReads = 8;

export class ProducerGroups {
  readonly #dependencies: ProducerDependencies;
  readonly #options: ProducerGroupsOptions;
  readonly #open = new Map<string, OpenGroup>();
  readonly #deciding = new Set<Promise<void>>();
  readonly #reads = createSemaphore(mostReads);
  #isFrozen = false;

  constructor(dependencies: ProducerDependencies, options: ProducerGroupsOptions) {
    this.#dependencies = dependencies;
    this.#options = options;
  }

  /** Restores a group of an earlier process; a decided one is only loaded when it is requested. */
  restore(
    begun: { readonly groupId: string; readonly groupIndex: number },
    { isDecided }: { readonly isDecided: boolean },
  ): void {
    const { jobs } = this.#dependencies;
    const { groupId, groupIndex } = begun;
    if (isDecided) return jobs.addUnloaded(groupRequestOf(this.#options.request, groupId), this.#identity(begun));
    const group = this.#make({ groupId, groupIndex });
    jobs.pin(group);
    this.#open.set(groupId, { group, logged: Promise.resolve(), isEarlier: true });
  }

  readonly begin = (begun: BegunGroup): void => {
    const { jobs, parts } = this.#dependencies;
    const groupIndex = jobs.nextNumber();
    const group = this.#make({ groupId: begun.groupId, groupIndex });
    jobs.pin(group);
    const { producerId } = this.#options;
    const logged = parts.requests.append({ type: "begin", producerId, groupIndex, ...begun });
    // Its episodes report the error.
    logged.catch(() => undefined);
    this.#open.set(begun.groupId, { group, logged, isEarlier: false });
  };

  readonly runEpisode: RunEpisode = async (_task, request) => {
    const { group, logged, isEarlier } = this.#open.get(request.groupId)!;
    const job = this.#dependencies.jobs.place(group, request.sampleIndex);
    // Episodes that stop because of a fault are resumed by the next process.
    const unsubscribe = subscribeToAbort(request.signal, () =>
      this.#options.state() === "failed" ? job.suspend() : job.cancel(),
    );
    try {
      // On disk before its first token, so that a later process knows how old its tokens are.
      await logged;
      const stored = isEarlier ? await this.#stored(job, request) : null;
      const finished = stored ?? (await this.#run(job, request));
      if (!this.#isFrozen) return finished;
    } catch (error) {
      if (!job.isSuspended && job.status !== "ended") job.end(notRun(error), { isStored: false });
      if (!this.#isFrozen) throw error;
    } finally {
      unsubscribe();
    }
    // Left to the next process: closing decides nothing.
    return new Promise(() => undefined);
  };

  readonly decide = ({ group }: { readonly group: GroupRecord }): Promise<void> => {
    const deciding = this.#decide(group).finally(() => this.#deciding.delete(deciding));
    this.#deciding.add(deciding);
    return deciding;
  };

  /** Closes the groups of a cancelled producer undecided. Those that are being handed over still are. */
  abandon(): void {
    for (const { group } of this.#open.values()) this.#close(group);
  }

  /** Nothing reaches the library from now on. */
  freeze(): void {
    this.#isFrozen = true;
  }

  /** Resolves when no decision is being written any more. */
  async idle(): Promise<void> {
    while (this.#deciding.size > 0) await Promise.allSettled(this.#deciding);
  }

  #identity({ groupId, groupIndex }: { readonly groupId: string; readonly groupIndex: number }) {
    return { groupId, groupIndex, bodyHash: "", producerId: this.#options.producerId };
  }

  #make(begun: { readonly groupId: string; readonly groupIndex: number }): GroupJob {
    return openGroup(
      groupRequestOf(this.#options.request, begun.groupId),
      this.#identity(begun),
      this.#dependencies.parts,
    );
  }

  /** The episode as an earlier process stored it; `null` when it did not end there. */
  async #stored(job: EpisodeJob, { onRecorded }: EpisodeRequest): Promise<FinishedEpisode | null> {
    const episode = await this.#reads.run(() => this.#dependencies.parts.archive.find(job.place.episodeId));
    if (episode === null) return null;
    if (onRecorded !== undefined) episode.events.forEach(onRecorded);
    job.endStored(summarize(episode));
    return forDecision({ episode, result: { samples: [], dropped: [] }, origin: "stored" });
  }

  async #run(job: EpisodeJob, { onEvent, onRecorded }: EpisodeRequest): Promise<FinishedEpisode> {
    const { runner, state } = this.#options;
    // A group that ends early is decided with all its started episodes; groups of a cancelled producer are not decided.
    const runsCancelled = (): boolean => state() !== "cancelled";
    const options = { isProduced: true, runsCancelled, onEvent, onRecorded };
    const finished = await this.#dependencies.pool.run(job, runner, options);
    if (finished !== null) return forDecision(finished);
    if (!job.isSuspended) job.end(notStarted, { isStored: false });
    throw new Error(`Episode "${job.place.episodeId}" did not run.`);
  }

  async #decide(record: GroupRecord): Promise<void> {
    const { group } = this.#open.get(record.groupId)!;
    await this.#dependencies.pool.record({ ...record, groupIndex: group.groupIndex });
    this.#open.delete(record.groupId);
    this.#close(group);
  }

  #close(group: GroupJob): void {
    for (const job of group.jobs) if (job.status !== "ended") job.end(notStarted, { isStored: false });
    this.#dependencies.jobs.unpin(group);
  }
}

const noTokens = new Uint32Array(0);

/**
 * The part of an ended episode that its group's decision needs: how it ended, and how old its tokens are. Everything else is on
 * disk, and many groups may wait.
 */
function forDecision({ episode, origin }: FinishedEpisode): FinishedEpisode {
  const turns = episode.trajectory.turns.map((turn) => ({
    ...turn,
    observationTokens: noTokens,
    sampledTokens: noTokens,
    logprobs: null,
    finish: { ...turn.finish, raw: null },
  }));
  const light = { ...episode, grade: null, info: new Map(), messages: [], events: [], trajectory: { turns } };
  return { episode: light, result: { samples: [], dropped: [] }, origin };
}
