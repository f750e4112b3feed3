// Public entry of the bookshop: the environment, and the expert that plays it.

export { expertAction, type ExpertAction, type ExpertOptions } from "./expert.ts";
export {
  createExpertEngine,
  type ExpertEngineOptions,
  createExpertSampler,
  type ExpertOutput,
  type ExpertRequest,
  type ExpertSampler,
  type ExpertSamplerOptions,
} from "./expert-sampler.ts";
export { type Kind, kinds, type Level, levels } from "./world.ts";
export { comparison } from "./expert/next-step.ts";
export { worldVersion } from "./scenario.ts";
export { bookshopSource, type BookshopOptions } from "./source.ts";
