// Takes requests, plays their episodes a bounded number at a time, and knows what became of each. HTTP is the routes'; how
// an episode is played is the player's; what is kept is the store's. Here: identity (a key that comes twice is one request),
// order, bounds, and what is remembered.

import { createHash, randomUUID } from "node:crypto";
import { attribute, ConfigurationError, type EnvironmentSource, type GroupRecord, type Task } from "../core/index.ts";
import { episodeSamples, episodeSeed } from "../episodes/index.ts";
import { createSemaphore, type Semaphore } from "../lib/semaphore.ts";
import type { EpisodePlayer } from "../runs/index.ts";
import { EpisodeJob } from "./episode-job.ts";
import { type EpisodeSummary, summarize } from "./episode-summary.ts";
import { viewEvent } from "./event-view.ts";
import type { LoggedRequest } from "./request-log.ts";
import type { EndedEpisode, PolicyRequest, ServiceLimits, ServiceParts } from "./service-parts.ts";
import { ServiceRefusal } from "./service-refusal.ts";

/** Episodes of one task that belong together; a single episode is a group of one. */
export type GroupRequest = {
  readonly split: string | null;
  readonly taskIndex: number;
  readonly samples: number;
  /** `null`: derived from the service's seed and the group's id. */
  readonly seed: number | null;
  readonly policy: PolicyRequest;
};

export type GroupJob = {
  readonly groupId: string;
  readonly groupIndex: number;
  readonly request: GroupRequest;
  readonly jobs: readonly EpisodeJob[];
  readonly bodyHash: string;
};

/** What is played of late stays at hand: trainers fetch samples soon after the end. */
const mostAtHand = 256;

const notStarted: EpisodeSummary = {
  outcome: "aborted",
  stopReason: "cancelled",
  reward: null,
  failure: null,
  metrics: {},
  turns: 0,
  sampledTokens: 0,
  weightVersions: [],
  problems: {},
};

export class RolloutDesk {
  readonly #parts: ServiceParts;
  readonly #limits: ServiceLimits;
  readonly #permits: Semaphore;
  readonly #groups = new Map<string, GroupJob>();
  readonly #jobs = new Map<string, EpisodeJob>();
  readonly #atHand = new Map<string, EndedEpisode>();
  readonly #playing = new Set<Promise<void>>();
  #groupCount = 0;
  #isClosing = false;

  constructor(parts: ServiceParts, limits: ServiceLimits) {
    this.#parts = parts;
    this.#limits = limits;
    this.#permits = createSemaphore(limits.concurrency);
  }

  get environment(): EnvironmentSource {
    return this.#parts.environment;
  }

  get counts(): { readonly running: number; readonly waiting: number; readonly remembered: number } {
    return { running: this.#permits.running, waiting: this.#permits.waiting, remembered: this.#jobs.size };
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  /**
   * Takes a request, or finds the one that came with the same key. Resolves once it is on disk; its episodes then play by
   * themselves. Throws a `ServiceRefusal`.
   */
  async submit(
    request: GroupRequest,
    asked: { readonly key: string | null; readonly body: unknown },
  ): Promise<{ readonly group: GroupJob; readonly isNew: boolean }> {
    const bodyHash = createHash("sha256").update(JSON.stringify(asked.body)).digest("hex");
    const groupId = asked.key === null ? `g${randomUUID().replaceAll("-", "")}` : groupIdOf(asked.key);
    const known = this.#groups.get(groupId);
    if (known !== undefined) {
      if (known.bodyHash === bodyHash) return { group: known, isNew: false };
      throw new ServiceRefusal(
        "key-reused",
        "Cannot take the request: its idempotency key came before with another body; use a new key for a new request.",
      );
    }
    if (this.#isClosing) {
      throw new ServiceRefusal(
        "closing",
        "Cannot take the request: the service is closing; ask again when it is back.",
        {
          retryAfter: 5,
        },
      );
    }
    if (this.#permits.waiting + request.samples > this.#limits.maxWaiting) {
      throw new ServiceRefusal(
        "too-many",
        `Cannot take the request: ${this.#permits.waiting} episodes wait, at most ${this.#limits.maxWaiting} may; ask again later.`,
        { retryAfter: 1 },
      );
    }
    const group = this.#openGroup(request, { groupId, bodyHash });
    const player = this.#playerOf(request);
    this.#remember(group);
    try {
      await this.#parts.requests.append({
        type: "request",
        groupId,
        idempotencyKey: asked.key,
        bodyHash,
        body: asked.body,
      });
    } catch (error) {
      this.#forget(group);
      throw error;
    }
    this.#start(group, player);
    return { group, isNew: true };
  }

  /**
   * Goes on with what an earlier process was asked: ended episodes are found in the archive, the others play. Call before
   * anything is submitted. `read` makes a request of a body that was accepted before; `decided`: groups that the store has.
   */
  async restore(
    earlier: readonly LoggedRequest[],
    options: { readonly read: (body: unknown) => GroupRequest; readonly decided: ReadonlySet<string> },
  ): Promise<void> {
    const cancelled = new Set(earlier.flatMap((entry) => (entry.type === "cancel" ? entry.episodeIds : [])));
    for (const entry of earlier) {
      if (entry.type !== "request") continue;
      const group = this.#openGroup(options.read(entry.body), entry);
      const player = this.#playerOf(group.request);
      this.#remember(group);
      for (const job of group.jobs) {
        const episode = await this.#parts.archive.find(job.place.episodeId);
        if (episode === null) {
          if (cancelled.has(job.place.episodeId)) job.end(notStarted);
          continue;
        }
        job.end(summarize(episode));
        job.forgetEvents();
      }
      if (!options.decided.has(group.groupId)) this.#start(group, player);
    }
  }

  group(groupId: string): GroupJob | null {
    return this.#groups.get(groupId) ?? null;
  }

  job(episodeId: string): EpisodeJob | null {
    return this.#jobs.get(episodeId) ?? null;
  }

  /** What an episode was and trains; `null` while it plays, and when nobody asked for it. */
  async ended(episodeId: string): Promise<EndedEpisode | null> {
    const atHand = this.#atHand.get(episodeId);
    if (atHand !== undefined) return atHand;
    const job = this.#jobs.get(episodeId);
    if (job !== undefined && job.status !== "ended") return null;
    const episode = await this.#parts.archive.find(episodeId);
    return episode === null ? null : { episode, result: episodeSamples(episode) };
  }

  /** Ends what has not ended of these; the others stay as they are. */
  async cancel(group: GroupJob, jobs: readonly EpisodeJob[] = group.jobs): Promise<void> {
    const live = jobs.filter(({ status }) => status !== "ended");
    if (live.length === 0) return;
    const episodeIds = live.map(({ place }) => place.episodeId);
    await this.#parts.requests.append({ type: "cancel", groupId: group.groupId, episodeIds });
    for (const job of live) job.cancel();
  }

  /** Takes nothing more; `wait`: until what runs has ended, otherwise it is cut off and the next process goes on with it. */
  async close(options: { readonly wait: boolean }): Promise<void> {
    this.#isClosing = true;
    if (!options.wait) for (const job of this.#jobs.values()) if (job.status !== "ended") job.cancel();
    while (this.#playing.size > 0) await Promise.all(this.#playing);
  }

  #openGroup(
    request: GroupRequest,
    { groupId, bodyHash }: { readonly groupId: string; readonly bodyHash: string },
  ): GroupJob {
    const task = this.#taskOf(request);
    const seed = request.seed ?? this.#parts.seed;
    const jobs = Array.from({ length: request.samples }, (_, sampleIndex) => {
      const episodeId = `${groupId}.${sampleIndex}`;
      // The task's id is in it, so that equal seeds and keys never couple different tasks.
      const own = episodeSeed(seed, `${task.id}/${request.seed === null ? groupId : ""}`, sampleIndex);
      return new EpisodeJob({ episodeId, groupId, sampleIndex, task, seed: own });
    });
    return { groupId, groupIndex: this.#groupCount++, request, jobs, bodyHash };
  }

  #taskOf({ split, taskIndex }: GroupRequest): Task {
    const { environment, defaultSplit } = this.#parts;
    const name = split ?? defaultSplit;
    if (!environment.splits.includes(name)) {
      throw new ServiceRefusal(
        "bad-request",
        `Cannot find the task: ${environment.name} has no split "${name}"; it has ${environment.splits.join(", ")}.`,
      );
    }
    const taskset = environment.taskset(name);
    if (taskIndex < taskset.size) return taskset.task(taskIndex);
    throw new ServiceRefusal(
      "bad-request",
      `Cannot find the task: ${environment.name} (${name}) has no task ${taskIndex}; indexes go from 0 to ${taskset.size - 1}.`,
    );
  }

  #playerOf({ policy }: GroupRequest): EpisodePlayer {
    try {
      return this.#parts.player(policy);
    } catch (error) {
      if (error instanceof ConfigurationError) throw new ServiceRefusal("bad-request", error.message);
      throw error;
    }
  }

  #start(group: GroupJob, player: EpisodePlayer): void {
    const open = group.jobs.filter(({ status }) => status !== "ended");
    const all = Promise.all(open.map((job) => this.#run(job, player)))
      .then(() => this.#finish(group))
      .finally(() => this.#playing.delete(all));
    this.#playing.add(all);
  }

  async #run(job: EpisodeJob, player: EpisodePlayer): Promise<void> {
    const { episodeId, groupId, sampleIndex, task, seed } = job.place;
    let release: () => void;
    try {
      release = await this.#permits.acquire(job.signal);
    } catch {
      job.end(notStarted);
      return;
    }
    try {
      await this.#parts.gate.pass(job.signal);
      job.begin();
      const played = await player(task, {
        episodeId,
        groupId,
        sampleIndex,
        seed,
        signal: job.signal,
        onEvent: (event) => job.see(viewEvent(event)),
      });
      const { episode } = played;
      const isCutOff = this.#isClosing && episode.stopReason === "cancelled";
      if (played.origin !== "kept" && !isCutOff) await this.#parts.store.append(episode);
      this.#atHand.set(episodeId, { episode, result: played.result });
      this.#trim();
      job.end(summarize(episode));
    } catch (error) {
      job.end(job.signal.aborted ? notStarted : notPlayed(error));
    } finally {
      release();
    }
  }

  /** A group whose episodes have all ended is recorded with its rows, unless the service cut it off. */
  async #finish(group: GroupJob): Promise<void> {
    if (this.#isClosing && group.jobs.some(({ summary }) => summary?.stopReason === "cancelled")) return;
    const { groupId, groupIndex, jobs } = group;
    const [, format] = [...this.#parts.formats][0] ?? [null, (): readonly unknown[] => []];
    const ended = await Promise.all(jobs.map(({ place }) => this.ended(place.episodeId)));
    const record: GroupRecord = {
      groupId,
      taskId: jobs[0]?.place.task.id ?? "",
      groupIndex,
      decision: "kept",
      reason: null,
      episodeIds: jobs.map(({ place }) => place.episodeId),
      rewards: jobs.map(({ summary }) => summary?.reward ?? null),
    };
    const played = ended.filter((one) => one !== null);
    const sampleLines = format(played, groupIndex).map((row) => JSON.stringify(row));
    await this.#parts.store.appendGroup({ group: record, sampleLines }).catch(() => undefined);
  }

  #remember(group: GroupJob): void {
    this.#groups.set(group.groupId, group);
    for (const job of group.jobs) this.#jobs.set(job.place.episodeId, job);
  }

  #forget(group: GroupJob): void {
    this.#groups.delete(group.groupId);
    for (const job of group.jobs) this.#jobs.delete(job.place.episodeId);
  }

  /** Oldest first: what was played leaves memory long before what became of it does. */
  #trim(): void {
    for (const episodeId of this.#atHand.keys()) {
      if (this.#atHand.size <= mostAtHand) break;
      this.#atHand.delete(episodeId);
      this.#jobs.get(episodeId)?.forgetEvents();
    }
    for (const group of this.#groups.values()) {
      if (this.#jobs.size <= this.#limits.maxRemembered) break;
      if (group.jobs.every(({ status }) => status === "ended")) this.#forget(group);
    }
  }
}

/** The same key is the same group in every process, so a request that comes again after a restart finds its own. */
function groupIdOf(key: string): string {
  return `k${createHash("sha256").update(key).digest("hex").slice(0, 32)}`;
}

/** A player or store that rejects: a mistake of configuration, broken accounting, a full disk. The client is told, nothing is trained. */
function notPlayed(error: unknown): EpisodeSummary {
  const { failure } = attribute(error, "environment", "not-played");
  return { ...notStarted, outcome: "failed", stopReason: "fault", failure };
}
