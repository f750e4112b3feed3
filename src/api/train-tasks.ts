// Tasks that a training learns from, by their kinds and cases, and tasks that are held out.

import { ConfigurationError } from "../core/index.ts";
import type { TaskTraits } from "../learner/index.ts";
import type { JsonObject } from "../python-semantics/json/index.ts";

/**
 * Tasks of the kinds and cases that `names` lists, separated by commas; `null` for all. Throws a
 * `ConfigurationError` that lists the available ones.
 */
export function chooseTasks(
  indexes: readonly number[],
  traitsOf: (index: number) => TaskTraits,
  names: string | null,
): readonly number[] {
  if (names === null) return indexes;
  const wanted = new Set(names.split(",").map((name) => name.trim()));
  const known = new Set<string>();
  const chosen = indexes.filter((index) => {
    const { kind, case: situation } = traitsOf(index);
    const own = situation === null ? [kind] : [kind, situation];
    for (const name of own) known.add(name);
    return own.some((name) => wanted.has(name));
  });
  const unknown = [...wanted].find((name) => !known.has(name));
  if (unknown === undefined) return chosen;
  throw new ConfigurationError(
    `Cannot train on tasks of "${unknown}": the kinds and cases are ${[...known].toSorted().join(", ")}; correct --cases.`,
  );
}

/** Traits of a task for tables of cases, from the info of its environment. */
export function traitsIn(info: JsonObject): TaskTraits {
  const [kind, level, cases] = ["kind", "level", "cases"].map((key) => info.get(key));
  const [only, ...others] = Array.isArray(cases) ? cases : [];
  return {
    kind: typeof kind === "string" ? kind : "all",
    case: typeof only !== "string" ? null : others.length === 0 ? only : `${others.length + 1} goals`,
    level: typeof level === "number" ? level : null,
  };
}

/** If there is only one split, its first tasks, a third at most, are held out for evaluation. */
export function holdOut(indexes: readonly number[], count: number): [readonly number[], readonly number[]] {
  const held = Math.min(count, Math.floor(indexes.length / 3));
  if (held < 1) {
    throw new ConfigurationError(
      `Cannot train on ${indexes.length} tasks: a third of them is held out to measure learning; give 3 or more with --tasks.`,
    );
  }
  return [indexes.slice(0, held), indexes.slice(held)];
}
