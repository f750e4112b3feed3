// Door of the preset "slime-tau": the loop this project grew out of, kept for comparison. No other room but the command line
// and the golden suites imports it.

export {
  adaptParser,
  runSlimeTau,
  slimeTauSampling,
  type SlimeTauOptions,
  callToAction,
  respondAction,
  type SlimeTauAction,
  type SlimeTauMessage,
  type SlimeTauParse,
  type SlimeTauParsed,
  type SlimeTauResult,
  type SlimeTauStatus,
  type SlimeTauEnvironment,
  type SlimeTauParts,
  type SlimeTauPayload,
  slimeTauEnvironment,
  slimeTauSample,
} from "./run-slime-tau.ts";
