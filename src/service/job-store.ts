// Groups that the service knows: recent ones with their episodes, older ones only as the request
// that created them, so that a service can run for months and start quickly. An older group is
// loaded again from the archive when it is requested.
//
//   loaded ─► unloaded (ended, and too many are loaded)
//     └────────◄──── requested again

import { summarizeEpisode } from "../rollout/index.ts";
import { type EpisodeSummary, notStarted, viewSummary } from "./episode-view.ts";
import { type EpisodeJob, type GroupIdentity, type GroupJob, type GroupRequest, openGroup } from "./jobs.ts";
import type { ServiceParts } from "./service-options.ts";

type UnloadedGroup = {
  readonly identity: GroupIdentity;
  readonly request: GroupRequest;
  /** Summaries of episodes that the archive does not have. */
  readonly summaries: ReadonlyMap<string, EpisodeSummary>;
};

export class JobStore {
  readonly #parts: ServiceParts;
  /** Maximum number of episodes of loaded groups; ended groups beyond it are unloaded. */
  readonly #maxRemembered: number;
  readonly #groups = new Map<string, GroupJob>();
  readonly #jobs = new Map<string, EpisodeJob>();
  readonly #unloaded = new Map<string, UnloadedGroup>();
  readonly #loading = new Map<string, Promise<GroupJob>>();
  /** Groups that are not decided yet, even if all their episodes have ended. */
  readonly #pinned = new Set<string>();
  #nextNumber = 0;

  constructor(parts: ServiceParts, { maxRemembered }: { readonly maxRemembered: number }) {
    this.#parts = parts;
    this.#maxRemembered = maxRemembered;
  }

  /** All episodes of loaded groups. */
  all(): Iterable<EpisodeJob> {
    return this.#jobs.values();
  }

  /** An episode of a loaded group. */
  job(episodeId: string): EpisodeJob | null {
    return this.#jobs.get(episodeId) ?? null;
  }

  /** A group; a promise if it is not loaded, which rejects if the archive cannot be read. */
  find(groupId: string): GroupJob | Promise<GroupJob> | null {
    const unloaded = this.#unloaded.get(groupId);
    if (unloaded === undefined) return this.#groups.get(groupId) ?? null;
    // Concurrent calls get the same promise.
    const loading = this.#loading.get(groupId) ?? this.#load(unloaded).finally(() => this.#loading.delete(groupId));
    this.#loading.set(groupId, loading);
    return loading;
  }

  /** An episode, also of a group that is not loaded. */
  async findJob(episodeId: string): Promise<EpisodeJob | null> {
    const group = await this.find(episodeId.slice(0, Math.max(0, episodeId.lastIndexOf("."))));
    return group?.jobs.find(({ place }) => place.episodeId === episodeId) ?? null;
  }

  /** Number of the next group. */
  nextNumber(): number {
    return this.#nextNumber++;
  }

  /** Reserves a number that an earlier process used. */
  reserveNumber(groupIndex: number): void {
    this.#nextNumber = Math.max(this.#nextNumber, groupIndex + 1);
  }

  /**
   * Adds a group. `isPinned`: true if it must stay loaded until it is unpinned, because its
   * producer has not decided it.
   */
  add(group: GroupJob, { isPinned = false }: { readonly isPinned?: boolean } = {}): void {
    if (isPinned) this.#pinned.add(group.groupId);
    this.#groups.set(group.groupId, group);
    for (const job of group.jobs) this.#jobs.set(job.place.episodeId, job);
  }

  unpin(group: GroupJob): void {
    this.#pinned.delete(group.groupId);
    this.trim();
  }

  /** The episode at an index of a loaded group; the job of a replacement is created. */
  place(group: GroupJob, sampleIndex: number): EpisodeJob {
    const known = group.jobs.find(({ place }) => place.sampleIndex === sampleIndex);
    if (known !== undefined) return known;
    const job = group.another(sampleIndex);
    group.jobs.push(job);
    this.#jobs.set(job.place.episodeId, job);
    return job;
  }

  /** Removes a group whose request was not accepted. */
  remove(group: GroupJob): void {
    this.#groups.delete(group.groupId);
    for (const job of group.jobs) this.#jobs.delete(job.place.episodeId);
  }

  /** Adds a group of an earlier process whose episodes have all ended. */
  addUnloaded(request: GroupRequest, identity: GroupIdentity, summaries = new Map<string, EpisodeSummary>()): void {
    this.#unloaded.set(identity.groupId, { identity, request, summaries });
  }

  /** Unloads the oldest ended groups while too many are loaded. */
  trim(): void {
    for (const group of this.#groups.values()) {
      if (this.#jobs.size <= this.#maxRemembered) break;
      if (this.#pinned.has(group.groupId) || group.jobs.some(({ status }) => status !== "ended")) continue;
      const { groupId, groupIndex, producerId, request, jobs } = group;
      const notStored = jobs.filter(({ isStored }) => !isStored);
      this.remove(group);
      this.addUnloaded(
        request,
        { groupId, groupIndex, producerId },
        new Map(notStored.map(({ place, summary }) => [place.episodeId, summary])),
      );
    }
  }

  async #load({ request, identity, summaries }: UnloadedGroup): Promise<GroupJob> {
    const group = openGroup(request, identity, this.#parts);
    const { groupSize, replacements } = request;
    for (let sampleIndex = 0; sampleIndex < groupSize + replacements; sampleIndex++) {
      const job = group.jobs[sampleIndex] ?? group.another(sampleIndex);
      const episode = await this.#parts.archive.find(job.place.episodeId);
      if (episode !== null) job.restore(viewSummary(summarizeEpisode(episode)), { isStored: true });
      else job.restore(summaries.get(job.place.episodeId) ?? notStarted, { isStored: false });
      if (sampleIndex >= groupSize && job.isStored) group.jobs.push(job);
    }
    this.#unloaded.delete(identity.groupId);
    this.add(group);
    this.trim();
    return group;
  }
}
