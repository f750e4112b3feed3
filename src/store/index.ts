// Stored runs: the contract, a store in memory, a store in files, the records.

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
export { type MergedRun, mergeShards } from "./merge-shards.ts";
export { cleanShards, openShard, type ShardStore, unindexedEpisodes } from "./shard-store.ts";
export { Disk, type DiskFault, type DiskPatience } from "./disk.ts";
export { DiskGuard } from "./disk-guard.ts";
export { AppendFile } from "./lines.ts";
export { createMemoryRunStore } from "./memory-run-store.ts";
export {
  createRoutedExpertsFile,
  openRoutedExperts,
  type RoutedExpertsFile,
  type RoutedExpertsReader,
} from "./routed-experts.ts";
export type { FsyncPolicy } from "./journal.ts";
export { isRunInUse } from "./run-lock.ts";
export {
  checkResumable,
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
export { EpisodeFiles } from "./episode-files.ts";
