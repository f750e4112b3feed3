// The SGLang protocol front and the samplers to put behind it.

export {
  createFaultSampler,
  faultNames,
  type FaultName,
  type FaultSampler,
  type FaultSamplerOptions,
} from "./fault-sampler.ts";
export { createFunctionSampler, plainLogprob, type SampledAnswer, type SampleFunction } from "./function-sampler.ts";
export { garblings } from "./garble.ts";
export type { FrontListener, ListenOptions } from "./listener.ts";
export { createRouterFront, type RouterFront, type RouterFrontOptions, type RouterWorker } from "./router-front.ts";
export {
  SamplerRefusal,
  type Sampler,
  type SamplerOptions,
  type SamplerOutput,
  type SamplerParams,
  type SamplerRequest,
} from "./sampler.ts";
export { createSglangFront, type SglangFront, type SglangFrontOptions } from "./sglang-front.ts";
export { RawText, WireFaultError, type WireFault } from "./wire-fault.ts";
