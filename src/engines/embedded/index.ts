// The engine with a model of its own.

export {
  createEmbeddedEngine,
  type EmbeddedEngine,
  type EmbeddedEngineOptions,
  loadEmbeddedEngine,
  type EmbeddedSampler,
  type EmbeddedSamplerOptions,
  type EmbeddedSamplerOutput,
  type EmbeddedSamplerParams,
  type EmbeddedSamplerRequest,
} from "./embedded-engine.ts";
