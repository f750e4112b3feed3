import type { Agenda } from "./agenda.ts";

/** An immutable problem with a stable id. */
export type Task = {
  /** Unique and stable, e.g. `tau-bench/retail:test:17`. */
  readonly id: string;
  /** Name of the environment. */
  readonly environment: string;
  readonly split: string;
  readonly index: number;
  /** SHA-256 (hex) of everything that defines the task. */
  readonly contentHash: string;
  /** What a user simulated by a model is told; `null` when the task has no prose. */
  readonly instruction: string | null;
  /** What the agenda-based user follows; `null` when the task has no structured goal. */
  readonly agenda: Agenda | null;
};

/** A seedable source of tasks. `task(i)` is pure: the same index gives the same task, in every process. */
export interface Taskset {
  readonly environment: string;
  readonly split: string;
  readonly size: number;
  /** Throws a `RangeError` that names the bounds. */
  task(index: number): Task;
}
