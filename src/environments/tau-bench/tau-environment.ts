// The benchmark behind our own contract: calls, messages, one grade. No user lives in it (the loop has one), and nothing
// escapes from a call. For the reference's own interface, quirks of stepping included, see `tau-episode.ts`.

import type { Ending, Environment, EnvironmentCall, Grade, ToolResult, Task } from "../../core/environment.ts";
import type { Tool } from "../../core/message.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import { callAction, respondName, type TauAction } from "./tool.ts";
import type { DomainData, TauTask } from "./domain-data.ts";
import { goldOf, rewardOf, stepInfo, type TauReward } from "./reward.ts";
import { World } from "./world.ts";

export class TauEnvironment implements Environment {
  readonly task: Task;
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  readonly info: JsonObject;
  readonly #data: DomainData;
  readonly #task: TauTask;
  readonly #world: World;
  /** The agent's messages, as the actions that the reference records for them. */
  readonly #said: TauAction[] = [];

  constructor(data: DomainData, task: TauTask) {
    this.task = task.task;
    this.guidelines = data.guidelines;
    this.tools = data.tools;
    this.info = stepInfo(task, "user");
    this.#data = data;
    this.#task = task;
    this.#world = new World(data.base);
  }

  call({ name, arguments: kwargs }: EnvironmentCall): ToolResult {
    const { observation, endsEpisode } = callAction(this.#data.domain, this.#world, { name, kwargs });
    // Where a tool returns None the reference itself breaks down; the policy reads Python's name for it.
    const text = observation ?? "None";
    const isError = text.startsWith("Error: ") || text === `Unknown action ${name}`;
    return { text, isError, endsEpisode, info: new Map([["source", name]]) };
  }

  hear(utterance: string): void {
    this.#said.push({ name: respondName, kwargs: new Map([["content", utterance]]) });
  }

  /** An episode cut off by a limit earns nothing, as in the reference, whose reward exists only when it is done. */
  grade({ outcome }: Ending): Grade {
    const result = rewardOf({ world: this.#world, actions: this.#said }, this.#task, goldOf(this.#data, this.#task));
    const isCompleted = outcome === "completed";
    return {
      reward: isCompleted ? result.reward : 0,
      metrics: metricsOf(result),
      log: describe(result, isCompleted),
      info: new Map<string, JsonValue>([["reward_info", isCompleted ? result.info : null]]),
    };
  }

  digest(): string {
    return this.#world.digest();
  }
}

/** `outputs_said` only for tasks that ask for outputs. */
function metricsOf({ wrongRecords, outputs }: TauReward): Record<string, number> {
  const metrics: Record<string, number> = { database_right: wrongRecords.length === 0 ? 1 : 0 };
  if (outputs.size > 0) metrics["outputs_said"] = [...outputs.values()].every((said) => said) ? 1 : 0;
  return metrics;
}

function describe({ wrongRecords, outputs }: TauReward, isCompleted: boolean): string {
  const notes: string[] = [];
  if (!isCompleted) notes.push("The episode was cut off before its end.");
  if (wrongRecords.length > 0) notes.push(`Not as the task expects them: ${wrongRecords.join(", ")}.`);
  const unsaid = [...outputs].filter(([, said]) => !said).map(([output]) => `"${output}"`);
  if (unsaid.length > 0) notes.push(`Never said: ${unsaid.join(", ")}.`);
  return notes.join(" ");
}
