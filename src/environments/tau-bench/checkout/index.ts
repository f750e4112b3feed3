// What the rest of the room takes from here: an upstream checkout as prepared files, in memory or in a folder.

export { prepareTauBench, type PreparedTauBench, type PrepareTauBenchOptions } from "./prepare-tau-bench.ts";
export {
  isTauBenchCheckout,
  type PreparedFiles,
  readTauBenchCheckout,
  type ReadCheckoutOptions,
} from "./read-checkout.ts";
export { loadFewShotDisplays, loadUserPrompts } from "./read-texts.ts";
export type { TauUserPrompts } from "./user-prompts.ts";
