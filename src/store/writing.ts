// Modules that a run of one process needs for writing: the contract of stores, the store in files,
// the records. Existing runs are read by the functions of the public entry.

export { type RunFacts, runFacts, runManifest, type TrainFacts, trainManifest } from "./manifests.ts";
export { episodeFromJson, episodeLine, recordReferences } from "./records.ts";
export type { RecordReference } from "./schema.ts";
export {
  type EpisodePlace,
  type EpisodeSummary,
  summaryFromPlain,
  summaryOf,
  type UnnumberedSummary,
} from "./episode-index.ts";
export {
  type EpisodeJournal,
  runFiles,
  runFormat,
  storeFault,
  type DecidedGroup,
  type RunReader,
  type RunStore,
  type TornLine,
} from "./run-store.ts";
export {
  createFileRunStore,
  type FileRunStore,
  type FileRunStoreOptions,
  type ResumedRun,
  resumeFileRunStore,
} from "./file-run-store.ts";
export { Disk, type DiskFault, type DiskPatience } from "./disk.ts";
export { AppendFile } from "./lines.ts";
export {
  createRoutedExpertsFile,
  createSamplingMasksFile,
  openRoutedExperts,
  openSamplingMasks,
  type TurnBytesFile,
  type TurnBytesReader,
} from "./routed-experts.ts";
export type { FsyncPolicy } from "./journal.ts";
export { isRunInUse } from "./run-lock.ts";
export { type DigestedTurn, turnDigests, turnWeights } from "./turn-digests.ts";
