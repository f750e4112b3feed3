import type { Task, Taskset } from "../../core/environment.ts";
import { createRandom, deriveSeed } from "../../lib/random.ts";

/** The task at `index`, or, when it is `null`, one drawn uniformly by the seed. (The reference draws one index too many.) */
export function chooseTask(taskset: Taskset, index: number | null, options: { readonly seed: number }): Task {
  return taskset.task(
    index ?? createRandom(deriveSeed(options.seed, "choose-task", taskset.split)).integer(taskset.size),
  );
}
