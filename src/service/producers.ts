// All producers of the service, across restarts: accepts and finds them, and forwards weight
// versions. The job of a producer does everything else.

import type { GroupRecord } from "../core/index.ts";
import { runnerAgain, runnerFor, type SharedParts } from "./episode-pool.ts";
import { checkSameRequest, idOf, type Submission } from "./group-requests.ts";
import { ProducerJob } from "./producer-job.ts";
import type { LoggedRequest } from "./request-log.ts";
import type { ProducerRequest } from "./requests.ts";
import { ServiceError, throwClosing } from "./service-error.ts";

/**
 * Maximum number of producers; more are a mistake, because each may have as many episodes in flight
 * as the service has permits.
 */
const mostProducers = 64;

export class Producers {
  readonly #shared: SharedParts;
  /** All producers, including those that are not on disk yet. */
  readonly #jobs = new Map<string, ProducerJob>();
  #weightVersion: string | null = null;
  /** The last version, even while it is being written. */
  #latestVersion: string | null = null;
  #reporting: Promise<unknown> = Promise.resolve();

  constructor(shared: SharedParts) {
    this.#shared = shared;
  }

  /** The version that the trainer reported last. */
  get weightVersion(): string | null {
    return this.#weightVersion;
  }

  /** Producers that run, pause or drain, and have not lapsed. */
  get live(): ProducerJob[] {
    return [...this.#jobs.values()].filter((job) => job.isLive);
  }

  /**
   * Accepts a request, or finds the request with the same key. Resolves once it is on disk. Throws
   * a `ServiceError`.
   */
  async submit(
    request: ProducerRequest,
    submission: Submission,
  ): Promise<{ readonly job: ProducerJob; readonly isNew: boolean }> {
    const { parts, pool, guard } = this.#shared;
    const producerId = idOf(submission, { keyed: "p", unkeyed: "p" });
    if (guard.hasFault && !this.#jobs.has(producerId)) await guard.check();
    const known = this.#jobs.get(producerId);
    if (known !== undefined) {
      checkSameRequest(known.request, request, parts);
      await known.logged;
      await known.renew();
      return { job: known, isNew: false };
    }
    if (pool.isClosing) throwClosing();
    if (this.live.length >= mostProducers) {
      throw new ServiceError(
        "too-many",
        `Cannot accept the request: there are ${mostProducers} producers, the maximum; drain or cancel one.`,
        { retryAfter: 60 },
      );
    }
    const weightVersion = request.weightVersion ?? this.#latestVersion;
    const runner = runnerFor(request.policy, parts);
    const job = new ProducerJob({ producerId, request, runner, weightVersion }, this.#shared);
    const { key: idempotencyKey, body } = submission;
    const line = { type: "producer", producerId, idempotencyKey, body, weightVersion } as const;
    job.logged = pool.track(parts.requests.append(line));
    this.#jobs.set(producerId, job);
    try {
      await job.logged;
    } catch (error) {
      this.#jobs.delete(producerId);
      throw error;
    }
    // The next process starts the producer.
    if (pool.isClosing) throwClosing();
    await job.start();
    return { job, isNew: true };
  }

  /** A producer by id. Rejects if its request could not be written. */
  async find(producerId: string): Promise<ProducerJob | null> {
    const known = this.#jobs.get(producerId) ?? null;
    await known?.logged;
    return known;
  }

  /**
   * Reports that a trainer has these weights, to the producers of its training, or to those without
   * one. It works also while the service closes: the next process resumes from there. Reports run
   * one after the other. Resolves with the versions that the servers report. `isAdapter`: the
   * version is an adapter, under which groups of this training begin from now on.
   */
  report(
    version: string,
    training: string | null,
    { isAdapter = false }: { readonly isAdapter?: boolean } = {},
  ): Promise<readonly (string | null)[]> {
    const reported = this.#reporting.then(() => this.#report(version, training, isAdapter));
    this.#reporting = reported.then(
      () => undefined,
      () => undefined,
    );
    return reported;
  }

  /**
   * Resumes the producers of earlier processes. Call it before anything is submitted. `read` parses
   * a body that was already accepted; `decided`: groups that the store has, in the order in which
   * they were decided.
   */
  async restore(
    earlier: readonly LoggedRequest[],
    options: {
      readonly read: (body: unknown) => ProducerRequest;
      readonly decided: ReadonlyMap<string, GroupRecord>;
    },
  ): Promise<void> {
    const { parts } = this.#shared;
    const ownerOf = new Map<string, ProducerJob>();
    for (const line of earlier) {
      if (line.type === "weights") {
        const isAdapter = line.isAdapter === true;
        await parts.onWeightVersion?.(line.version, { isAdapter });
        if (isAdapter) this.#shared.adapters.use(line.training ?? null, line.version);
        this.#weightVersion = this.#latestVersion = line.version;
        for (const job of this.#of(line.training ?? null)) job.report(line.version);
      }
      if (!("producerId" in line)) continue;
      const { producerId } = line;
      if (line.type === "producer") {
        const request = options.read(line.body);
        const runner = runnerAgain(request.policy, parts);
        this.#jobs.set(producerId, new ProducerJob({ ...line, request, runner }, this.#shared));
      }
      const job = this.#jobs.get(producerId);
      job?.replay(line);
      if (line.type === "begin" && job !== undefined) ownerOf.set(line.groupId, job);
    }
    for (const [groupId, record] of options.decided) ownerOf.get(groupId)?.decided.set(groupId, record);
    for (const job of this.#jobs.values()) await job.start();
  }

  /**
   * Freezes all producers when the service closes: waiting requests are rejected, and no lease runs
   * out.
   */
  freeze(): void {
    for (const job of this.#jobs.values()) job.freeze();
  }

  /** Producers of a training. */
  #of(training: string | null): ProducerJob[] {
    return [...this.#jobs.values()].filter(({ request }) => request.training === training);
  }

  async #report(version: string, training: string | null, isAdapter: boolean): Promise<readonly (string | null)[]> {
    const { parts } = this.#shared;
    // Later producers begin with the new version.
    const jobs = this.#of(training);
    this.#latestVersion = version;
    try {
      await parts.requests.append({ type: "weights", version, training, ...(isAdapter ? { isAdapter } : {}) });
    } catch (error) {
      this.#latestVersion = this.#weightVersion;
      throw error;
    }
    // Groups that begin with the new weights must not be dispatched as if the engine had the old
    // ones.
    const named = (await parts.onWeightVersion?.(version, { isAdapter })) ?? [];
    if (isAdapter) this.#shared.adapters.use(training, version);
    for (const job of jobs) job.report(version);
    this.#weightVersion = version;
    return named;
  }
}
