// What tests, docs and demos need of this package: the SGLang protocol front with its samplers, and conformance suites for
// contracts. No test runner is imported: suites return what they find.

export { environmentViolations, type EnvironmentConformanceOptions } from "./environment-conformance.ts";
export * from "./sglang/index.ts";
export {
  engineConformance,
  type EngineBehaviour,
  type EngineCheck,
  type EngineHarness,
  type OpenEngine,
} from "./engine-conformance.ts";
