// The engine that plays a script.

export {
  createScriptedEngine,
  type ScriptedAnswer,
  type ScriptedEngine,
  type ScriptedEngineOptions,
  type ScriptedFunction,
  type ScriptedRequest,
} from "./scripted-engine.ts";
export type { ScriptedStep, ScriptedTokens } from "./scripted-step.ts";
