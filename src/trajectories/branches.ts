import type { Trajectory, Turn } from "../core/turn.ts";
import { pathTo } from "./sequence.ts";

/** The root-to-leaf paths of a trajectory, in the order of their leaves. An append-only history has exactly one. */
export function branchesOf(trajectory: Trajectory): Turn[][] {
  const parents = new Set(trajectory.turns.map((turn) => turn.parent));
  return trajectory.turns.filter((turn) => !parents.has(turn.index)).map((leaf) => pathTo(trajectory, leaf.index));
}
