// What tests, docs and demos need of this package: the SGLang and vLLM protocol fronts with their samplers, and conformance suites for
// contracts. No test runner is imported: suites return what they find.

export { createBehaviourSampler, type BehaviourSampler, type BehaviourSamplerOptions } from "./behaviour-sampler.ts";
export { environmentViolations, type EnvironmentConformanceOptions } from "./environment-conformance.ts";
export { examineEngine, type CheckOutcome, type EngineExamination } from "./examine-engine.ts";
export * from "./front/index.ts";
export * from "./sglang/index.ts";
export * from "./vllm/index.ts";
export { createToxicProxy, type Toxic, type ToxicProxy, type ToxicProxyOptions } from "./toxic-proxy.ts";
export {
  engineConformance,
  type EngineBehaviour,
  type EngineCheck,
  type EngineHarness,
  type LiveModel,
  type OpenEngine,
} from "./engine-conformance.ts";
