// Requested groups: accepts, restores and cancels them. This file decides about identity (a
// repeated key is the same request), and about the number of episodes that may wait. Each group has
// its own scheduler over the shared pool of episodes.

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
import { keptGroup, runnerAgain, runnerFor, runnerOf, type SharedParts } from "./episode-pool.ts";
import { notRun, notStarted, viewSummary } from "./episode-view.ts";
import { type EpisodeJob, type GroupJob, type GroupRequest, openGroup } from "./jobs.ts";
import type { LoggedRequest } from "./request-log.ts";
import { ServiceError, throwClosing } from "./service-error.ts";

/**
 * A request as received. The same key identifies the same request in every process, so a request
 * that is repeated after a restart finds the first one.
 */
export type Submission = {
  /** Idempotency key; `null` if the client sent none. */
  readonly key: string | null;
  readonly body: unknown;
};

/** Id of the group or episode for a submission: the same for the same key. */
export function idOf({ key }: Submission, prefixes: { readonly keyed: string; readonly unkeyed: string }): string {
  if (key === null) return prefixes.unkeyed + randomUUID().replaceAll("-", "");
  return prefixes.keyed + createHash("sha256").update(key).digest("hex").slice(0, 32);
}

type Split = { readonly split: string | null };

/**
 * Throws a `ServiceError` for a key that was already used for a different request. Requests are
 * compared by the work that they request: the order of fields, older names, explicit defaults, and
 * fields about the answer (wait_seconds, rows) make no difference.
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

/** JSON with sorted object keys. */
function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([left], [right]) => (left < right ? -1 : 1)))
      : part,
  );
}

export class GroupRequests {
  readonly #shared: SharedParts;
  /**
   * Number of episodes of requests that are not on disk yet; they neither have a permit nor wait
   * for one.
   */
  #logging = 0;

  constructor(shared: SharedParts) {
    this.#shared = shared;
  }

  /**
   * Accepts a request, or finds the request with the same key. Resolves once it is on disk; its
   * episodes then run in the background. Throws a `ServiceError`.
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
    const adapter = this.#shared.adapters.of(null);
    const opened = openGroup(request, { groupId, groupIndex: 0, producerId: null, adapter }, parts);
    const groupIndex = jobs.nextNumber();
    const group = { ...opened, groupIndex };
    const { key: idempotencyKey, body } = submission;
    jobs.add(group);
    this.#logging += request.groupSize;
    const line = { type: "request", groupId, groupIndex, idempotencyKey, body } as const;
    group.logged = parts.requests.append(adapter === null ? line : { ...line, adapter });
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
   * Resumes the requests of an earlier process: ended episodes are found in the archive, the others
   * run. Call it before anything is submitted. `read` parses a body that was already accepted;
   * `decided`: groups that the store has.
   */
  async restore(
    earlier: readonly LoggedRequest[],
    options: { readonly read: (body: unknown) => GroupRequest; readonly decided: { has(groupId: string): boolean } },
  ): Promise<void> {
    const { parts, jobs } = this.#shared;
    const cancelled = new Set(earlier.flatMap((entry) => (entry.type === "cancel" ? entry.episodeIds : [])));
    for (const entry of earlier) {
      if (entry.type !== "request") continue;
      const { groupId, groupIndex, adapter = null } = entry;
      const request = options.read(entry.body);
      const identity = { groupId, groupIndex, producerId: null, adapter };
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

  /**
   * Cancels those of the jobs that have not ended. Throws a `ServiceError` for a group of a
   * producer.
   */
  async cancel({ groupId, producerId }: GroupJob, jobs: readonly EpisodeJob[]): Promise<void> {
    if (producerId !== null) {
      throw new ServiceError(
        "of-a-producer",
        `Cannot cancel episodes of group "${groupId}": it belongs to producer "${producerId}"; cancel the producer.`,
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
        `Cannot accept the request: it has ${groupSize} episodes, but this service accepts at most ${most} at once; request fewer.`,
      );
    }
    if (pool.running + pool.waitingRequests + this.#logging + groupSize <= most) return;
    throw new ServiceError(
      "too-many",
      `Cannot accept the request: ${pool.waitingRequests} episodes are waiting, the limit is ${maxWaiting}; try again later.`,
      { retryAfter: 1 },
    );
  }

  #start(group: GroupJob, runner: DispatchEpisode): void {
    const { parts, pool, adapters } = this.#shared;
    const { request, jobs, groupId, adapter = null } = group;
    adapters.hold(adapter, groupId);
    const bound = runnerOf(group, runner);
    const running = runGroups([group], {
      groupSize: request.groupSize,
      runEpisode: (_task, { sampleIndex }) => this.#run(jobs[sampleIndex]!, bound),
    }).then(([finished]) => this.#finish(group, finished));
    const ended = running.finally(() => adapters.release(adapter, groupId));
    void pool.track(ended.catch((error: unknown) => parts.onFault?.(error)));
  }

  /**
   * Runs a job. Resolves with `null` if groups are not compared: the group is recorded from its
   * jobs, and its episodes need not stay in memory until then.
   */
  async #run(job: EpisodeJob, runner: DispatchEpisode): Promise<EndedEpisode | null> {
    const { parts, pool } = this.#shared;
    const isHeld = (parts.rank ?? null) !== null;
    try {
      // The episode ended in an earlier process.
      if (job.status === "ended") {
        const stored = isHeld && job.isStored ? await pool.ended(job.place.episodeId) : null;
        return stored === null ? null : endedOf({ ...stored, origin: "stored" });
      }
      const finished = await pool.run(job, runner, { isHeld });
      return isHeld ? finished : null;
    } catch (error) {
      // The disk failed, not the episode: the next process resumes it.
      if (error instanceof AttributedError && error.failure.boundary === "store") job.suspend();
      if (!job.isSuspended) job.end(job.signal.aborted ? notStarted : notRun(error));
    }
    return null;
  }

  /**
   * Compares and stores the held episodes of a group; if the service closes, the next process does
   * this.
   */
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
   * Records a group whose episodes have all ended, with its rows. Groups that the service
   * suspended, and groups with episodes that could not be run, are not recorded; the next process
   * resumes both.
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
