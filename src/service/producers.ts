// All producers of the service, over every restart. What a producer does is up to its job. Whatever changes one is in the log before
// it happens, so that a later process resumes the same. A batch whose groups the store does not have as kept was handed over
// all the same: it was on disk before it was sent, so its groups are recorded at the restart.

import type { Episode, GroupRecord } from "../core/index.ts";
import type { BegunGroup, EarlierProduction } from "../rollout/index.ts";
import { runnerAgain, runnerFor } from "./episode-pool.ts";
import { checkSameBody, identify, type Submission } from "./group-requests.ts";
import { openGroup } from "./jobs.ts";
import type { ProducerDependencies } from "./producer-groups.ts";
import { type Batch, type ProducerHistory, ProducerJob, type ProducerJobOptions } from "./producer-job.ts";
import { groupRequestOf, type ProducerRequest } from "./producer-request.ts";
import type { LoggedRequest, SteerAction } from "./request-log.ts";
import { ServiceError, throwClosing } from "./service-error.ts";

type LoggedProducer = Extract<LoggedRequest, { readonly type: "producer" }>;
/** "lapsed": paused until the next request of its trainer. */
type State = EarlierProduction["state"] | "lapsed";

/** As the library changes its state. */
function nextState(state: State, action: SteerAction | "lapse"): State {
  if (state === "cancelled" || action === "cancel") return "cancelled";
  if (state === "draining" || action === "drain") return "draining";
  if (action === "lapse") return state === "running" ? "lapsed" : state;
  return action === "pause" ? "paused" : "running";
}

class LoggedProducerHistory implements ProducerHistory {
  readonly request: LoggedProducer;
  readonly begun: BegunGroup[] = [];
  readonly numbers = new Map<string, number>();
  readonly batches: Batch[] = [];
  readonly versions: string[] = [];
  readonly missed: string[] = [];
  readonly decided = new Map<string, GroupRecord>();
  state: EarlierProduction["state"] = "running";
  hasLapsed = false;

  constructor(request: LoggedProducer) {
    this.request = request;
  }

  steer(action: SteerAction | "lapse"): void {
    const next = nextState(this.hasLapsed ? "lapsed" : this.state, action);
    this.hasLapsed = next === "lapsed";
    this.state = next === "lapsed" ? "paused" : next;
    if (!this.hasLapsed) this.versions.push(...this.missed.splice(0));
  }

  /** As `ProducerJob.report`. */
  report(version: string, training: string | null): void {
    const own = (this.request.body as { readonly training?: string | null } | null)?.training ?? null;
    if (own !== training) return;
    if (own !== null && this.hasLapsed) this.steer("continue");
    (this.hasLapsed ? this.missed : this.versions).push(version);
  }

  /** Records groups that were handed over and not recorded. */
  async repair(request: ProducerRequest, { parts, pool }: ProducerDependencies): Promise<void> {
    const { producerId } = this.request;
    const places = request.groupSize + request.groups.replacements;
    for (const { groupId } of this.batches.flatMap(({ groups }) => groups)) {
      if (this.decided.has(groupId)) continue;
      const groupIndex = this.numbers.get(groupId) ?? 0;
      const identity = { groupId, groupIndex, bodyHash: "", producerId };
      const { jobs, another } = openGroup(groupRequestOf(request, groupId), identity, parts);
      const found: Episode[] = [];
      for (let place = 0; place < places; place++) {
        const episode = await parts.archive.find(another(place).place.episodeId);
        if (episode !== null) found.push(episode);
      }
      const record: GroupRecord = {
        groupId,
        taskId: jobs[0]?.place.task.id ?? "",
        groupIndex,
        decision: "kept",
        reason: null,
        episodeIds: found.map(({ id }) => id),
        rewards: found.map(({ reward }) => reward),
      };
      await pool.record(record);
      this.decided.set(groupId, record);
    }
  }
}

/** `decided`: the store's groups, in the order in which they were decided. */
function readHistories(
  log: readonly LoggedRequest[],
  decided: ReadonlyMap<string, GroupRecord>,
): { readonly histories: readonly LoggedProducerHistory[]; readonly versions: readonly string[] } {
  const histories = new Map<string, LoggedProducerHistory>();
  const ownerOf = new Map<string, LoggedProducerHistory>();
  const versions: string[] = [];
  for (const entry of log) {
    if (entry.type === "weights") {
      versions.push(entry.version);
      // Later producers began with it.
      for (const history of histories.values()) history.report(entry.version, entry.training ?? null);
    }
    if (entry.type === "producer") histories.set(entry.producerId, new LoggedProducerHistory(entry));
    if (!("producerId" in entry)) continue;
    const history = histories.get(entry.producerId);
    if (history === undefined) continue;
    if (entry.type === "steer") history.steer(entry.action);
    if (entry.type === "batch") history.batches[entry.number] = { groups: entry.groups, isLast: entry.isLast };
    if (entry.type === "begin") {
      const { groupId, taskIndex, isRequeued, version } = entry;
      history.begun.push({ groupId, taskIndex, isRequeued, version });
      history.numbers.set(groupId, entry.groupIndex);
      ownerOf.set(groupId, history);
    }
  }
  for (const [groupId, record] of decided) ownerOf.get(groupId)?.decided.set(groupId, record);
  return { histories: [...histories.values()], versions };
}

/** More producers at once are a mistake: each may have as many episodes in flight as the service has permits. */
const mostProducers = 64;

const noHistory: ProducerHistory = {
  state: "running",
  begun: [],
  numbers: new Map(),
  batches: [],
  versions: [],
  decided: new Map(),
  hasLapsed: false,
  missed: [],
};

export class Producers {
  readonly #dependencies: ProducerDependencies;
  readonly #concurrency: number;
  /** Including those that are not on disk yet. */
  readonly #jobs = new Map<string, { readonly job: ProducerJob; readonly ready: Promise<void> }>();
  #weightVersion: string | null = null;
  /** The last version, also while it is being written. */
  #latestVersion: string | null = null;
  #reporting: Promise<unknown> = Promise.resolve();
  #isClosing = false;

  constructor(dependencies: ProducerDependencies, { concurrency }: { readonly concurrency: number }) {
    this.#dependencies = dependencies;
    this.#concurrency = concurrency;
  }

  /** The version that the trainer reported last. */
  get weightVersion(): string | null {
    return this.#weightVersion;
  }

  /** Producers that run, pause or drain, and have not lapsed. */
  get live(): ProducerJob[] {
    return [...this.#jobs.values()].map(({ job }) => job).filter((job) => job.isLive);
  }

  /** Accepts a request, or finds the one that came with the same key. Resolves once it is on disk. Throws a `ServiceError`. */
  async submit(
    request: ProducerRequest,
    submission: Submission,
  ): Promise<{ readonly job: ProducerJob; readonly isNew: boolean }> {
    const { id: producerId, bodyHash } = identify(submission, { keyed: "p", unkeyed: "p" });
    const known = this.#jobs.get(producerId);
    if (known !== undefined) {
      checkSameBody(known.job, bodyHash);
      await known.ready;
      await this.renew(known.job);
      return { job: known.job, isNew: false };
    }
    if (this.#isClosing) throwClosing();
    if (this.live.length >= mostProducers) {
      throw new ServiceError(
        "too-many",
        `Cannot accept the request: there are ${mostProducers} producers; drain or cancel one.`,
        { retryAfter: 60 },
      );
    }
    const { parts } = this.#dependencies;
    const weightVersion = request.weightVersion ?? this.#latestVersion;
    const runner = runnerFor(request.policy, parts);
    const concurrency = this.#concurrency;
    const job = this.#job({ producerId, bodyHash, request, runner, concurrency, weightVersion });
    const { key: idempotencyKey, body } = submission;
    const ready = parts.requests.append({
      type: "producer",
      producerId,
      idempotencyKey,
      bodyHash,
      body,
      weightVersion,
    });
    this.#jobs.set(producerId, { job, ready });
    try {
      await ready;
    } catch (error) {
      this.#jobs.delete(producerId);
      throw error;
    }
    // The next process starts it.
    if (this.#isClosing) throwClosing();
    job.start(noHistory);
    return { job, isNew: true };
  }

  /** Rejects when its request could not be written. */
  async find(producerId: string): Promise<ProducerJob | null> {
    const known = this.#jobs.get(producerId);
    await known?.ready;
    return known?.job ?? null;
  }

  async steer(job: ProducerJob, action: SteerAction): Promise<void> {
    const { state } = job.status;
    if (state === "ended" || (state === "failed" && action !== "cancel")) return;
    if (state !== "failed" && nextState(state, action) === state) return job.renew();
    if (this.#isClosing) throwClosing();
    await this.#dependencies.parts.requests.append({ type: "steer", producerId: job.producerId, action });
    job.steer(action);
  }

  /** Its trainer sent a request: a lapsed producer resumes. */
  async renew(job: ProducerJob): Promise<void> {
    if (job.status.state === "lapsed") await this.steer(job, "continue");
    else job.renew();
  }

  #job(options: ProducerJobOptions): ProducerJob {
    return new ProducerJob(options, { ...this.#dependencies, onLapse: (job) => this.#lapse(job) });
  }

  /** It has stopped already; when this cannot be written, the next process begins with a new lease. */
  #lapse({ producerId, request }: ProducerJob): void {
    const { requests, onLapse, onFault } = this.#dependencies.parts;
    requests.append({ type: "steer", producerId, action: "lapse" }).catch((error: unknown) => onFault?.(error));
    const whose = request.training === null ? "" : ` of training "${request.training}"`;
    onLapse?.(
      `Producer "${producerId}"${whose} begins nothing more: no request of its trainer came for ${request.leaseMs / 1000} s; ` +
        "it resumes when its trainer takes a batch, reports weights or sends a heartbeat.",
    );
  }

  /**
   * A trainer has these weights: reported to the producers of its training, or to those without one. Also while the service
   * closes: the next process resumes from there. Reports run one after the other.
   */
  report(version: string, training: string | null): Promise<void> {
    const reported = this.#reporting.then(() => this.#report(version, training));
    this.#reporting = reported.catch(() => undefined);
    return reported;
  }

  async #report(version: string, training: string | null): Promise<void> {
    // Later producers begin with it.
    const jobs = [...this.#jobs.values()].map(({ job }) => job).filter(({ request }) => request.training === training);
    this.#latestVersion = version;
    try {
      await this.#dependencies.parts.requests.append({ type: "weights", version, training });
    } catch (error) {
      this.#latestVersion = this.#weightVersion;
      throw error;
    }
    // Groups that begin with the new weights must not be dispatched as if the engine had the old ones.
    await this.#dependencies.parts.onWeightVersion?.(version);
    for (const job of jobs) job.report(version);
    this.#weightVersion = version;
  }

  /**
   * Resumes the producers of earlier processes. Call before anything is submitted. `read` makes a request of a body that was
   * accepted before; `decided`: groups that the store has.
   */
  async restore(
    earlier: readonly LoggedRequest[],
    options: {
      readonly read: (body: unknown) => ProducerRequest;
      readonly decided: ReadonlyMap<string, GroupRecord>;
    },
  ): Promise<void> {
    const { histories, versions } = readHistories(earlier, options.decided);
    for (const version of versions) await this.#dependencies.parts.onWeightVersion?.(version);
    this.#weightVersion = this.#latestVersion = versions.at(-1) ?? null;
    for (const { numbers } of histories)
      for (const number of numbers.values()) this.#dependencies.jobs.reserveNumber(number);
    for (const history of histories) {
      const { producerId, bodyHash, body, weightVersion } = history.request;
      const request = options.read(body);
      const runner = runnerAgain(request.policy, this.#dependencies.parts);
      const concurrency = this.#concurrency;
      const job = this.#job({ producerId, bodyHash, request, runner, concurrency, weightVersion });
      this.#jobs.set(producerId, { job, ready: Promise.resolve() });
      await history.repair(request, this.#dependencies);
      job.start(history);
    }
  }

  /** Rejects waiting requests; nothing is handed over, begun or decided any more. */
  freeze(): void {
    this.#isClosing = true;
    for (const { job } of this.#jobs.values()) job.freeze();
  }

  /** Resolves when nothing is being written any more. */
  async idle(): Promise<void> {
    await Promise.allSettled([...this.#jobs.values()].flatMap(({ job, ready }) => [ready, job.idle()]));
  }
}
