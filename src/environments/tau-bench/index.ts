// Door of τ-bench: environments for our loop, and the reference's own episode for comparison. Behaviour is written here;
// texts, tables and tasks are read at run time from a folder the user names.

export { callAction, type CallResult, respondName, runTool, type TauAction } from "./tool.ts";
export {
  isTauBenchCheckout,
  loadFewShotDisplays,
  loadUserPrompts,
  type PreparedFiles,
  type PreparedTauBench,
  prepareTauBench,
  type PrepareTauBenchOptions,
  readTauBenchCheckout,
  type ReadCheckoutOptions,
  type TauUserPrompts,
} from "./checkout/index.ts";
export { calculate } from "./common/calculate.ts";
export type { DomainData, TauTask } from "./domain-data.ts";
export { hashText } from "./base-digest.ts";
export { SharedBase, World } from "./world.ts";
export { loadTauBench, tauBenchDomains, type TauBenchOptions, tauBenchSource } from "./tau-bench-source.ts";
export { TauEpisode, type TauEpisodeOptions, type TauStep, type TauUser } from "./tau-episode.ts";
