// Groups of one producer, from their beginning until they are decided: connects the library's
// callbacks (a group begins, an episode runs, a group is decided) with the service (jobs, pool,
// log, archive). The library's producer decides which group is next, and when.

import type { GroupRecord } from "../core/index.ts";
import { subscribeToAbort } from "../lib/deadline.ts";
import { createSemaphore } from "../lib/limits.ts";
import {
  type BegunGroup,
  type DispatchEpisode,
  type EndedEpisode,
  endedOf,
  type EpisodeRequest,
  type FinishedEpisode,
  type ProducerState,
  type RankGroup,
} from "../rollout/index.ts";
import { keptGroup, runnerOf, type SharedParts } from "./episode-pool.ts";
import { notRun, notStarted, viewSummary } from "./episode-view.ts";
import { type EpisodeJob, type GroupIdentity, type GroupJob, type GroupRequest, openGroup } from "./jobs.ts";
import type { LoggedBegin } from "./request-log.ts";
import type { ProducerRequest } from "./requests.ts";

export type GroupOwner = {
  readonly producerId: string;
  readonly request: ProducerRequest;
  readonly runner: DispatchEpisode;
  readonly state: () => ProducerState;
};

/**
 * Group id from task and visit, which a later process parses from it, in characters that are valid
 * in URLs.
 */
export function groupIdOf(producerId: string, taskIndex: number, visit: number): string {
  return `${producerId}-${taskIndex}-${visit}`;
}

/**
 * Maximum number of episodes that are read concurrently when a service resumes many groups: each is
 * an open file.
 */
const mostReads = 8;

type Begun = Pick<LoggedBegin, "groupId" | "groupIndex" | "adapter">;

export class ProducerGroups {
  readonly #shared: SharedParts;
  readonly #owner: GroupOwner;
  /** `isEarlier`: true if an earlier process began the group. */
  readonly #open = new Map<string, { readonly group: GroupJob; readonly isEarlier: boolean }>();
  readonly #reads = createSemaphore(mostReads);

  constructor(shared: SharedParts, owner: GroupOwner) {
    this.#shared = shared;
    this.#owner = owner;
  }

  /**
   * Restores the groups of earlier processes; closed ones are loaded only when they are requested.
   * Groups that were handed over and are missing in `decided` are recorded, and added to it.
   */
  async restore(
    begun: readonly LoggedBegin[],
    options: {
      readonly decided: Map<string, GroupRecord>;
      readonly handedOver: ReadonlySet<string>;
      readonly isCancelled: boolean;
    },
  ): Promise<void> {
    const { decided, handedOver, isCancelled } = options;
    const { jobs, pool } = this.#shared;
    for (const line of begun) {
      const { groupId } = line;
      if (isCancelled || handedOver.has(groupId) || decided.has(groupId)) {
        jobs.addUnloaded(this.#requestOf(groupId), this.#identityOf(line));
      } else this.#add(line, { isEarlier: true });
    }
    for (const groupId of handedOver) {
      const group = decided.has(groupId) ? null : await jobs.find(groupId);
      if (group === null) continue;
      const record = keptGroup(group);
      await pool.record(record);
      decided.set(groupId, record);
    }
  }

  readonly begin = (begun: BegunGroup): void => {
    const { jobs, parts, adapters } = this.#shared;
    const { groupId } = begun;
    const groupIndex = jobs.nextNumber();
    const { producerId, request } = this.#owner;
    const adapter = adapters.of(request.training);
    const bound = adapter === null ? {} : { adapter };
    const group = this.#add({ groupId, groupIndex, ...bound }, { isEarlier: false });
    group.logged = parts.requests.append(
      { type: "begin", producerId, groupIndex, ...begun, ...bound },
      { waits: true },
    );
    // The episodes of the group report the error.
    group.logged.catch(() => undefined);
  };

  readonly runEpisode: DispatchEpisode = async (_task, request) => {
    const { group, isEarlier } = this.#open.get(request.groupId)!;
    const job = this.#shared.jobs.place(group, request.sampleIndex);
    // Episodes that stop because the producer failed are resumed by the next process.
    const unsubscribe = subscribeToAbort(request.signal, () =>
      this.#owner.state() === "failed" ? job.suspend() : job.cancel(),
    );
    try {
      // The group is on disk before its first token, so that a later process knows the age of its
      // tokens.
      await group.logged;
      const stored = isEarlier ? await this.#stored(job, request) : null;
      const finished = stored ?? (await this.#run(group, job, request));
      if (!this.#shared.pool.isClosing) return finished;
    } catch (error) {
      if (!job.isSuspended && job.status !== "ended") job.end(notRun(error));
      if (!this.#shared.pool.isClosing) throw error;
    } finally {
      unsubscribe();
    }
    // The next process continues: a closing service decides nothing.
    return new Promise(() => undefined);
  };

  /** Comparison of groups; `null` if they are not compared. */
  get rank(): RankGroup | null {
    const { rank = null } = this.#shared.parts;
    const { pool } = this.#shared;
    if (rank === null) return null;
    const compare: RankGroup = async (finished, { seed, signal }) => {
      const { group } = this.#open.get(finished.plan.groupId)!;
      const compared = await rank(finished, { seed, signal: AbortSignal.any([signal, pool.cut]) });
      for (const { sampleIndex, ended: one } of compared.members) {
        if (one.origin !== "stored") await pool.settle(this.#shared.jobs.place(group, sampleIndex), one);
      }
      const members = compared.members.map((member) => ({ ...member, ended: this.#forDecision(member.ended) }));
      return { ...compared, members };
    };
    return async (finished, options) => {
      try {
        const compared = await pool.track(compare(finished, options));
        if (!pool.isClosing) return compared;
      } catch (error) {
        if (!pool.isClosing) throw error;
      }
      // The next process continues: a closing service decides nothing.
      return new Promise(() => undefined);
    };
  }

  readonly decide = ({ group: record }: { readonly group: GroupRecord }): Promise<void> =>
    this.#shared.pool.track(this.#decide(record));

  /**
   * Closes the groups of a cancelled producer without a decision. Groups that are being handed over
   * are still decided.
   */
  abandon(): void {
    if (this.#owner.state() !== "cancelled") return;
    for (const { group } of this.#open.values()) this.#close(group);
  }

  /** The group as a request of its own. */
  #requestOf(groupId: string): GroupRequest {
    const { split, groupSize, seed, policy, production } = this.#owner.request;
    const [taskIndex = 0, visit = 1] = groupId.split("-").slice(-2).map(Number);
    return { split, taskIndex, groupSize, seed, policy, visit, replacements: production.groups.replacements };
  }

  #identityOf({ groupId, groupIndex, adapter }: Begun): GroupIdentity {
    return { groupId, groupIndex, producerId: this.#owner.producerId, adapter: adapter ?? null };
  }

  #add(begun: Begun, { isEarlier }: { readonly isEarlier: boolean }): GroupJob {
    const { jobs, parts, adapters } = this.#shared;
    adapters.hold(begun.adapter ?? null, begun.groupId);
    const group = openGroup(this.#requestOf(begun.groupId), this.#identityOf(begun), parts);
    jobs.add(group, { isPinned: true });
    this.#open.set(group.groupId, { group, isEarlier });
    return group;
  }

  /** The episode that an earlier process stored; `null` if it did not end there. */
  async #stored(job: EpisodeJob, { onRecorded }: EpisodeRequest): Promise<EndedEpisode | null> {
    const episode = await this.#reads.run(() => this.#shared.parts.archive.find(job.place.episodeId));
    if (episode === null) return null;
    if (onRecorded !== undefined) episode.events.forEach(onRecorded);
    const stored = endedOf({ episode, result: { samples: [], dropped: [] }, origin: "stored" });
    job.restore(viewSummary(stored.summary), { isStored: true });
    return this.#isHeld ? stored : this.#forDecision(stored);
  }

  async #run(group: GroupJob, job: EpisodeJob, { onEvent, onRecorded }: EpisodeRequest): Promise<EndedEpisode> {
    const { state } = this.#owner;
    const runner = runnerOf(group, this.#owner.runner);
    // A group that ends early is decided with all its started episodes; groups of a cancelled
    // producer are not decided.
    const runsCancelled = (): boolean => state() !== "cancelled";
    const isHeld = this.#isHeld;
    const options = { isProduced: true, isHeld, runsCancelled, onEvent, onRecorded };
    const finished = await this.#shared.pool.run(job, runner, options);
    if (finished === null) throw new Error(`Episode "${job.place.episodeId}" did not run.`);
    return isHeld ? finished : this.#forDecision(finished);
  }

  /** True if episodes stay complete in memory and unstored until their group has been compared. */
  get #isHeld(): boolean {
    return (this.#shared.parts.rank ?? null) !== null;
  }

  async #decide(record: GroupRecord): Promise<void> {
    const { group } = this.#open.get(record.groupId)!;
    await this.#shared.pool.record({ ...record, groupIndex: group.groupIndex });
    this.#open.delete(record.groupId);
    this.#close(group);
  }

  #close(group: GroupJob): void {
    for (const job of group.jobs) if (job.status !== "ended") job.end(notStarted);
    this.#shared.jobs.unpin(group);
    this.#shared.adapters.release(group.adapter ?? null, group.groupId);
  }

  /**
   * The part of an ended episode that its group's decision needs: its outcome, and the age of its
   * tokens. The rest is on disk, because many groups may wait.
   */
  #forDecision({ summary, origin, counts }: EndedEpisode): EndedEpisode {
    const open = async (): Promise<FinishedEpisode> => {
      const ended = await this.#shared.pool.ended(summary.id);
      if (ended === null) throw new Error(`Episode "${summary.id}" is not in the archive.`);
      return { ...ended, origin };
    };
    return { summary, origin, counts, store: null, open };
  }
}
