// The engine with a model of its own.

export {
  createEmbeddedEngine,
  type EmbeddedEngine,
  type EmbeddedEngineOptions,
  loadEmbeddedEngine,
} from "./embedded-engine.ts";
export type {
  EmbeddedSampler,
  EmbeddedSamplerOptions,
  EmbeddedSamplerOutput,
  EmbeddedSamplerParams,
  EmbeddedSamplerRequest,
} from "./embedded-sampler.ts";
