// Strategies by name: the one place that knows which there are.

import { type AgentStrategy, ConfigurationError } from "../core/index.ts";
import { createToolCalling, type ToolCallingOptions } from "./tool-calling.ts";

const available = ["tool-calling"];
const planned = ["act", "react", "few-shot"];

export type AgentFactoryOptions = ToolCallingOptions & {
  /** Default "tool-calling". */
  readonly strategy?: string;
};

/** The strategy of a name. Throws a `ConfigurationError` that lists what there is for any other. */
export function agentFactory(options: AgentFactoryOptions = {}): AgentStrategy {
  const { strategy = "tool-calling", ...rest } = options;
  if (strategy === "tool-calling") return createToolCalling(rest);
  const state = planned.includes(strategy) ? "it is planned, but not built yet" : "there is none of that name";
  throw new ConfigurationError(
    `Cannot make an agent with strategy "${strategy}": ${state}; use one of ${available.join(", ")}.`,
  );
}
