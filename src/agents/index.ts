// Strategies: prompting and reading a turn, and reacting to invalid actions.

export { agentFactory, type AgentFactoryOptions, strategyNames } from "./agent-factory.ts";
export { findViolation, schemaWarnings, unusableSchemas } from "./argument-validator.ts";
export {
  createFewShot,
  type FewShotOptions,
  parseDisplays,
  createToolCalling,
  type ToolCallingOptions,
  defaultToolInstruction,
  toolInstructionEdit,
} from "./tool-calling.ts";
export {
  createProblemPolicy,
  defaultProblemPolicy,
  type ProblemDisposition,
  type ProblemPolicy,
} from "./decide-action.ts";
export { actionMarker, createAct, createReact, type TextStrategyOptions } from "./text-strategy.ts";
