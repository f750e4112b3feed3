export { defineEnvironment, type EnvironmentDefinition, type TaskSpec, type ToolSpec } from "./define-environment.ts";
