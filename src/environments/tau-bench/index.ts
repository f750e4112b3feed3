// Public entry of τ-bench: environments for our loop, and the reference's own episode for
// comparison. The behaviour is code in this folder; prompts, tables and tasks are read at run time
// from a folder that the user names.

export { calculate, callAction, type CallResult, respondName, runTool, type TauAction } from "./domain.ts";
export {
  prepareTauBench,
  isTauBenchCheckout,
  loadFewShotDisplays,
  loadUserPrompts,
  type ReadCheckoutOptions,
  readTauBenchCheckout,
} from "./checkout/read-checkout.ts";
export type { PreparedFiles, PreparedFolder, PrepareOptions } from "../checkout/prepare-folder.ts";
export type { TauUserPrompts } from "./checkout/user-prompts.ts";
export type { DomainData, TauTask } from "./domain-data.ts";
export { hashText, SharedBase, World } from "./world.ts";
export { loadTauBench, type TauBenchOptions, tauBenchDomains, tauBenchSource } from "./tau-bench-source.ts";
export { TauEpisode, type TauEpisodeOptions, type TauStep, type TauUser } from "./tau-episode.ts";
