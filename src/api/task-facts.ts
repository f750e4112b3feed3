// What graders may know of a task of an environment: of τ-bench the wanted calls and the user id, of others what every task
// says. Read once for each task; whether the wanted end can be reached is tried when it is first asked for.

import type { EnvironmentSource, Task, Tool } from "../core/index.ts";
import { type DomainData, loadTauBench } from "../environments/tau-bench/index.ts";
import { openChecked } from "../rollout/index.ts";
import type { TaskFacts } from "../graders/index.ts";

export type TaskFactsSource = (task: Task) => Promise<TaskFacts>;

const tauBench = "tau-bench/";

/** `data`: where the tasks of τ-bench were loaded from; `null` for other environments. */
export function taskFactsOf(environment: EnvironmentSource, data: string | null): TaskFactsSource {
  const domain = environment.name.startsWith(tauBench) ? environment.name.slice(tauBench.length) : null;
  const known = new Map<string, Promise<TaskFacts>>();
  const make = async (task: Task): Promise<TaskFacts> => {
    if (domain === null || data === null) return unknownEnd(environment, task);
    return tauBenchFacts(environment, task, await loadTauBench({ domain, folder: data }));
  };
  return (task) => {
    const facts = known.get(task.id) ?? make(task);
    known.set(task.id, facts);
    return facts;
  };
}

function unknownEnd(environment: EnvironmentSource, task: Task): TaskFacts {
  return {
    instruction: task.instruction,
    tools: toolsOf(environment, task),
    expectedCalls: null,
    isReachable: null,
    knownFacts: [],
  };
}

/** None where the environment cannot be opened: that is what failed the episode then. */
function toolsOf(environment: EnvironmentSource, task: Task): readonly Tool[] {
  try {
    const opened = openChecked(environment, task);
    if (!(opened instanceof Promise)) return opened.tools;
    opened.catch(() => undefined);
  } catch {
    // Its episode has the reason.
  }
  return [];
}

async function tauBenchFacts(environment: EnvironmentSource, task: Task, data: DomainData): Promise<TaskFacts> {
  const found = data.tasks.get(task.split)?.[task.index];
  if (found === undefined) return unknownEnd(environment, task);
  const expectedCalls = found.actions.map(({ name, kwargs }) => ({ name, arguments: kwargs }));
  const userId = found.info.get("user_id");
  const world = environment.open(task);
  for (const call of expectedCalls) {
    const { endsEpisode } = await world.call(call);
    if (endsEpisode) break;
  }
  world.hear(found.outputs.join(" "));
  const { reward } = await world.grade({ outcome: "completed" });
  return {
    instruction: task.instruction,
    tools: data.tools,
    expectedCalls,
    isReachable: reward === 1,
    knownFacts: typeof userId === "string" ? [{ name: "user id", value: userId }] : [],
  };
}
