// The groups of one step, played with the weights of the moment. A group whose episodes all earned the same teaches nothing;
// further tasks are played in its place, wave after wave, up to a bound. Waves make the outcome independent of which
// episode happens to end first.

import type { Task, Taskset } from "../core/index.ts";
import { deriveSeed } from "../lib/random.ts";
import type { RunEpisode, FinishedEpisode } from "../rollout/index.ts";
import { isDead } from "./group-advantages.ts";
import type { TaskOrder } from "./task-order.ts";

export type PlayedGroup = {
  readonly task: Task;
  readonly episodes: readonly FinishedEpisode[];
  readonly isDead: boolean;
};

export type CollectOptions = {
  /** Groups that teach something which a step wants. */
  readonly groups: number;
  /** Episodes of a group. */
  readonly samples: number;
  /** Most groups of a step, dead ones included; at least `groups`. */
  readonly maxGroups: number;
  /** Of the run. */
  readonly seed: number;
  /** Which share of the groups is expected to teach something; that of the step before is a good guess. */
  readonly liveShare: number;
  /** The place of the step's first group in the order of tasks. */
  readonly firstGroup: number;
  readonly signal: AbortSignal;
};

export type CollectParts = {
  readonly runEpisode: RunEpisode;
  readonly taskset: Taskset;
  readonly order: TaskOrder;
};

/** A wave for less than this share of the groups costs more than it teaches: small batches are slow. */
const worthAWave = 0.25;

/** Resolves with all groups that were played, in the order of tasks. */
export async function collectGroups(parts: CollectParts, options: CollectOptions): Promise<readonly PlayedGroup[]> {
  const { groups, maxGroups, firstGroup, signal } = options;
  const played: PlayedGroup[] = [];
  let { liveShare } = options;
  let missing = groups;
  do {
    const wave = Math.min(Math.ceil(missing / Math.max(liveShare, groups / maxGroups)), maxGroups - played.length);
    const numbers = Array.from({ length: wave }, (_, index) => firstGroup + played.length + index);
    played.push(...(await Promise.all(numbers.map((number) => playGroup(number, parts, options)))));
    const live = played.filter((group) => !group.isDead).length;
    missing = groups - live;
    liveShare = live / played.length;
  } while (missing > groups * worthAWave && played.length < maxGroups && !signal.aborted);
  return played;
}

async function playGroup(
  number: number,
  { runEpisode, taskset, order }: CollectParts,
  { samples, seed, signal }: CollectOptions,
): Promise<PlayedGroup> {
  const task = taskset.task(order.taskIndex(number));
  // A task may come up again after all others did: then it is another group.
  const groupId = `${task.id}@${number}`;
  const episodes = await Promise.all(
    Array.from({ length: samples }, (_, sampleIndex) =>
      runEpisode(task, {
        episodeId: `${groupId}#${sampleIndex}`,
        groupId,
        sampleIndex,
        seed: deriveSeed(seed, groupId, sampleIndex),
        signal,
        onEvent: () => undefined,
      }),
    ),
  );
  const rewards = episodes.flatMap(({ episode }) => episode.reward ?? []);
  return { task, episodes, isDead: isDead(rewards) };
}
