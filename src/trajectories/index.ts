// Door of the recorder: turns, branches, samples, and the checks that nothing is lost.

export { branchesOf } from "./branches.ts";
export { alignmentViolations, conservationViolations } from "./check-samples.ts";
export { countOnes } from "./count-ones.ts";
export { dumpSample } from "./dump-sample.ts";
export { TrajectoryRecorder } from "./recorder.ts";
export { joinPath, pathTo, turnPrompt, turnSequence } from "./sequence.ts";
export { toSamples, type SampleOrigin, type ToSamplesOptions } from "./to-samples.ts";
