// Takes requests for producers and knows those there are, over every restart. HTTP is the routes'; what a producer does is
// its own. Whatever changes one is in the log before it happens, so that a later process goes on with the same.

import { randomUUID } from "node:crypto";
import type { GroupRecord } from "../core/index.ts";
import { type Asked, checkSameBody, digestOf, hashOf, refuseClosing } from "./asked.ts";
import { playerAgain, playerOf } from "./policy-player.ts";
import type { ProducerWorld } from "./producer-groups.ts";
import { ProducerJob, type ProducerPast } from "./producer-job.ts";
import { nextState, readPasts } from "./producer-past.ts";
import type { ProducerRequest } from "./producer-request.ts";
import type { LoggedRequest, SteerAction } from "./request-log.ts";
import { ServiceRefusal } from "./service-refusal.ts";

/** More producers at once are somebody's mistake: each may have as many episodes under way as the service has places. */
const mostProducers = 64;

const nothing: ProducerPast = {
  state: "running",
  begun: [],
  numbers: new Map(),
  batches: [],
  versions: [],
  decided: new Map(),
  hasLapsed: false,
  missed: [],
};

export class ProducerDesk {
  readonly #world: ProducerWorld;
  readonly #concurrency: number;
  /** Those that are not on disk yet, too. */
  readonly #jobs = new Map<string, { readonly job: ProducerJob; readonly ready: Promise<void> }>();
  #weightVersion: string | null = null;
  /** What is being written, too. */
  #latestVersion: string | null = null;
  #reporting: Promise<unknown> = Promise.resolve();
  #isClosing = false;

  constructor(world: ProducerWorld, { concurrency }: { readonly concurrency: number }) {
    this.#world = world;
    this.#concurrency = concurrency;
  }

  /** What the trainer reported last. */
  get weightVersion(): string | null {
    return this.#weightVersion;
  }

  /** Those that run, pause or drain, and whose trainer was heard. */
  get live(): ProducerJob[] {
    return [...this.#jobs.values()].map(({ job }) => job).filter((job) => job.isLive);
  }

  /** Takes a request, or finds the one that came with the same key. Resolves once it is on disk. Throws a `ServiceRefusal`. */
  async submit(
    request: ProducerRequest,
    asked: Asked,
  ): Promise<{ readonly job: ProducerJob; readonly isNew: boolean }> {
    const bodyHash = hashOf(asked.body);
    const producerId = `p${asked.key === null ? randomUUID().replaceAll("-", "") : digestOf(asked.key)}`;
    const known = this.#jobs.get(producerId);
    if (known !== undefined) {
      checkSameBody(known.job, bodyHash);
      await known.ready;
      await this.renew(known.job);
      return { job: known.job, isNew: false };
    }
    if (this.#isClosing) refuseClosing();
    if (this.live.length >= mostProducers) {
      throw new ServiceRefusal(
        "too-many",
        `Cannot take the request: there are ${mostProducers} producers; drain or cancel one.`,
        { retryAfter: 60 },
      );
    }
    const { parts } = this.#world;
    const weightVersion = request.weightVersion ?? this.#latestVersion;
    const player = playerOf(request.policy, parts);
    const concurrency = this.#concurrency;
    const job = this.#job({ producerId, bodyHash, request, player, concurrency, weightVersion });
    const { key: idempotencyKey, body } = asked;
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
    // It is the next process's.
    if (this.#isClosing) refuseClosing();
    job.start(nothing);
    return { job, isNew: true };
  }

  /** Rejects when it could not be written. */
  async find(producerId: string): Promise<ProducerJob | null> {
    const known = this.#jobs.get(producerId);
    await known?.ready;
    return known?.job ?? null;
  }

  async steer(job: ProducerJob, action: SteerAction): Promise<void> {
    const { state } = job.status;
    if (state === "ended" || (state === "failed" && action !== "cancel")) return;
    if (state !== "failed" && nextState(state, action) === state) return job.renew();
    if (this.#isClosing) refuseClosing();
    await this.#world.parts.requests.append({ type: "steer", producerId: job.producerId, action });
    job.steer(action);
  }

  /** Its trainer was heard: what lapsed goes on. */
  async renew(job: ProducerJob): Promise<void> {
    if (job.status.state === "lapsed") await this.steer(job, "continue");
    else job.renew();
  }

  #job(order: ConstructorParameters<typeof ProducerJob>[0]): ProducerJob {
    return new ProducerJob(order, { ...this.#world, onLapse: (job) => this.#lapse(job) });
  }

  /** It has stopped already; what cannot be written is forgotten by the next process, whose lease begins anew. */
  #lapse({ producerId, request }: ProducerJob): void {
    const { requests, onLapse, onFault } = this.#world.parts;
    requests.append({ type: "steer", producerId, action: "lapse" }).catch((error: unknown) => onFault?.(error));
    const whose = request.training === null ? "" : ` of training "${request.training}"`;
    onLapse?.(
      `Producer "${producerId}"${whose} begins nothing more: its trainer was not heard for ${request.leaseMs / 1000} s; ` +
        "it goes on when its trainer takes a batch, reports weights or sends a heartbeat.",
    );
  }

  /**
   * A trainer has these weights: the producers of its training are told, or those of none in particular. Also while the
   * service closes: the next process goes on from there. One after the other.
   */
  report(version: string, training: string | null): Promise<void> {
    const reported = this.#reporting.then(() => this.#report(version, training));
    this.#reporting = reported.catch(() => undefined);
    return reported;
  }

  async #report(version: string, training: string | null): Promise<void> {
    // Those that are asked for later begin with it.
    const jobs = [...this.#jobs.values()].map(({ job }) => job).filter(({ request }) => request.training === training);
    this.#latestVersion = version;
    try {
      await this.#world.parts.requests.append({ type: "weights", version, training });
    } catch (error) {
      this.#latestVersion = this.#weightVersion;
      throw error;
    }
    // Groups that begin with the new weights must not be dispatched as if the engine had the old ones.
    await this.#world.parts.onWeightVersion?.(version);
    for (const job of jobs) job.report(version);
    this.#weightVersion = version;
  }

  /**
   * Goes on with what earlier processes left. Call before anything is submitted. `read` makes a request of a body that was
   * accepted before; `decided`: groups that the store has.
   */
  async restore(
    earlier: readonly LoggedRequest[],
    options: {
      readonly read: (body: unknown) => ProducerRequest;
      readonly decided: ReadonlyMap<string, GroupRecord>;
    },
  ): Promise<void> {
    const { pasts, versions } = readPasts(earlier, options.decided);
    for (const version of versions) await this.#world.parts.onWeightVersion?.(version);
    this.#weightVersion = this.#latestVersion = versions.at(-1) ?? null;
    for (const { numbers } of pasts) for (const number of numbers.values()) this.#world.memory.passNumber(number);
    for (const past of pasts) {
      const { producerId, bodyHash, body, weightVersion } = past.asked;
      const request = options.read(body);
      const player = playerAgain(request.policy, this.#world.parts);
      const concurrency = this.#concurrency;
      const job = this.#job({ producerId, bodyHash, request, player, concurrency, weightVersion });
      this.#jobs.set(producerId, { job, ready: Promise.resolve() });
      await past.repair(request, this.#world);
      job.start(past);
    }
  }

  /** Nothing is handed over, begun or decided any more; who waits is told. */
  freeze(): void {
    this.#isClosing = true;
    for (const { job } of this.#jobs.values()) job.freeze();
  }

  /** Resolves when nothing is being written any more. */
  async idle(): Promise<void> {
    await Promise.allSettled([...this.#jobs.values()].flatMap(({ job, ready }) => [ready, job.idle()]));
  }
}
