// The end state a task wants: its gold actions played on fresh data, once per process and task. Failing calls in gold
// lists stay failing; calls that end an episode are left out, as the reference leaves them out.

import type { TauAction } from "./action.ts";
import type { DomainData, TauTask } from "./domain-data.ts";
import { runTool } from "./tool.ts";
import { World } from "./world.ts";

export type Gold = {
  /** For reading and forking only. */
  readonly world: World;
  /** The actions that were played. */
  readonly actions: readonly TauAction[];
  /** Hash texts of the records that really differ from fresh data. */
  readonly differences: ReadonlyMap<string, ReadonlyMap<string, string | null>>;
  /** The data hash; computed when first asked for. */
  digest(): string;
};

const golds = new WeakMap<TauTask, Gold>();

export function goldOf(data: DomainData, task: TauTask): Gold {
  let gold = golds.get(task);
  if (gold === undefined) {
    gold = playGold(data, task);
    golds.set(task, gold);
  }
  return gold;
}

function playGold(data: DomainData, task: TauTask): Gold {
  const { domain } = data;
  const world = new World(data.base);
  const actions = task.actions.filter(({ name }) => !domain.terminating.has(name));
  for (const { name, kwargs } of actions) {
    const tool = domain.tools.find((candidate) => candidate.name === name);
    if (tool !== undefined) runTool(tool, world, { domain: domain.name, kwargs });
  }
  let digest: string | null = null;
  return {
    world,
    actions,
    differences: world.differences(),
    digest: () => (digest ??= world.digest()),
  };
}
