// Public entry of the parts that environments share: a function that makes one from a literal. Each
// environment has an entry of its own.

export {
  type DefinedEnvironment,
  defineEnvironment,
  type EnvironmentDefinition,
  type TaskRows,
  type TaskSpec,
  type ToolSpec,
} from "./define-environment.ts";
export { agendaProblem } from "./check-definition.ts";
