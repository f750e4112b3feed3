// What keeps a run: the contract, a store in memory, a store in files.

export { episodeFromJson } from "./episode-from-json.ts";
export { episodeLine } from "./episode-text.ts";
export type { EpisodeJournal } from "./episode-journal.ts";
export {
  createFileRunStore,
  type FileRunStore,
  type FileRunStoreOptions,
  type ResumedRun,
  resumeFileRunStore,
} from "./file-run-store.ts";
export { createMemoryRunStore } from "./memory-run-store.ts";
export type { FsyncPolicy } from "./run-journal.ts";
export { runFiles } from "./run-files.ts";
export { checkResumable, openRunFolder, readEpisodes, type RunFolderOptions } from "./run-folder.ts";
export type { DecidedGroup, RunReader, RunStore, TornLine } from "./run-store.ts";
