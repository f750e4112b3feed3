// What every protocol front shares: samplers to put behind it, faults of the wire, its socket.

export {
  createFaultSampler,
  faultNames,
  type FaultName,
  type FaultSampler,
  type FaultSamplerOptions,
} from "./fault-sampler.ts";
export { createFunctionSampler, plainLogprob, type SampledAnswer, type SampleFunction } from "./function-sampler.ts";
export type { FrontListener, ListenOptions } from "./listener.ts";
export {
  SamplerRefusal,
  type Sampler,
  type SamplerOptions,
  type SamplerOutput,
  type SamplerParams,
  type SamplerRequest,
} from "./sampler.ts";
export { RawText, WireFaultError, type WireFault } from "./wire-fault.ts";
