// Plays episodes a bounded number at a time, whoever asked for them, first come, first served; what was played of late stays at
// hand. It decides nothing: what an ending means is for those who asked.

import type { EpisodeEvent, GroupRecord } from "../core/index.ts";
import { episodeSamples } from "../rollout/index.ts";
import { createSemaphore, type Semaphore } from "../lib/limits.ts";
import type { RunEpisode, FinishedEpisode } from "../rollout/index.ts";
import type { EpisodeJob } from "./episode-job.ts";
import { summarize } from "./episode-summary.ts";
import { viewEvent } from "./event-view.ts";
import type { GroupMemory } from "./group-memory.ts";
import type { EndedEpisode, ServiceParts } from "./service-parts.ts";

/** What is played of late stays at hand: trainers fetch samples soon after the end. */
const mostAtHand = 256;

export type StageOptions = {
  /** Of a producer: it does not count among those that were asked for one by one. */
  readonly isProduced?: boolean;
  /** Asked when it was cancelled before it began: whether it is played all the same, and ends at once. Default: it is not. */
  readonly endsUnbegun?: () => boolean;
  /** Told of what happens now. */
  readonly onEvent?: (event: EpisodeEvent) => void | Promise<void>;
  /** Told of what an earlier process recorded of it. */
  readonly onRecorded?: ((event: EpisodeEvent) => void) | undefined;
};

export class EpisodeStage {
  readonly #parts: Pick<ServiceParts, "gate" | "store" | "archive" | "formats" | "writeSamples">;
  readonly #memory: GroupMemory;
  readonly #permits: Semaphore;
  readonly #atHand = new Map<string, EndedEpisode>();
  readonly #playing = new Set<Promise<unknown>>();
  #waitingOfProducers = 0;
  #isClosing = false;

  constructor(
    parts: Pick<ServiceParts, "gate" | "store" | "archive" | "formats" | "writeSamples">,
    { memory, concurrency }: { readonly memory: GroupMemory; readonly concurrency: number },
  ) {
    this.#parts = parts;
    this.#memory = memory;
    this.#permits = createSemaphore(concurrency);
  }

  /** Episodes that have a place. */
  get running(): number {
    return this.#permits.running;
  }

  /** Episodes that wait for one. */
  get waiting(): number {
    return this.#permits.waiting;
  }

  /** Those of them that were asked for one by one. */
  get waitingRequests(): number {
    return this.#permits.waiting - this.#waitingOfProducers;
  }

  /** From now on nothing begins. Cuts off what waits; and what runs, unless it may end in its own time. */
  close(jobs: Iterable<EpisodeJob>, { wait }: { readonly wait: boolean }): void {
    this.#isClosing = true;
    const waits = wait && this.#parts.gate.isOpen;
    for (const job of jobs) if (job.status === "waiting" || !waits) job.cutOff();
  }

  /** Resolves when nothing plays any more. */
  async idle(): Promise<void> {
    while (this.#playing.size > 0) await Promise.allSettled(this.#playing);
  }

  /**
   * Plays it once it has a place, and keeps it in the store. Resolves with `null` when it was cut off, or cancelled before it
   * began; then nothing is kept. Rejects with what the player or the store rejects with.
   */
  play(job: EpisodeJob, player: RunEpisode, options: StageOptions = {}): Promise<FinishedEpisode | null> {
    const played = this.#play(job, player, options).finally(() => this.#playing.delete(played));
    this.#playing.add(played);
    return played;
  }

  /** What an episode was and trains; `null` while it plays, and when there is none. */
  async ended(episodeId: string): Promise<EndedEpisode | null> {
    const atHand = this.#atHand.get(episodeId);
    if (atHand !== undefined) return atHand;
    const job = this.#memory.job(episodeId);
    if (job !== null && job.status !== "ended") return null;
    const episode = await this.#parts.archive.find(episodeId);
    return episode === null ? null : { episode, result: episodeSamples(episode) };
  }

  /** Records what became of a group, with its rows when it is kept and they are requested. */
  async record(group: GroupRecord): Promise<void> {
    const sampleLines = group.decision === "kept" && this.#parts.writeSamples === true ? await this.#rowsOf(group) : [];
    await this.#parts.store.appendGroup({ group, sampleLines });
  }

  async #rowsOf({ episodeIds, groupIndex }: GroupRecord): Promise<string[]> {
    const [format] = this.#parts.formats.values();
    if (format === undefined) return [];
    const ended = await Promise.all(episodeIds.map((episodeId) => this.ended(episodeId)));
    const played = ended.filter((one) => one !== null);
    return format(played, groupIndex).map((row) => JSON.stringify(row));
  }

  async #play(
    job: EpisodeJob,
    player: RunEpisode,
    { isProduced = false, endsUnbegun, onEvent, onRecorded }: StageOptions,
  ): Promise<FinishedEpisode | null> {
    const { episodeId, groupId, sampleIndex, task, seed } = job.place;
    if (this.#isClosing) job.cutOff();
    let release = (): void => undefined;
    const waits = isProduced && this.#permits.running >= this.#permits.limit;
    if (waits) this.#waitingOfProducers++;
    try {
      release = await this.#permits.acquire(job.signal).finally(() => {
        if (waits) this.#waitingOfProducers--;
      });
      await this.#parts.gate.pass(job.signal);
    } catch {
      release();
      if (job.isCutOff || endsUnbegun?.() !== true) return null;
    }
    try {
      job.begin();
      const played = await player(task, {
        episodeId,
        groupId,
        sampleIndex,
        seed,
        signal: job.signal,
        onEvent: (event) => {
          job.see(viewEvent(event));
          return onEvent?.(event);
        },
        ...(onRecorded === undefined ? {} : { onRecorded }),
      });
      const { episode, result } = played;
      if (job.isCutOff && episode.stopReason === "cancelled") return null;
      if (played.origin !== "stored") await this.#parts.store.append(episode);
      this.#keepAtHand({ episode, result });
      job.end(summarize(episode), { isKept: true });
      this.#memory.trim();
      return played;
    } finally {
      release();
    }
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
