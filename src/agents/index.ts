// Strategies: how a turn is prompted and read, and what is done about an action that is not right.

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
