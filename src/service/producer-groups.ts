// The groups of one producer, from their beginning until they are decided: what the library asks for (a group begins, an
// episode is played, a group is decided) in terms of the service (jobs, places, log, archive). Which group is next, and
// when, is the library's.

import { subscribeToAbort } from "../lib/deadline.ts";
import type { Clock } from "../lib/clock.ts";
import { createSemaphore } from "../lib/limits.ts";
import type { GroupRecord } from "../core/index.ts";
import type { BegunGroup, EpisodeRequest, RunEpisode, FinishedEpisode, ProducerState } from "../rollout/index.ts";
import type { EpisodeJob } from "./episode-job.ts";
import type { EpisodeStage } from "./episode-stage.ts";
import { notPlayed, notStarted, summarize } from "./episode-summary.ts";
import type { GroupJob } from "./group-job.ts";
import type { GroupMemory } from "./group-memory.ts";
import { openGroup } from "./open-group.ts";
import { groupRequestOf, type ProducerRequest } from "./producer-request.ts";
import type { ServiceParts } from "./service-parts.ts";

export type ProducerWorld = {
  readonly parts: ServiceParts;
  readonly memory: GroupMemory;
  readonly stage: EpisodeStage;
  /** Measures leases. */
  readonly clock: Clock;
};

export type ProducerGroupsOptions = {
  readonly producerId: string;
  readonly request: ProducerRequest;
  readonly player: RunEpisode;
  readonly state: () => ProducerState;
};

type OpenGroup = {
  readonly group: GroupJob;
  readonly logged: Promise<void>;
  /** An earlier process began it. */
  readonly isEarlier: boolean;
};

/** Episodes that are read at once when a service goes on with many groups: each is a file that is open. */
const mostReads = 8;

export class ProducerGroups {
  readonly #world: ProducerWorld;
  readonly #options: ProducerGroupsOptions;
  readonly #open = new Map<string, OpenGroup>();
  readonly #deciding = new Set<Promise<void>>();
  readonly #reads = createSemaphore(mostReads);
  #isFrozen = false;

  constructor(world: ProducerWorld, options: ProducerGroupsOptions) {
    this.#world = world;
    this.#options = options;
  }

  /** A group of an earlier process: it sleeps when nothing more will happen to it. */
  again(
    begun: { readonly groupId: string; readonly groupIndex: number },
    { isOver }: { readonly isOver: boolean },
  ): void {
    const { memory } = this.#world;
    const { groupId, groupIndex } = begun;
    if (isOver) return memory.addAsleep(groupRequestOf(this.#options.request, groupId), this.#identity(begun));
    const group = this.#make({ groupId, groupIndex });
    memory.hold(group);
    this.#open.set(groupId, { group, logged: Promise.resolve(), isEarlier: true });
  }

  readonly begin = (begun: BegunGroup): void => {
    const { memory, parts } = this.#world;
    const groupIndex = memory.takeNumber();
    const group = this.#make({ groupId: begun.groupId, groupIndex });
    memory.hold(group);
    const { producerId } = this.#options;
    const logged = parts.requests.append({ type: "begin", producerId, groupIndex, ...begun });
    // Told by its episodes.
    logged.catch(() => undefined);
    this.#open.set(begun.groupId, { group, logged, isEarlier: false });
  };

  readonly runEpisode: RunEpisode = async (_task, place) => {
    const { group, logged, isEarlier } = this.#open.get(place.groupId)!;
    const job = this.#world.memory.place(group, place.sampleIndex);
    // What stops because of a fault is left to the next process.
    const leave = subscribeToAbort(place.signal, () =>
      this.#options.state() === "failed" ? job.cutOff() : job.cancel(),
    );
    try {
      // On disk before its first token, so that a later process knows how old its tokens are.
      await logged;
      const kept = isEarlier ? await this.#kept(job, place) : null;
      const played = kept ?? (await this.#perform(job, place));
      if (!this.#isFrozen) return played;
    } catch (error) {
      if (!job.isCutOff && job.status !== "ended") job.end(notPlayed(error), { isKept: false });
      if (!this.#isFrozen) throw error;
    } finally {
      leave();
    }
    // The next process hears of it: nothing is decided by closing.
    return new Promise(() => undefined);
  };

  readonly decide = ({ group }: { readonly group: GroupRecord }): Promise<void> => {
    const deciding = this.#decide(group).finally(() => this.#deciding.delete(deciding));
    this.#deciding.add(deciding);
    return deciding;
  };

  /** Groups are over though nobody decided them: their producer was cancelled. Those that are handed over just now still are. */
  abandon(): void {
    for (const { group } of this.#open.values()) this.#close(group);
  }

  /** Nothing that happens from now on reaches the library. */
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
    return openGroup(groupRequestOf(this.#options.request, begun.groupId), this.#identity(begun), this.#world.parts);
  }

  /** As an earlier process played it; `null` when it did not end there. */
  async #kept(job: EpisodeJob, { onRecorded }: EpisodeRequest): Promise<FinishedEpisode | null> {
    const episode = await this.#reads.run(() => this.#world.parts.archive.find(job.place.episodeId));
    if (episode === null) return null;
    if (onRecorded !== undefined) episode.events.forEach(onRecorded);
    job.endBefore(summarize(episode));
    return forDecision({ episode, result: { samples: [], dropped: [] }, origin: "stored" });
  }

  async #perform(job: EpisodeJob, { onEvent, onRecorded }: EpisodeRequest): Promise<FinishedEpisode> {
    const { player, state } = this.#options;
    // A group that ends early is decided with all the episodes that had their turn; nobody decides those of a cancelled producer.
    const endsUnbegun = (): boolean => state() !== "cancelled";
    const options = { isProduced: true, endsUnbegun, onEvent, onRecorded };
    const played = await this.#world.stage.play(job, player, options);
    if (played !== null) return forDecision(played);
    if (!job.isCutOff) job.end(notStarted, { isKept: false });
    throw new Error(`Episode "${job.place.episodeId}" was not played.`);
  }

  async #decide(record: GroupRecord): Promise<void> {
    const { group } = this.#open.get(record.groupId)!;
    await this.#world.stage.record({ ...record, groupIndex: group.groupIndex });
    this.#open.delete(record.groupId);
    this.#close(group);
  }

  #close(group: GroupJob): void {
    for (const job of group.jobs) if (job.status !== "ended") job.end(notStarted, { isKept: false });
    this.#world.memory.letGo(group);
  }
}

const noTokens = new Uint32Array(0);

/**
 * What is needed of an ended episode until its group is decided: how it ended, and how old its tokens are. Everything else is
 * on disk, and many groups may wait.
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
