// Whole sequences, derived from the tokens that each turn added.

import type { Trajectory, Turn } from "../core/turn.ts";

/** The root-to-leaf paths of a trajectory, in the order of their leaves. An append-only history has exactly one. */
export function branchesOf(trajectory: Trajectory): Turn[][] {
  const parents = new Set(trajectory.turns.map((turn) => turn.parent));
  return trajectory.turns.filter((turn) => !parents.has(turn.index)).map((leaf) => pathTo(trajectory, leaf.index));
}

/** The turns from the root to `index`, in order. Throws a `RangeError` for a turn that does not exist. */
export function pathTo(trajectory: Trajectory, index: number): Turn[] {
  const path: Turn[] = [];
  for (let at: number | null = index; at !== null;) {
    const turn: Turn | undefined = trajectory.turns[at];
    if (turn === undefined)
      throw new RangeError(`Cannot find turn ${at}: the trajectory has ${trajectory.turns.length} turns.`);
    path.push(turn);
    at = turn.parent;
  }
  return path.reverse();
}

/** The tokens of a path: observation, action, observation, action, ... */
export function joinPath(path: readonly Turn[]): Uint32Array {
  const length = path.reduce((sum, turn) => sum + turn.observationTokens.length + turn.sampledTokens.length, 0);
  const tokens = new Uint32Array(length);
  let at = 0;
  for (const turn of path) {
    tokens.set(turn.observationTokens, at);
    at += turn.observationTokens.length;
    tokens.set(turn.sampledTokens, at);
    at += turn.sampledTokens.length;
  }
  return tokens;
}

/** Prompt and action of a turn as one sequence. */
export function turnSequence(trajectory: Trajectory, index: number): Uint32Array {
  return joinPath(pathTo(trajectory, index));
}

/** The whole prompt of a turn, as the engine received it. */
export function turnPrompt(trajectory: Trajectory, index: number): Uint32Array {
  const sequence = turnSequence(trajectory, index);
  return sequence.subarray(0, sequence.length - (trajectory.turns[index]?.sampledTokens.length ?? 0));
}
