// Takes requests and knows what became of each. HTTP is the routes'; how an episode is played is the player's, when is the
// stage's; what is kept is the store's; what is remembered is the memory's. Here: identity (a key that comes twice is one
// request), and how many may wait.

import { randomUUID } from "node:crypto";
import type { RunEpisode } from "../rollout/index.ts";
import { type Asked, checkSameBody, digestOf, hashOf, refuseClosing } from "./asked.ts";
import type { EpisodeJob } from "./episode-job.ts";
import type { EpisodeStage } from "./episode-stage.ts";
import { notPlayed, notStarted, summarize } from "./episode-summary.ts";
import type { GroupJob, GroupRequest } from "./group-job.ts";
import type { GroupMemory } from "./group-memory.ts";
import { openGroup } from "./open-group.ts";
import { playerAgain, playerOf } from "./policy-player.ts";
import type { LoggedRequest } from "./request-log.ts";
import type { ServiceLimits, ServiceParts } from "./service-parts.ts";
import { ServiceRefusal } from "./service-refusal.ts";

export type DeskHands = { readonly memory: GroupMemory; readonly stage: EpisodeStage };

export class RolloutDesk {
  readonly #parts: ServiceParts;
  readonly #limits: ServiceLimits;
  readonly #memory: GroupMemory;
  readonly #stage: EpisodeStage;
  /** Requests that are not on disk yet, by group; their episodes have no permit and do not wait for one. */
  readonly #logging = new Map<string, { readonly logged: Promise<void>; readonly samples: number }>();
  readonly #playing = new Set<Promise<void>>();
  #isClosing = false;

  constructor(parts: ServiceParts, limits: ServiceLimits, { memory, stage }: DeskHands) {
    this.#parts = parts;
    this.#limits = limits;
    this.#memory = memory;
    this.#stage = stage;
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  /**
   * Takes a request, or finds the one that came with the same key. Resolves once it is on disk; its episodes then play by
   * themselves. Throws a `ServiceRefusal`.
   */
  async submit(request: GroupRequest, asked: Asked): Promise<{ readonly group: GroupJob; readonly isNew: boolean }> {
    const bodyHash = hashOf(asked.body);
    const groupId = asked.key === null ? `g${randomUUID().replaceAll("-", "")}` : `k${digestOf(asked.key)}`;
    const woken = this.#memory.isAsleep(groupId) ? await this.#memory.find(groupId) : null;
    const known = woken ?? this.#memory.awake(groupId);
    if (known !== null) {
      checkSameBody(known, bodyHash);
      await this.#logging.get(groupId)?.logged;
      return { group: known, isNew: false };
    }
    this.#checkRoom(request);
    const player = playerOf(request.policy, this.#parts);
    const opened = openGroup(request, { groupId, groupIndex: 0, bodyHash, producerId: null }, this.#parts);
    const group = { ...opened, groupIndex: this.#memory.takeNumber() };
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
    options: { readonly read: (body: unknown) => GroupRequest; readonly decided: { has(groupId: string): boolean } },
  ): Promise<void> {
    const cancelled = new Set(earlier.flatMap((entry) => (entry.type === "cancel" ? entry.episodeIds : [])));
    for (const entry of earlier) {
      if (entry.type !== "request") continue;
      const { groupId, groupIndex, bodyHash } = entry;
      this.#memory.passNumber(groupIndex);
      const request = options.read(entry.body);
      const identity = { groupId, groupIndex, bodyHash, producerId: null };
      if (options.decided.has(groupId)) {
        this.#memory.addAsleep(request, identity);
        continue;
      }
      const group = openGroup(request, identity, this.#parts);
      this.#memory.add(group);
      for (const job of group.jobs) {
        const episode = await this.#parts.archive.find(job.place.episodeId);
        if (episode === null) {
          if (cancelled.has(job.place.episodeId)) job.end(notStarted, { isKept: false });
          continue;
        }
        job.endBefore(summarize(episode));
      }
      this.#start(group, playerAgain(request.policy, this.#parts));
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

  /** Ends what has not ended of these; the others stay as they are. Throws a `ServiceRefusal` for a group of a producer. */
  async cancel(group: GroupJob, jobs: readonly EpisodeJob[] = group.jobs): Promise<void> {
    if (group.producerId !== null) {
      throw new ServiceRefusal(
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
   * Takes and begins nothing more. `wait`: until what runs has ended; otherwise, and while the gate is closed, it is cut off.
   * The next process goes on with what was cut off and with what waits.
   */
  async close(options: { readonly wait: boolean }): Promise<void> {
    this.#isClosing = true;
    this.#stage.close(this.#memory.jobs(), options);
    while (this.#playing.size + this.#logging.size > 0) {
      await Promise.allSettled([...this.#playing, ...[...this.#logging.values()].map(({ logged }) => logged)]);
    }
  }

  #checkRoom({ samples }: GroupRequest): void {
    if (this.#isClosing) refuseClosing();
    const { concurrency, maxWaiting } = this.#limits;
    const most = concurrency + maxWaiting;
    if (samples > most) {
      throw new ServiceRefusal(
        "bad-request",
        `Cannot take the request: it has ${samples} samples, and this service holds ${most} episodes at once; ask for fewer.`,
      );
    }
    let open = this.#stage.running + this.#stage.waitingRequests + samples;
    for (const logging of this.#logging.values()) open += logging.samples;
    if (open <= most) return;
    throw new ServiceRefusal(
      "too-many",
      `Cannot take the request: ${this.#stage.waitingRequests} episodes wait, at most ${maxWaiting} may; ask again later.`,
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

  #start(group: GroupJob, player: RunEpisode): void {
    const open = group.jobs.filter(({ status }) => status !== "ended");
    const all = Promise.all(open.map((job) => this.#run(job, player)))
      .then(() => this.#finish(group))
      .catch((error: unknown) => this.#parts.onFault?.(error))
      .finally(() => this.#playing.delete(all));
    this.#playing.add(all);
  }

  async #run(job: EpisodeJob, player: RunEpisode): Promise<void> {
    try {
      const played = await this.#stage.play(job, player);
      if (played === null && !job.isCutOff) job.end(notStarted, { isKept: false });
    } catch (error) {
      if (!job.isCutOff) job.end(job.signal.aborted ? notStarted : notPlayed(error), { isKept: false });
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
    await this.#stage.record({
      groupId,
      taskId: jobs[0]?.place.task.id ?? "",
      groupIndex,
      decision: "kept",
      reason: null,
      episodeIds: kept.map(({ place }) => place.episodeId),
      rewards: kept.map(({ summary }) => summary?.reward ?? null),
    });
  }
}
