// The engine that follows a script.

export {
  createScriptedEngine,
  type ScriptedAnswer,
  type ScriptedEngine,
  type ScriptedEngineOptions,
  type ScriptedFunction,
  type ScriptedRequest,
  type ScriptedStep,
  type ScriptedTokens,
} from "./scripted-engine.ts";
