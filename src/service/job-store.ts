// The groups that the service knows: recent ones with their episodes, older ones as the request they came from, so that a service
// may run for months and start at once. An older group is loaded again from the archive when it is requested.
//
//   loaded ─► unloaded (ended, and too many are loaded)
//     └────────◄──── requested again

import {
  type EpisodeJob,
  type EpisodeSummary,
  type GroupIdentity,
  type GroupJob,
  type GroupRequest,
  notStarted,
  summarize,
} from "./jobs.ts";
import type { EpisodeArchive } from "./service-options.ts";

type UnloadedGroup = {
  readonly identity: GroupIdentity;
  readonly request: GroupRequest;
  /** Of episodes that the archive does not have. */
  readonly summaries: ReadonlyMap<string, EpisodeSummary>;
};

export type JobStoreOptions = {
  readonly archive: EpisodeArchive;
  /** Episodes of loaded groups; ended groups beyond them are unloaded. */
  readonly maxRemembered: number;
  /** Makes a group whose episodes wait. */
  readonly open: (request: GroupRequest, identity: GroupIdentity) => GroupJob;
};

export class JobStore {
  readonly #options: JobStoreOptions;
  readonly #groups = new Map<string, GroupJob>();
  readonly #jobs = new Map<string, EpisodeJob>();
  readonly #unloaded = new Map<string, UnloadedGroup>();
  readonly #loading = new Map<string, Promise<GroupJob>>();
  /** Groups that are not decided yet, though their episodes may all have ended. */
  readonly #pinned = new Set<string>();
  #groupCount = 0;

  constructor(options: JobStoreOptions) {
    this.#options = options;
  }

  /** Episodes of loaded groups. */
  all(): Iterable<EpisodeJob> {
    return this.#jobs.values();
  }

  job(episodeId: string): EpisodeJob | null {
    return this.#jobs.get(episodeId) ?? null;
  }

  loaded(groupId: string): GroupJob | null {
    return this.#groups.get(groupId) ?? null;
  }

  isUnloaded(groupId: string): boolean {
    return this.#unloaded.has(groupId);
  }

  /** Loads it when it is unloaded. Rejects when the archive cannot be read. */
  async find(groupId: string): Promise<GroupJob | null> {
    const loaded = this.#groups.get(groupId);
    if (loaded !== undefined) return loaded;
    const unloaded = this.#unloaded.get(groupId);
    if (unloaded === undefined) return null;
    // Concurrent calls get the same group.
    const loading = this.#loading.get(groupId) ?? this.#load(unloaded).finally(() => this.#loading.delete(groupId));
    this.#loading.set(groupId, loading);
    return loading;
  }

  /** The number of the next group. */
  nextNumber(): number {
    return this.#groupCount++;
  }

  /** An earlier process used this number. */
  reserveNumber(groupIndex: number): void {
    this.#groupCount = Math.max(this.#groupCount, groupIndex + 1);
  }

  add(group: GroupJob): void {
    this.#groups.set(group.groupId, group);
    for (const job of group.jobs) this.#jobs.set(job.place.episodeId, job);
  }

  /** Adds a group that stays loaded until it is unpinned: its producer has not decided it. */
  pin(group: GroupJob): void {
    this.#pinned.add(group.groupId);
    this.add(group);
  }

  unpin(group: GroupJob): void {
    this.#pinned.delete(group.groupId);
    this.trim();
  }

  /** The episode at a place of a loaded group; a replacement of another is new. */
  place(group: GroupJob, sampleIndex: number): EpisodeJob {
    const known = group.jobs.find(({ place }) => place.sampleIndex === sampleIndex);
    if (known !== undefined) return known;
    const job = group.another(sampleIndex);
    group.jobs.push(job);
    this.#jobs.set(job.place.episodeId, job);
    return job;
  }

  /** Forgets a group whose request was not accepted. */
  remove(group: GroupJob): void {
    this.#groups.delete(group.groupId);
    for (const job of group.jobs) this.#jobs.delete(job.place.episodeId);
  }

  /** A group of an earlier process, all of whose episodes have ended. */
  addUnloaded(request: GroupRequest, identity: GroupIdentity): void {
    this.#unloaded.set(identity.groupId, { identity, request, summaries: new Map() });
  }

  /** Unloads the oldest that have ended while too many are loaded. */
  trim(): void {
    for (const group of this.#groups.values()) {
      if (this.#jobs.size <= this.#options.maxRemembered) break;
      if (this.#pinned.has(group.groupId)) continue;
      if (group.jobs.every(({ status }) => status === "ended")) this.#unload(group);
    }
  }

  #unload(group: GroupJob): void {
    const { groupId, groupIndex, bodyHash, producerId, request, jobs } = group;
    const summaries = new Map<string, EpisodeSummary>();
    for (const { place, summary, isStored } of jobs) {
      if (!isStored && summary !== null) summaries.set(place.episodeId, summary);
    }
    this.remove(group);
    this.#unloaded.set(groupId, { identity: { groupId, groupIndex, bodyHash, producerId }, request, summaries });
  }

  async #load({ request, identity, summaries }: UnloadedGroup): Promise<GroupJob> {
    const { archive, open } = this.#options;
    const group = open(request, identity);
    const { groupSize, replacements } = request;
    for (let sampleIndex = 0; sampleIndex < groupSize + replacements; sampleIndex++) {
      const isReplacement = sampleIndex >= groupSize;
      const job = isReplacement ? group.another(sampleIndex) : group.jobs[sampleIndex]!;
      const episode = await archive.find(job.place.episodeId);
      if (episode !== null) {
        job.endStored(summarize(episode));
        if (isReplacement) group.jobs.push(job);
      } else if (!isReplacement) {
        job.end(summaries.get(job.place.episodeId) ?? notStarted, { isStored: false });
        job.forgetEvents();
      }
    }
    this.#unloaded.delete(identity.groupId);
    this.add(group);
    this.trim();
    return group;
  }
}
