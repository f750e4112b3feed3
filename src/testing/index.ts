// Helpers for tests, docs and demos: servers that speak the protocols of SGLang and vLLM in front
// of any sampler, and conformance suites of contracts. No test runner is imported: suites return
// their findings.

export {
  createBehaviourSampler,
  type BehaviourSampler,
  type BehaviourSamplerOptions,
  examineEngine,
  type CheckOutcome,
  type EngineExamination,
} from "./examine-engine.ts";
export { type AdapterExamination, examineAdapters } from "./examine-adapters.ts";
export { environmentViolations, type EnvironmentConformanceOptions } from "./environment-conformance.ts";
export type { EnvironmentExamination, EnvironmentFinding } from "./environment-finding.ts";
export { examineEnvironment } from "./examine-environment.ts";
export {
  createFaultSampler,
  faultNames,
  type FaultName,
  type FaultSampler,
  type FaultSamplerOptions,
} from "./front/fault-sampler.ts";
export {
  createFunctionSampler,
  plainLogprob,
  type SampledAnswer,
  type SampleFunction,
  SamplerRefusal,
  type Sampler,
  type SamplerOptions,
  type SamplerOutput,
  type SamplerParams,
  type SamplerRequest,
  RawText,
  WireFaultError,
  type WireFault,
} from "./front/sampler.ts";
export type { FrontListener, ListenOptions } from "./front/front-server.ts";
export {
  garbleSglang,
  garblings,
  sglangProtocols,
  type SglangProtocol,
  type SglangVersion,
} from "./sglang/protocol.ts";
export {
  createRouterFront,
  type RouterFront,
  type RouterFrontOptions,
  type RouterWorker,
} from "./sglang/router-front.ts";
export { createSglangFront, type SglangFront, type SglangFrontOptions } from "./sglang/sglang-front.ts";
export { vllmProtocols, type VllmProtocol, type VllmVersion, garbleVllm, vllmGarblings } from "./vllm/protocol.ts";
export { createVllmFront, type VllmFront, type VllmFrontOptions } from "./vllm/vllm-front.ts";
export { createToxicProxy, type Toxic, type ToxicProxy, type ToxicProxyOptions } from "./toxic-proxy.ts";
export {
  engineConformance,
  type EngineBehaviour,
  type EngineCheck,
  type EngineHarness,
  type LiveModel,
  type OpenEngine,
} from "./engine-conformance.ts";
