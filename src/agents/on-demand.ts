// What a rollout needs whichever strategy it has, and the usual strategy; the public entry has the
// others, which are loaded if one of them is chosen.

export { findViolation, schemaWarnings, unusableSchemas } from "./argument-validator.ts";
export { createToolCalling, defaultToolInstruction, parseDisplays, toolInstructionEdit } from "./tool-calling.ts";
