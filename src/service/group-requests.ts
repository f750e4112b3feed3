// Requested groups: accepts them and reports their state. Here: identity (a key that comes twice is one request), and how many
// episodes may wait. Each group is run by a scheduler of its own over the shared pool of episodes.

import { createHash, randomUUID } from "node:crypto";
import { type RunEpisode, runGroups } from "../rollout/index.ts";
import { type EpisodePool, runnerAgain, runnerFor } from "./episode-pool.ts";
import type { JobStore } from "./job-store.ts";
import { type EpisodeJob, type GroupJob, type GroupRequest, notRun, notStarted, openGroup, summarize } from "./jobs.ts";
import type { LoggedRequest } from "./request-log.ts";
import { ServiceError, throwClosing } from "./service-error.ts";
import type { ServiceLimits, ServiceParts } from "./service-options.ts";

/** A request as it arrived. The same key is the same request in every process, so one repeated after a restart finds its own. */
export type Submission = {
  /** `null`: the client gave none. */
  readonly key: string | null;
  readonly body: unknown;
};

/** Id and hash of a submission. */
export function identify({ key, body }: Submission, prefixes: { readonly keyed: string; readonly unkeyed: string }) {
  const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
  const id =
    key === null ? prefixes.unkeyed + randomUUID().replaceAll("-", "") : prefixes.keyed + sha256(key).slice(0, 32);
  return { id, bodyHash: sha256(JSON.stringify(body)) };
}

/** Throws a `ServiceError` for a key that came before with another body. */
export function checkSameBody(known: { readonly bodyHash: string }, bodyHash: string): void {
  if (known.bodyHash === bodyHash) return;
  throw new ServiceError(
    "key-reused",
    "Cannot accept the request: its idempotency key came before with another body; use a new key for a new request.",
  );
}

export class GroupRequests {
  readonly #parts: ServiceParts;
  readonly #limits: ServiceLimits;
  readonly #jobs: JobStore;
  readonly #pool: EpisodePool;
  /** Requests that are not on disk yet, by group; their episodes neither have a permit nor wait for one. */
  readonly #logging = new Map<string, { readonly logged: Promise<void>; readonly groupSize: number }>();
  readonly #running = new Set<Promise<void>>();
  #isClosing = false;

  constructor(
    parts: ServiceParts,
    limits: ServiceLimits,
    { jobs, pool }: { readonly jobs: JobStore; readonly pool: EpisodePool },
  ) {
    this.#parts = parts;
    this.#limits = limits;
    this.#jobs = jobs;
    this.#pool = pool;
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  /**
   * Accepts a request, or finds the one that came with the same key. Resolves once it is on disk; its episodes then run on their
   * own. Throws a `ServiceError`.
   */
  async submit(
    request: GroupRequest,
    submission: Submission,
  ): Promise<{ readonly group: GroupJob; readonly isNew: boolean }> {
    const { id: groupId, bodyHash } = identify(submission, { keyed: "k", unkeyed: "g" });
    const reloaded = this.#jobs.isUnloaded(groupId) ? await this.#jobs.find(groupId) : null;
    const known = reloaded ?? this.#jobs.loaded(groupId);
    if (known !== null) {
      checkSameBody(known, bodyHash);
      await this.#logging.get(groupId)?.logged;
      return { group: known, isNew: false };
    }
    this.#checkRoom(request);
    const runner = runnerFor(request.policy, this.#parts);
    const opened = openGroup(request, { groupId, groupIndex: 0, bodyHash, producerId: null }, this.#parts);
    const group = { ...opened, groupIndex: this.#jobs.nextNumber() };
    this.#jobs.add(group);
    await this.#log(group, submission);
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
    const cancelled = new Set(earlier.flatMap((entry) => (entry.type === "cancel" ? entry.episodeIds : [])));
    for (const entry of earlier) {
      if (entry.type !== "request") continue;
      const { groupId, groupIndex, bodyHash } = entry;
      this.#jobs.reserveNumber(groupIndex);
      const request = options.read(entry.body);
      const identity = { groupId, groupIndex, bodyHash, producerId: null };
      if (options.decided.has(groupId)) {
        this.#jobs.addUnloaded(request, identity);
        continue;
      }
      const group = openGroup(request, identity, this.#parts);
      this.#jobs.add(group);
      for (const job of group.jobs) {
        const { episodeId } = job.place;
        const episode = await this.#parts.archive.find(episodeId);
        if (episode !== null) job.endStored(summarize(episode));
        else if (cancelled.has(episodeId)) job.end(notStarted, { isStored: false });
      }
      this.#start(group, runnerAgain(request.policy, this.#parts));
    }
  }

  /** Rejects when the archive cannot be read. */
  group(groupId: string): Promise<GroupJob | null> {
    return this.#jobs.find(groupId);
  }

  /** As `group`. */
  async job(episodeId: string): Promise<EpisodeJob | null> {
    const group = await this.#jobs.find(episodeId.slice(0, Math.max(0, episodeId.lastIndexOf("."))));
    return group?.jobs.find(({ place }) => place.episodeId === episodeId) ?? null;
  }

  /** Cancels those of these that have not ended. Throws a `ServiceError` for a group of a producer. */
  async cancel(group: GroupJob, jobs: readonly EpisodeJob[] = group.jobs): Promise<void> {
    if (group.producerId !== null) {
      throw new ServiceError(
        "of-a-producer",
        `Cannot cancel episodes of group "${group.groupId}": it belongs to producer "${group.producerId}"; cancel that.`,
      );
    }
    const live = jobs.filter(({ status }) => status !== "ended");
    if (live.length === 0) return;
    const episodeIds = live.map(({ place }) => place.episodeId);
    await this.#parts.requests.append({ type: "cancel", groupId: group.groupId, episodeIds });
    for (const job of live) job.cancel();
  }

  /**
   * Accepts and begins nothing more. `wait`: until what runs has ended; otherwise, and while the gate is closed, it is
   * suspended. The next process resumes what was suspended or waits.
   */
  async close(options: { readonly wait: boolean }): Promise<void> {
    this.#isClosing = true;
    this.#pool.close(this.#jobs.all(), options);
    while (this.#running.size + this.#logging.size > 0) {
      await Promise.allSettled([...this.#running, ...[...this.#logging.values()].map(({ logged }) => logged)]);
    }
  }

  #checkRoom({ groupSize }: GroupRequest): void {
    if (this.#isClosing) throwClosing();
    const { concurrency, maxWaiting } = this.#limits;
    const most = concurrency + maxWaiting;
    if (groupSize > most) {
      throw new ServiceError(
        "bad-request",
        `Cannot accept the request: it has ${groupSize} episodes, and this service holds ${most} at once; request fewer.`,
      );
    }
    let open = this.#pool.running + this.#pool.waitingRequests + groupSize;
    for (const logging of this.#logging.values()) open += logging.groupSize;
    if (open <= most) return;
    throw new ServiceError(
      "too-many",
      `Cannot accept the request: ${this.#pool.waitingRequests} episodes wait, at most ${maxWaiting} may; try again later.`,
      { retryAfter: 1 },
    );
  }

  async #log(group: GroupJob, { key, body }: Submission): Promise<void> {
    const { groupId, groupIndex, bodyHash, jobs } = group;
    const entry = { type: "request", groupId, groupIndex, idempotencyKey: key, bodyHash, body } as const;
    const logged = this.#parts.requests.append(entry);
    this.#logging.set(groupId, { logged, groupSize: jobs.length });
    try {
      await logged;
    } catch (error) {
      this.#jobs.remove(group);
      for (const job of jobs) job.end(notRun(error), { isStored: false });
      throw error;
    } finally {
      this.#logging.delete(groupId);
    }
  }

  #start(group: GroupJob, runner: RunEpisode): void {
    const { groupId, groupIndex, jobs, request } = group;
    const { task } = jobs[0]!.place;
    const running = runGroups([{ groupId, groupIndex, task }], {
      groupSize: request.groupSize,
      runEpisode: (_task, { sampleIndex }) => this.#run(jobs[sampleIndex]!, runner),
    })
      .then(() => this.#finish(group))
      .catch((error: unknown) => this.#parts.onFault?.(error))
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Returns `null`: the group is recorded from its jobs, and its episodes need not stay in memory until then. */
  async #run(job: EpisodeJob, runner: RunEpisode): Promise<null> {
    // An earlier process ended it.
    if (job.status === "ended") return null;
    try {
      const finished = await this.#pool.run(job, runner);
      if (finished === null && !job.isSuspended) job.end(notStarted, { isStored: false });
    } catch (error) {
      if (!job.isSuspended) job.end(job.signal.aborted ? notStarted : notRun(error), { isStored: false });
    }
    return null;
  }

  /**
   * Records a group whose episodes have all ended, with its rows. Not recorded: groups that the service suspended, and those with
   * episodes that could not be run; the next process resumes both.
   */
  async #finish({ groupId, groupIndex, jobs }: GroupJob): Promise<void> {
    const isOpen = jobs.some(
      ({ status, isStored, summary }) => status !== "ended" || (!isStored && summary?.outcome === "failed"),
    );
    const stored = jobs.filter(({ isStored }) => isStored);
    if (isOpen || stored.length === 0) return;
    await this.#pool.record({
      groupId,
      taskId: jobs[0]?.place.task.id ?? "",
      groupIndex,
      decision: "kept",
      reason: null,
      episodeIds: stored.map(({ place }) => place.episodeId),
      rewards: stored.map(({ summary }) => summary?.reward ?? null),
    });
  }
}
