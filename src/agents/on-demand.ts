// Strategies for a rollout: `act` and `react` are loaded only if one of them is chosen.

import type { AgentStrategy } from "../core/index.ts";
import type { AgentFactoryOptions } from "./agent-factory.ts";
import { createToolCalling } from "./tool-calling.ts";

export { findViolation, schemaWarnings, unusableSchemas } from "./argument-validator.ts";
export { defaultToolInstruction, parseDisplays, toolInstructionEdit } from "./tool-calling.ts";

/** Same as `agentFactory`, and rejects where that throws. */
export async function loadStrategy(options: AgentFactoryOptions): Promise<AgentStrategy> {
  if (options.strategy === "tool-calling") return createToolCalling(options);
  return (await import("./agent-factory.ts")).agentFactory(options);
}
