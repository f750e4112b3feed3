// Door of the preset "slime-tau": the loop this project grew out of, kept for comparison. No other room but the command line
// and the golden suites imports it.

export { adaptParser } from "./adapt-parser.ts";
export { callToAction, respondAction } from "./call-to-action.ts";
export type {
  SlimeTauAction,
  SlimeTauMessage,
  SlimeTauParse,
  SlimeTauParsed,
  SlimeTauResult,
  SlimeTauStatus,
} from "./interaction-result.ts";
export { runSlimeTau, slimeTauSampling, type SlimeTauOptions } from "./run-slime-tau.ts";
export type { SlimeTauEnvironment, SlimeTauParts, SlimeTauPayload } from "./slime-tau-parts.ts";
export { slimeTauSample } from "./slime-tau-sample.ts";
export { slimeTauEnvironment } from "./slime-tau-environment.ts";
