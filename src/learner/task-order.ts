// Which task comes next. Kinds of tasks take turns, so that every step sees all of them alike, and no kind that happens to be
// frequent, or that the policy happens to solve, crowds out the others. Pure: a seed and a number name a task.

import { createRandom, deriveSeed } from "../lib/random.ts";

export type TaskOrder = {
  /** Of the `number`-th group of a run, from 0. All tasks of a kind come up before one of them comes up again. */
  taskIndex(number: number): number;
};

export type TaskOrderOptions = {
  /** Indexes to choose from. */
  readonly indexes: readonly number[];
  readonly kindOf: (index: number) => string;
  readonly seed: number;
};

export function createTaskOrder({ indexes, kindOf, seed }: TaskOrderOptions): TaskOrder {
  if (indexes.length === 0) throw new RangeError("Cannot order tasks: there are none.");
  const byKind = new Map<string, number[]>();
  for (const index of indexes) {
    const kind = kindOf(index);
    const list = byKind.get(kind);
    if (list === undefined) byKind.set(kind, [index]);
    else list.push(index);
  }
  const kinds = [...byKind.keys()].toSorted();
  const rounds = new Map<string, readonly number[]>();
  const shuffled = (kind: string, round: number): readonly number[] => {
    const key = `${kind} ${round}`;
    const known = rounds.get(key);
    if (known !== undefined) return known;
    const list = createRandom(deriveSeed(seed, "task-order", kind, round)).shuffle(byKind.get(kind)!);
    rounds.set(key, list);
    return list;
  };
  return {
    taskIndex: (number) => {
      const turn = Math.floor(number / kinds.length);
      // Within a turn the kinds are shuffled too, so that a step of fewer groups than kinds favours none.
      const kind = createRandom(deriveSeed(seed, "kind-order", turn)).shuffle(kinds)[number % kinds.length]!;
      const size = byKind.get(kind)!.length;
      return shuffled(kind, Math.floor(turn / size))[turn % size]!;
    },
  };
}
