// Chooses the task of a group: by kind in turn, or more often the tasks that taught something
// recently. Both are functions of the group's number and of the learner's state, so a run that is
// resumed continues in the same way.

import { ownValue, setOwn } from "../lib/counts.ts";
import { createRandom, deriveSeed } from "../lib/random.ts";
import type { TaskTraits } from "./comparison.ts";

/**
 * Share of recent groups whose rewards differ, 0 to 1, by name of the order. Absent if no group was
 * run.
 */
export type LiveShares = Readonly<Record<string, number>>;

export type TaskOrder = {
  /** Index of the task for the `number`-th group of a run, counted from 0. */
  taskIndex(number: number, live: LiveShares): number;
  /** The name under which the live share of a task is kept. */
  nameOf(index: number): string;
};

export type TaskOrderOptions = {
  /** Indexes of the tasks to choose from. */
  readonly indexes: readonly number[];
  readonly traitsOf: (index: number) => TaskTraits;
  readonly seed: number;
};

/** Kinds take turns. All tasks of a kind come up before one of them comes up again. */
export function createTaskOrder({ indexes, traitsOf, seed }: TaskOrderOptions): TaskOrder {
  const byKind = grouped(indexes, (index) => traitsOf(index).kind);
  const kinds = [...byKind.keys()].toSorted();
  return {
    nameOf: (index) => traitsOf(index).kind,
    taskIndex: (number) => {
      const turn = Math.floor(number / kinds.length);
      // Kinds are also shuffled within each round, so that a step of fewer groups than kinds
      // favours none.
      const kind = createRandom(deriveSeed(seed, "kind-order", turn)).shuffle(kinds)[number % kinds.length]!;
      const tasks = byKind.get(kind)!;
      const round = Math.floor(turn / tasks.length);
      return createRandom(deriveSeed(seed, "task-order", kind, round)).shuffle(tasks)[turn % tasks.length]!;
    },
  };
}

/** Tasks that never teach still come up now and then, because the policy changes. */
const leastShare = 0.05;
/** Weight of a new group in its name's share: groups more than about ten back are forgotten. */
const novelty = 0.25;

/**
 * Tasks at random, each as likely as the groups of its case were live recently. A task may come up
 * again before all others did. Only the traits of drawn tasks are read: a task of a case that
 * teaches little is drawn as often as any other, and mostly rejected.
 */
export function createLiveOrder({ indexes, traitsOf, seed }: TaskOrderOptions): TaskOrder {
  if (indexes.length === 0) throw noTasks();
  const nameOf = (index: number): string => {
    const { kind, case: situation } = traitsOf(index);
    return situation === null ? kind : `${kind}: ${situation}`;
  };
  return {
    nameOf,
    taskIndex: (number, live) => {
      const random = createRandom(deriveSeed(seed, "live-order", number));
      for (;;) {
        const index = random.pick(indexes);
        if (random.next() < Math.max(leastShare, ownValue(live, nameOf(index)) ?? 1)) return index;
      }
    },
  };
}

/** The shares updated with further groups. */
export function liveShares(
  before: LiveShares,
  groups: readonly (readonly [name: string, isLive: boolean])[],
): LiveShares {
  const shares: Record<string, number> = { ...before };
  for (const [name, isLive] of groups) {
    const share = ownValue(shares, name) ?? 1;
    setOwn(shares, name, share + novelty * ((isLive ? 1 : 0) - share));
  }
  return shares;
}

function grouped(
  indexes: readonly number[],
  nameOf: (index: number) => string,
): ReadonlyMap<string, readonly number[]> {
  if (indexes.length === 0) throw noTasks();
  const found = new Map<string, number[]>();
  for (const index of indexes) {
    const name = nameOf(index);
    const list = found.get(name) ?? [];
    list.push(index);
    found.set(name, list);
  }
  return found;
}

function noTasks(): RangeError {
  return new RangeError("Cannot order tasks: there are none.");
}
