// Takes requests, plays their episodes a bounded number at a time, and knows what became of each. HTTP is the routes'; how
// an episode is played is the player's; what is kept is the store's; what is remembered is the memory's. Here: identity (a
// key that comes twice is one request), order, and bounds.

import { createHash, randomUUID } from "node:crypto";
import { attribute, ConfigurationError, type EnvironmentSource, type GroupRecord, type Task } from "../core/index.ts";
import { episodeSamples, episodeSeed } from "../episodes/index.ts";
import { createSemaphore, type Semaphore } from "../lib/semaphore.ts";
import type { EpisodePlayer } from "../runs/index.ts";
import { EpisodeJob } from "./episode-job.ts";
import { type EpisodeSummary, notStarted, summarize } from "./episode-summary.ts";
import { viewEvent } from "./event-view.ts";
import type { GroupIdentity, GroupJob, GroupRequest } from "./group-job.ts";
import { GroupMemory } from "./group-memory.ts";
import type { LoggedRequest } from "./request-log.ts";
import type { EndedEpisode, ServiceLimits, ServiceParts } from "./service-parts.ts";
import { ServiceRefusal } from "./service-refusal.ts";

/** What is played of late stays at hand: trainers fetch samples soon after the end. */
const mostAtHand = 256;

type Asked = { readonly key: string | null; readonly body: unknown };

export class RolloutDesk {
  readonly #parts: ServiceParts;
  readonly #limits: ServiceLimits;
  readonly #permits: Semaphore;
  readonly #memory: GroupMemory;
  readonly #atHand = new Map<string, EndedEpisode>();
  /** Requests that are not on disk yet, by group; their episodes have no permit and do not wait for one. */
  readonly #logging = new Map<string, { readonly logged: Promise<void>; readonly samples: number }>();
  readonly #playing = new Set<Promise<void>>();
  #groupCount = 0;
  #isClosing = false;

  constructor(parts: ServiceParts, limits: ServiceLimits) {
    this.#parts = parts;
    this.#limits = limits;
    this.#permits = createSemaphore(limits.concurrency);
    this.#memory = new GroupMemory({
      archive: parts.archive,
      maxRemembered: limits.maxRemembered,
      open: (request, identity) => this.#openGroup(request, identity),
    });
  }

  get environment(): EnvironmentSource {
    return this.#parts.environment;
  }

  get counts(): { readonly running: number; readonly waiting: number; readonly remembered: number } {
    return { running: this.#permits.running, waiting: this.#permits.waiting, remembered: this.#memory.size };
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  /**
   * Takes a request, or finds the one that came with the same key. Resolves once it is on disk; its episodes then play by
   * themselves. Throws a `ServiceRefusal`.
   */
  async submit(request: GroupRequest, asked: Asked): Promise<{ readonly group: GroupJob; readonly isNew: boolean }> {
    const bodyHash = createHash("sha256").update(JSON.stringify(asked.body)).digest("hex");
    const groupId = asked.key === null ? `g${randomUUID().replaceAll("-", "")}` : groupIdOf(asked.key);
    const woken = this.#memory.isAsleep(groupId) ? await this.#memory.find(groupId) : null;
    const known = woken ?? this.#memory.awake(groupId);
    if (known !== null) {
      if (known.bodyHash !== bodyHash) {
        throw new ServiceRefusal(
          "key-reused",
          "Cannot take the request: its idempotency key came before with another body; use a new key for a new request.",
        );
      }
      await this.#logging.get(groupId)?.logged;
      return { group: known, isNew: false };
    }
    this.#checkRoom(request);
    const group = this.#openGroup(request, { groupId, groupIndex: this.#groupCount, bodyHash });
    const player = this.#playerOf(request);
    this.#groupCount++;
    this.#memory.add(group);
    await this.#log(group, asked);
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
      this.#groupCount = Math.max(this.#groupCount, entry.groupIndex + 1);
      const request = options.read(entry.body);
      if (options.decided.has(entry.groupId)) {
        const { groupId, groupIndex, bodyHash } = entry;
        this.#memory.addAsleep(request, { groupId, groupIndex, bodyHash });
        continue;
      }
      const group = this.#openGroup(request, entry);
      this.#memory.add(group);
      for (const job of group.jobs) {
        const episode = await this.#parts.archive.find(job.place.episodeId);
        if (episode === null) {
          if (cancelled.has(job.place.episodeId)) job.end(notStarted, { isKept: false });
          continue;
        }
        job.end(summarize(episode), { isKept: true });
        job.forgetEvents();
      }
      this.#start(group, this.#playerAgain(request));
    }
  }

  /** Rejects when the archive cannot be read. */
  group(groupId: string): Promise<GroupJob | null> {
    return this.#memory.find(groupId);
  }

  /** As `group`. */
  async job(episodeId: string): Promise<EpisodeJob | null> {
    const group = await this.#memory.find(episodeId.slice(0, Math.max(0, episodeId.lastIndexOf("."))));
    return group?.jobs.find(({ place }) => place.episodeId === episodeId) ?? null;
  }

  /** What an episode was and trains; `null` while it plays, and when nobody asked for it. */
  async ended(episodeId: string): Promise<EndedEpisode | null> {
    const atHand = this.#atHand.get(episodeId);
    if (atHand !== undefined) return atHand;
    const job = this.#memory.job(episodeId);
    if (job !== null && job.status !== "ended") return null;
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

  /**
   * Takes and begins nothing more. `wait`: until what runs has ended; otherwise, and while the gate is closed, it is cut off.
   * The next process goes on with what was cut off and with what waits.
   */
  async close(options: { readonly wait: boolean }): Promise<void> {
    this.#isClosing = true;
    const waits = options.wait && this.#parts.gate.isOpen;
    for (const job of this.#memory.jobs()) if (job.status === "waiting" || !waits) job.cutOff();
    while (this.#playing.size + this.#logging.size > 0) {
      await Promise.allSettled([...this.#playing, ...[...this.#logging.values()].map(({ logged }) => logged)]);
    }
  }

  #checkRoom({ samples }: GroupRequest): void {
    if (this.#isClosing) {
      throw new ServiceRefusal(
        "closing",
        "Cannot take the request: the service is closing; ask again when it is back.",
        {
          retryAfter: 5,
        },
      );
    }
    const { concurrency, maxWaiting } = this.#limits;
    const most = concurrency + maxWaiting;
    if (samples > most) {
      throw new ServiceRefusal(
        "bad-request",
        `Cannot take the request: it has ${samples} samples, and this service holds ${most} episodes at once; ask for fewer.`,
      );
    }
    let open = this.#permits.running + this.#permits.waiting + samples;
    for (const logging of this.#logging.values()) open += logging.samples;
    if (open <= most) return;
    throw new ServiceRefusal(
      "too-many",
      `Cannot take the request: ${this.#permits.waiting} episodes wait, at most ${maxWaiting} may; ask again later.`,
      { retryAfter: 1 },
    );
  }

  async #log(group: GroupJob, { key, body }: Asked): Promise<void> {
    const { groupId, groupIndex, bodyHash, jobs } = group;
    const entry = { type: "request", groupId, groupIndex, idempotencyKey: key, bodyHash, body } as const;
    const logged = this.#parts.requests.append(entry);
    this.#logging.set(groupId, { logged, samples: jobs.length });
    try {
      await logged;
    } catch (error) {
      this.#memory.remove(group);
      for (const job of jobs) job.end(notPlayed(error), { isKept: false });
      throw error;
    } finally {
      this.#logging.delete(groupId);
    }
  }

  #openGroup(request: GroupRequest, { groupId, groupIndex, bodyHash }: GroupIdentity): GroupJob {
    const task = this.#taskOf(request);
    const seed = request.seed ?? this.#parts.seed;
    const jobs = Array.from({ length: request.samples }, (_, sampleIndex) => {
      const episodeId = `${groupId}.${sampleIndex}`;
      // The task's id is in it, so that equal seeds and keys never couple different tasks.
      const own = episodeSeed(seed, `${task.id}/${request.seed === null ? groupId : ""}`, sampleIndex);
      return new EpisodeJob({ episodeId, groupId, sampleIndex, task, seed: own });
    });
    return { groupId, groupIndex, bodyHash, request, jobs };
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

  /** Of a request that was accepted before: what is wrong with it now is told by its episodes. */
  #playerAgain(request: GroupRequest): EpisodePlayer {
    try {
      return this.#playerOf(request);
    } catch (error) {
      return async () => {
        throw error;
      };
    }
  }

  #start(group: GroupJob, player: EpisodePlayer): void {
    const open = group.jobs.filter(({ status }) => status !== "ended");
    const all = Promise.all(open.map((job) => this.#run(job, player)))
      .then(() => this.#finish(group))
      .catch((error: unknown) => this.#parts.onFault?.(error))
      .finally(() => this.#playing.delete(all));
    this.#playing.add(all);
  }

  async #run(job: EpisodeJob, player: EpisodePlayer): Promise<void> {
    const { episodeId, groupId, sampleIndex, task, seed } = job.place;
    if (this.#isClosing) job.cutOff();
    let release: () => void;
    try {
      release = await this.#permits.acquire(job.signal);
    } catch {
      if (!job.isCutOff) job.end(notStarted, { isKept: false });
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
      if (job.isCutOff && episode.stopReason === "cancelled") return;
      if (played.origin !== "kept") await this.#parts.store.append(episode);
      this.#keepAtHand({ episode, result: played.result });
      job.end(summarize(episode), { isKept: true });
      this.#memory.trim();
    } catch (error) {
      if (!job.isCutOff) job.end(job.signal.aborted ? notStarted : notPlayed(error), { isKept: false });
    } finally {
      release();
    }
  }

  /**
   * A group whose episodes have all ended is recorded with its rows. Not recorded: what the service cut off, and what could
   * not be played; the next process goes on with both.
   */
  async #finish({ groupId, groupIndex, jobs }: GroupJob): Promise<void> {
    if (jobs.some(({ status, isKept, summary }) => status !== "ended" || (!isKept && summary?.outcome === "failed"))) {
      return;
    }
    const kept = jobs.filter(({ isKept }) => isKept);
    if (kept.length === 0) return;
    const [, format] = [...this.#parts.formats][0] ?? [null, (): readonly unknown[] => []];
    const ended = await Promise.all(kept.map(({ place }) => this.ended(place.episodeId)));
    const record: GroupRecord = {
      groupId,
      taskId: jobs[0]?.place.task.id ?? "",
      groupIndex,
      decision: "kept",
      reason: null,
      episodeIds: kept.map(({ place }) => place.episodeId),
      rewards: kept.map(({ summary }) => summary?.reward ?? null),
    };
    const played = ended.filter((one) => one !== null);
    const sampleLines = format(played, groupIndex).map((row) => JSON.stringify(row));
    await this.#parts.store.appendGroup({ group: record, sampleLines });
  }

  /** What was played leaves memory long before what became of it does, the oldest first. */
  #keepAtHand(played: EndedEpisode): void {
    this.#atHand.set(played.episode.id, played);
    for (const episodeId of this.#atHand.keys()) {
      if (this.#atHand.size <= mostAtHand) break;
      this.#atHand.delete(episodeId);
      this.#memory.job(episodeId)?.forgetEvents();
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
