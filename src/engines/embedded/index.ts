// The engine with a model of its own.

export {
  createEmbeddedEngine,
  type EmbeddedEngine,
  type EmbeddedEngineOptions,
  loadEmbeddedEngine,
  type EmbeddedSampler,
} from "./embedded-engine.ts";
