// Requested groups: accepts, restores and cancels them. Here: identity (a key that comes twice is one request), and how many
// episodes may wait. Each group is run by a scheduler of its own over the shared pool of episodes.

import { createHash, randomUUID } from "node:crypto";
import { AttributedError } from "../core/index.ts";
import {
  type DispatchEpisode,
  type EndedEpisode,
  endedOf,
  summarizeEpisode,
  type FinishedGroup,
  type RankGroup,
  runGroups,
} from "../rollout/index.ts";
import { keptGroup, runnerAgain, runnerFor, type SharedParts } from "./episode-pool.ts";
import { notRun, notStarted, viewSummary } from "./episode-view.ts";
import { type EpisodeJob, type GroupJob, type GroupRequest, openGroup } from "./jobs.ts";
import type { LoggedRequest } from "./request-log.ts";
import { ServiceError, throwClosing } from "./service-error.ts";

/** A request as it arrived. The same key is the same request in every process, so one repeated after a restart finds its own. */
export type Submission = {
  /** `null`: the client gave none. */
  readonly key: string | null;
  readonly body: unknown;
};

/** The id of what a submission requests: the same for the same key. */
export function idOf({ key }: Submission, prefixes: { readonly keyed: string; readonly unkeyed: string }): string {
  if (key === null) return prefixes.unkeyed + randomUUID().replaceAll("-", "");
  return prefixes.keyed + createHash("sha256").update(key).digest("hex").slice(0, 32);
}

type Split = { readonly split: string | null };

/**
 * Throws a `ServiceError` for a key that came before with another request. Requests are compared by what they ask to be done: the order
 * of fields, older names, defaults that are spelled out, and fields of the answer (wait_seconds, rows) make no difference.
 */
export function checkSameRequest(
  known: Split,
  request: Split,
  { defaultSplit }: { readonly defaultSplit: string },
): void {
  const text = (one: Split): string => sortedJson({ ...one, split: one.split ?? defaultSplit });
  if (text(known) === text(request)) return;
  throw new ServiceError(
    "key-reused",
    "Cannot accept the request: its idempotency key came before with another body; use a new key for a new request.",
  );
}

/** JSON with the keys of objects in their order. */
function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([left], [right]) => (left < right ? -1 : 1)))
      : part,
  );
}

export class GroupRequests {
  readonly #shared: SharedParts;
  /** Episodes of requests that are not on disk yet; they neither have a permit nor wait for one. */
  #logging = 0;

  constructor(shared: SharedParts) {
    this.#shared = shared;
  }

  /**
   * Accepts a request, or finds the one that came with the same key. Resolves once it is on disk; its episodes then run on their
   * own. Throws a `ServiceError`.
   */
  async submit(
    request: GroupRequest,
    submission: Submission,
  ): Promise<{ readonly group: GroupJob; readonly isNew: boolean }> {
    const { parts, jobs, pool, guard } = this.#shared;
    const groupId = idOf(submission, { keyed: "k", unkeyed: "g" });
    if (guard.hasFault && jobs.find(groupId) === null) await guard.check();
    const found = jobs.find(groupId);
    const known = found instanceof Promise ? await found : found;
    if (known !== null) {
      checkSameRequest(known.request, request, parts);
      await known.logged;
      return { group: known, isNew: false };
    }
    this.#checkRoom(request);
    const runner = runnerFor(request.policy, parts);
    const opened = openGroup(request, { groupId, groupIndex: 0, producerId: null }, parts);
    const groupIndex = jobs.nextNumber();
    const group = { ...opened, groupIndex };
    const { key: idempotencyKey, body } = submission;
    jobs.add(group);
    this.#logging += request.groupSize;
    group.logged = parts.requests.append({ type: "request", groupId, groupIndex, idempotencyKey, body });
    try {
      await pool.track(group.logged);
    } catch (error) {
      jobs.remove(group);
      for (const job of group.jobs) job.end(notRun(error));
      throw error;
    } finally {
      this.#logging -= request.groupSize;
    }
    this.#start(group, runner);
    return { group, isNew: true };
  }

  /**
   * Resumes the requests of an earlier process: ended episodes are found in the archive, the others run. Call before
   * anything is submitted. `read` makes a request of a body that was accepted before; `decided`: groups that the store has.
   */
  async restore(
    earlier: readonly LoggedRequest[],
    options: { readonly read: (body: unknown) => GroupRequest; readonly decided: { has(groupId: string): boolean } },
  ): Promise<void> {
    const { parts, jobs } = this.#shared;
    const cancelled = new Set(earlier.flatMap((entry) => (entry.type === "cancel" ? entry.episodeIds : [])));
    for (const entry of earlier) {
      if (entry.type !== "request") continue;
      const { groupId, groupIndex } = entry;
      const request = options.read(entry.body);
      const identity = { groupId, groupIndex, producerId: null };
      if (options.decided.has(groupId)) {
        jobs.addUnloaded(request, identity);
        continue;
      }
      const group = openGroup(request, identity, parts);
      jobs.add(group);
      for (const job of group.jobs) {
        const { episodeId } = job.place;
        const episode = await parts.archive.find(episodeId);
        if (episode !== null) job.restore(viewSummary(summarizeEpisode(episode)), { isStored: true });
        else if (cancelled.has(episodeId)) job.restore(notStarted, { isStored: false });
      }
      this.#start(group, runnerAgain(request.policy, parts));
    }
  }

  /** Cancels those of these that have not ended. Throws a `ServiceError` for a group of a producer. */
  async cancel({ groupId, producerId }: GroupJob, jobs: readonly EpisodeJob[]): Promise<void> {
    if (producerId !== null) {
      throw new ServiceError(
        "of-a-producer",
        `Cannot cancel episodes of group "${groupId}": it belongs to producer "${producerId}"; cancel that.`,
      );
    }
    const live = jobs.filter(({ status }) => status !== "ended");
    if (live.length === 0) return;
    const episodeIds = live.map(({ place }) => place.episodeId);
    await this.#shared.parts.requests.append({ type: "cancel", groupId, episodeIds });
    for (const job of live) job.cancel();
  }

  #checkRoom({ groupSize }: GroupRequest): void {
    const { pool, limits } = this.#shared;
    if (pool.isClosing) throwClosing();
    const { concurrency, maxWaiting } = limits;
    const most = concurrency + maxWaiting;
    if (groupSize > most) {
      throw new ServiceError(
        "bad-request",
        `Cannot accept the request: it has ${groupSize} episodes, and this service holds ${most} at once; request fewer.`,
      );
    }
    if (pool.running + pool.waitingRequests + this.#logging + groupSize <= most) return;
    throw new ServiceError(
      "too-many",
      `Cannot accept the request: ${pool.waitingRequests} episodes wait, at most ${maxWaiting} may; try again later.`,
      { retryAfter: 1 },
    );
  }

  #start(group: GroupJob, runner: DispatchEpisode): void {
    const { parts, pool } = this.#shared;
    const { request, jobs } = group;
    const running = runGroups([group], {
      groupSize: request.groupSize,
      runEpisode: (_task, { sampleIndex }) => this.#run(jobs[sampleIndex]!, runner),
    }).then(([finished]) => this.#finish(group, finished));
    void pool.track(running.catch((error: unknown) => parts.onFault?.(error)));
  }

  /**
   * Returns `null` where groups are not compared: the group is recorded from its jobs, and its episodes need not stay in memory
   * until then.
   */
  async #run(job: EpisodeJob, runner: DispatchEpisode): Promise<EndedEpisode | null> {
    const { parts, pool } = this.#shared;
    const isHeld = (parts.rank ?? null) !== null;
    try {
      // An earlier process ended it.
      if (job.status === "ended") {
        const stored = isHeld && job.isStored ? await pool.ended(job.place.episodeId) : null;
        return stored === null ? null : endedOf({ ...stored, origin: "stored" });
      }
      const finished = await pool.run(job, runner, { isHeld });
      return isHeld ? finished : null;
    } catch (error) {
      // The disk failed, and not the episode: the next process resumes it.
      if (error instanceof AttributedError && error.failure.boundary === "store") job.suspend();
      if (!job.isSuspended) job.end(job.signal.aborted ? notStarted : notRun(error));
    }
    return null;
  }

  /** Compares and stores the episodes of a group that were held; those of a service that closes are left to the next process. */
  async #compare(rank: RankGroup, { jobs }: GroupJob, finished: FinishedGroup): Promise<void> {
    const { parts, pool } = this.#shared;
    const { seed } = parts;
    if (jobs.some(({ isSuspended }) => isSuspended)) return;
    const compared = await rank(finished, { seed, signal: pool.cut }).catch((error: unknown) => {
      if (pool.cut.aborted) return null;
      throw error;
    });
    for (const { sampleIndex, ended: one } of compared?.members ?? []) {
      if (one.origin !== "stored") await pool.settle(jobs[sampleIndex]!, one);
    }
  }

  /**
   * Records a group whose episodes have all ended, with its rows. Not recorded: groups that the service suspended, and those with
   * episodes that could not be run; the next process resumes both.
   */
  async #finish(group: GroupJob, finished: FinishedGroup | undefined): Promise<void> {
    const { rank = null } = this.#shared.parts;
    if (rank !== null && finished !== undefined) await this.#compare(rank, group, finished);
    const isOpen = group.jobs.some(
      ({ status, isStored, summary }) => status !== "ended" || (!isStored && summary.outcome === "failed"),
    );
    const record = keptGroup(group);
    if (!isOpen && record.episodeIds.length > 0) await this.#shared.pool.record(record);
  }
}
