// Public entry of the preset "slime-tau": the loop that this project grew out of, for comparison. Only the library above and the
// golden suites import it.

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
