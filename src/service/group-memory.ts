// Which groups the service knows: those of late with their episodes, older ones as the request they came from, so that a
// service may run for months and start at once. An older group that somebody asks for is read from the archive.
//
//   awake ─► asleep (ended, and too many are awake)
//     └───────◄──── asked for again

import type { EpisodeJob } from "./episode-job.ts";
import { type EpisodeSummary, notStarted, summarize } from "./episode-summary.ts";
import type { GroupIdentity, GroupJob, GroupRequest } from "./group-job.ts";
import type { EpisodeArchive } from "./service-parts.ts";

type SleepingGroup = {
  readonly identity: GroupIdentity;
  readonly request: GroupRequest;
  /** What became of episodes that the archive does not have. */
  readonly unkept: ReadonlyMap<string, EpisodeSummary>;
};

export type GroupMemoryOptions = {
  readonly archive: EpisodeArchive;
  /** Episodes of groups that are awake; ended groups beyond them are put to sleep. */
  readonly maxRemembered: number;
  /** Makes a group whose episodes wait. */
  readonly open: (request: GroupRequest, identity: GroupIdentity) => GroupJob;
};

export class GroupMemory {
  readonly #options: GroupMemoryOptions;
  readonly #groups = new Map<string, GroupJob>();
  readonly #jobs = new Map<string, EpisodeJob>();
  readonly #asleep = new Map<string, SleepingGroup>();
  readonly #waking = new Map<string, Promise<GroupJob>>();
  /** Groups that are not over yet, though their episodes may all have ended. */
  readonly #held = new Set<string>();
  #groupCount = 0;

  constructor(options: GroupMemoryOptions) {
    this.#options = options;
  }

  /** Episodes of groups that are awake. */
  get size(): number {
    return this.#jobs.size;
  }

  jobs(): Iterable<EpisodeJob> {
    return this.#jobs.values();
  }

  job(episodeId: string): EpisodeJob | null {
    return this.#jobs.get(episodeId) ?? null;
  }

  awake(groupId: string): GroupJob | null {
    return this.#groups.get(groupId) ?? null;
  }

  /** It is known, but not awake. */
  isAsleep(groupId: string): boolean {
    return this.#asleep.has(groupId);
  }

  /** Wakes it when it sleeps. Rejects when the archive cannot be read. */
  async find(groupId: string): Promise<GroupJob | null> {
    const awake = this.#groups.get(groupId);
    if (awake !== undefined) return awake;
    const sleeping = this.#asleep.get(groupId);
    if (sleeping === undefined) return null;
    // Two who ask at once get the same.
    const waking = this.#waking.get(groupId) ?? this.#wake(sleeping).finally(() => this.#waking.delete(groupId));
    this.#waking.set(groupId, waking);
    return waking;
  }

  /** The number of the next group. */
  takeNumber(): number {
    return this.#groupCount++;
  }

  /** An earlier process gave this number away. */
  passNumber(groupIndex: number): void {
    this.#groupCount = Math.max(this.#groupCount, groupIndex + 1);
  }

  /** A group that stays awake until it is let go: its producer has not decided it. */
  hold(group: GroupJob): void {
    this.#held.add(group.groupId);
    this.add(group);
  }

  letGo(group: GroupJob): void {
    this.#held.delete(group.groupId);
    this.trim();
  }

  /** The episode at a place of a group that is awake; one that takes the place of another is new. */
  place(group: GroupJob, sampleIndex: number): EpisodeJob {
    const known = group.jobs.find(({ place }) => place.sampleIndex === sampleIndex);
    if (known !== undefined) return known;
    const job = group.another(sampleIndex);
    group.jobs.push(job);
    this.#jobs.set(job.place.episodeId, job);
    return job;
  }

  add(group: GroupJob): void {
    this.#groups.set(group.groupId, group);
    for (const job of group.jobs) this.#jobs.set(job.place.episodeId, job);
  }

  /** As if it had never been asked for. */
  remove(group: GroupJob): void {
    this.#groups.delete(group.groupId);
    for (const job of group.jobs) this.#jobs.delete(job.place.episodeId);
  }

  /** A group of an earlier process, all of whose episodes have ended. */
  addAsleep(request: GroupRequest, identity: GroupIdentity): void {
    this.#asleep.set(identity.groupId, { identity, request, unkept: new Map() });
  }

  /** Puts the oldest that have ended to sleep while too many are awake. */
  trim(): void {
    for (const group of this.#groups.values()) {
      if (this.#jobs.size <= this.#options.maxRemembered) break;
      if (this.#held.has(group.groupId)) continue;
      if (group.jobs.every(({ status }) => status === "ended")) this.#sleep(group);
    }
  }

  #sleep(group: GroupJob): void {
    const { groupId, groupIndex, bodyHash, producerId, request, jobs } = group;
    const unkept = new Map<string, EpisodeSummary>();
    for (const { place, summary, isKept } of jobs)
      if (!isKept && summary !== null) unkept.set(place.episodeId, summary);
    this.remove(group);
    this.#asleep.set(groupId, { identity: { groupId, groupIndex, bodyHash, producerId }, request, unkept });
  }

  async #wake({ request, identity, unkept }: SleepingGroup): Promise<GroupJob> {
    const { archive, open } = this.#options;
    const group = open(request, identity);
    for (const job of group.jobs) {
      const { episodeId } = job.place;
      const episode = await archive.find(episodeId);
      if (episode === null) {
        job.end(unkept.get(episodeId) ?? notStarted, { isKept: false });
        job.forgetEvents();
      } else {
        job.endBefore(summarize(episode));
      }
    }
    const { samples, replacements } = request;
    for (let sampleIndex = samples; sampleIndex < samples + replacements; sampleIndex++) {
      const job = group.another(sampleIndex);
      const episode = await archive.find(job.place.episodeId);
      if (episode === null) continue;
      job.endBefore(summarize(episode));
      group.jobs.push(job);
    }
    this.#asleep.delete(identity.groupId);
    this.add(group);
    this.trim();
    return group;
  }
}
