// Strategies: how a turn is prompted and read, and what is done about an action that is not right.

export { createAct } from "./act.ts";
export { agentFactory, type AgentFactoryOptions, strategyNames } from "./agent-factory.ts";
export { schemaWarnings } from "./argument-validator.ts";
export { createFewShot, type FewShotOptions, parseDisplays } from "./few-shot.ts";
export {
  createProblemPolicy,
  defaultProblemPolicy,
  type ProblemDisposition,
  type ProblemPolicy,
} from "./problem-policy.ts";
export { createReact } from "./react.ts";
export type { TextStrategyOptions } from "./text-strategy.ts";
export { createToolCalling, type ToolCallingOptions } from "./tool-calling.ts";
export { defaultToolInstruction, toolInstructionEdit } from "./tool-instruction.ts";
