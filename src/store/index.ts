// Stored runs: the contract, a store in memory, a store in files, the records.

export * from "./writing.ts";
export { recordReferences, type RunFacts, runFacts, runManifest, type TrainFacts, trainManifest } from "./manifests.ts";
export type { RecordReference } from "./schema.ts";
export {
  createRoutedExpertsFile,
  createSamplingMasksFile,
  openRoutedExperts,
  openSamplingMasks,
  type TurnBytesFile,
  type TurnBytesReader,
} from "./routed-experts.ts";
export { type MergedRun, mergeShards } from "./merge-shards.ts";
export { createMemoryRunStore } from "./memory-run-store.ts";
export { DiskGuard } from "./disk-guard.ts";
export { EpisodeFiles } from "./episode-files.ts";
export {
  openRunFolder,
  readEpisodes,
  type RunChanges,
  type RunFolder,
  type RunFolderOptions,
  type RunPage,
  type RunPosition,
} from "./run-folder.ts";
export type { MessageHit } from "./search-messages.ts";
export {
  parseWhere,
  type Where,
  WhereError,
  type WhereFieldName,
  whereFieldKinds,
  type WhereFields,
  whereFields,
  type WhereGroup,
} from "./where.ts";
export { cleanShards, openShard, type ShardStore, unindexedEpisodes } from "./shard-store.ts";
export {
  type EpisodeScores,
  openTeacherScores,
  readTeacherScores,
  type SampleScores,
  type Teacher,
  type TeacherScoresFile,
  type TeacherScoresReader,
  tokensChecksum,
} from "./teacher-scores.ts";
