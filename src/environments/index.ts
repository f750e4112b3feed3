// Door of what environments share: one literal that makes one. The environments themselves have doors of their own.

export { defineEnvironment, type EnvironmentDefinition, type TaskSpec, type ToolSpec } from "./define-environment.ts";
