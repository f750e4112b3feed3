// Door of τ-bench: environments for our loop, and the reference's own episode for comparison. Behaviour is written here;
// texts, tables and tasks are read at run time from a folder the user names.

export { respondName, type TauAction } from "./action.ts";
export { callAction, type CallResult } from "./call-action.ts";
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
export { hashText } from "./record-text.ts";
export { SharedBase } from "./shared-base.ts";
export { loadTauBench, tauBenchDomains, type TauBenchOptions, tauBenchSource } from "./tau-bench-source.ts";
export { TauEpisode, type TauEpisodeOptions, type TauStep, type TauUser } from "./tau-episode.ts";
export { runTool } from "./tool.ts";
export { World } from "./world.ts";
