// The engine with its own model.

export {
  createEmbeddedEngine,
  type EmbeddedEngine,
  type EmbeddedEngineOptions,
  loadEmbeddedEngine,
  type EmbeddedSampler,
} from "./embedded-engine.ts";
