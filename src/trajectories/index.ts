// The recorder: turns, branches, samples, and the checks that nothing is lost.

export {
  branchesOf,
  joinPath,
  pathTo,
  turnPrompt,
  turnSequence,
  type ActionResult,
  makeTurn,
  TrajectoryRecorder,
} from "./recorder.ts";
export { alignmentViolations, conservationViolations, countOnes, expertsOf, samplingMasksOf } from "./check-samples.ts";
export { defaultConstrainedLoss, untrainedTokens } from "./constrained-tokens.ts";
export {
  countSamples,
  episodeSamples,
  type SampleCounts,
  dumpSample,
  toSamples,
  type SampledEpisode,
  uncheckedSamples,
  untrainedSamples,
  type SampleOrigin,
  type ToSamplesOptions,
} from "./samples.ts";
export {
  addsUp,
  alignTurnRewards,
  completeTurnRewards,
  discardedTurns,
  gradeTurns,
  type TurnRewards,
  type TurnSpan,
  turnSpans,
} from "./turn-rewards.ts";
