// Strategies: how a turn is prompted and read, and what is done about an action that is not right.

export { agentFactory, type AgentFactoryOptions } from "./agent-factory.ts";
export { schemaWarnings } from "./argument-validator.ts";
export {
  createProblemPolicy,
  defaultProblemPolicy,
  type ProblemDisposition,
  type ProblemPolicy,
} from "./problem-policy.ts";
export { createToolCalling, type ToolCallingOptions } from "./tool-calling.ts";
export { defaultToolInstruction, toolInstructionEdit } from "./tool-instruction.ts";
