// The source of bookshop tasks and environments. Options select among the tasks and never change
// one: an id names the same task under all options.

import type { LocalEnvironmentSource, Task } from "../../core/environment.ts";
import { ConfigurationError } from "../../core/failure.ts";
import { type BookshopSplit, type Kind, kinds, type Level, levels } from "./world.ts";
import { createTaskset } from "../../core/taskset.ts";
import { createBookshop } from "./environment.ts";
import { createScenario, cycleLength, drawnSplit, placeInCycle, type Scenario, worldVersion } from "./scenario.ts";

export type BookshopOptions = {
  /** Kinds of task to select. Default: all. */
  readonly kinds?: readonly Kind[];
  /** Levels of difficulty to select. Default: all. */
  readonly levels?: readonly Level[];
};

const cycles: Readonly<Record<BookshopSplit, number>> = { train: 2400, validation: 240, test: 240, fresh: 480 };
const environmentName = "bookshop";
const listedSplits = ["train", "validation", "test"];

/** Throws a `ConfigurationError` for an unknown kind or level, or if no task is left. */
export function bookshopSource(options: BookshopOptions = {}): LocalEnvironmentSource {
  const chosenKinds = chosen("kinds", options.kinds, kinds);
  const chosenLevels = chosen("levels", options.levels, levels);
  const places = Array.from({ length: cycleLength }, (_, place) => place).filter((place) => {
    const { kind, level } = placeInCycle(place);
    return chosenKinds.includes(kind) && chosenLevels.includes(level);
  });
  const scenarios = new WeakMap<Task, Scenario>();

  return {
    name: environmentName,
    splits: listedSplits,
    seededSplits: ["fresh"],
    users: ["agenda", "llm", "human", "scripted"],
    argumentErrors: "loop",
    taskset: (split) => {
      const drawn = drawnSplit(split);
      const names = drawn === null ? listedSplits : [split];
      return createTaskset(environmentName, split, {
        sizes: Object.fromEntries(names.map((name) => [name, cycles[drawnSplit(name)!.law] * places.length])),
        task: (index) => {
          const number = Math.floor(index / places.length) * cycleLength + places[index % places.length]!;
          const scenario = createScenario(drawn!, number);
          const { contentHash, instruction, agenda } = scenario;
          const id = `${environmentName}:${split}:${number}`;
          const task = { id, environment: environmentName, split, index, contentHash, instruction, agenda };
          scenarios.set(task, scenario);
          return task;
        },
      });
    },
    open: (task) => createBookshop(task, scenarios.get(task) ?? scenarioOf(task)),
  };
}

/** Recreates the scenario of a task that came from elsewhere (a run folder, another process). */
function scenarioOf({ id, contentHash }: Task): Scenario {
  const [, split = "", digits] = /^bookshop:(\w+|fresh:\d+):(\d+)$/.exec(id) ?? [];
  const number = Number(digits);
  const drawn = drawnSplit(split);
  if (drawn === null || number >= cycles[drawn.law] * cycleLength) {
    throw new ConfigurationError(
      `Cannot open task "${id}" in environment "bookshop": its task ids look like "bookshop:train:17".`,
    );
  }
  const scenario = createScenario(drawn, number);
  if (scenario.contentHash !== contentHash) {
    throw new ConfigurationError(
      `Cannot open task "${id}": its content hash is ${contentHash}, but version ${worldVersion} of the bookshop gives ` +
        `${scenario.contentHash}; use the version of the package that made the task.`,
    );
  }
  return scenario;
}

function chosen<T extends string | number>(
  option: string,
  given: readonly T[] | undefined,
  known: readonly T[],
): readonly T[] {
  if (given === undefined) return known;
  const unknown = given.find((one) => !known.includes(one));
  if (given.length > 0 && unknown === undefined) return given;
  throw new ConfigurationError(
    `Cannot use bookshop option "${option}": it is ${JSON.stringify(given)}, at least one of ${known.join(", ")} is expected.`,
  );
}
