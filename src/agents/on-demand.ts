// The usual strategy of a rollout, and the checks of tools that every strategy needs. The public
// entry has the other strategies, which are loaded if one of them is chosen.

export { findViolation, schemaWarnings, unusableSchemas } from "./argument-validator.ts";
export { createToolCalling, defaultToolInstruction, parseDisplays, toolInstructionEdit } from "./tool-calling.ts";
