// Public entry of what environments share: one literal that makes one. The environments themselves have entries of their own.

export { defineEnvironment, type EnvironmentDefinition, type TaskSpec, type ToolSpec } from "./define-environment.ts";
export { agendaProblem } from "./check-definition.ts";
