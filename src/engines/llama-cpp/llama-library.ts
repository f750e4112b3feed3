// What this engine uses of node-llama-cpp, and how it is found. The package is an optional peer of several hundred megabytes:
// nothing of it is named in a type or loaded before an engine is made. Its types are not imported, so that the build needs none.

import { ConfigurationError } from "../../core/failure.ts";

/** What comes after one token. */
export type LlamaRow = { readonly next: { readonly logits?: ReadonlyMap<number, number> } } | undefined;

/** A token, or a token and what to report of the next one. */
export type LlamaInput =
  | number
  | readonly [token: number, options: { readonly generateNext: { readonly logits: true } }];

/** One conversation's place in the cache of keys and values. */
export interface LlamaSequence {
  /** Tokens that are in the cache. */
  readonly nextTokenIndex: number;
  /** Forgets what these tokens do not begin with. */
  adaptStateToTokens(tokens: readonly number[], allowShift: false): Promise<void>;
  clearHistory(): Promise<void>;
  /** Appends tokens; a row for each, empty where nothing was requested. Calls of several sequences are computed together. */
  controlledEvaluate(input: readonly LlamaInput[]): Promise<readonly LlamaRow[]>;
}

export interface LlamaContext {
  readonly contextSize: number;
  getSequence(): LlamaSequence;
  dispose(): Promise<void>;
}

export interface LlamaModel {
  readonly trainContextSize: number;
  iterateAllTokens(): Iterable<number>;
  createContext(options: object): Promise<LlamaContext>;
  dispose(): Promise<void>;
}

export interface Llama {
  loadModel(options: { readonly modelPath: string }): Promise<LlamaModel>;
  dispose(): Promise<void>;
}

/** The module `node-llama-cpp`, as far as it is used. */
export interface LlamaLibrary {
  getLlama(options: object): Promise<Llama>;
}

const install = 'run "npm install node-llama-cpp@3"';

/** The package beside ours. Rejects with a `ConfigurationError` that has the command to install it. */
export async function loadLlamaLibrary(name = "node-llama-cpp"): Promise<LlamaLibrary> {
  let loaded: unknown;
  try {
    loaded = await import(name);
  } catch (error) {
    const isMissing = error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
    const state = isMissing ? "it is not installed" : `it does not load (${String(error)})`;
    throw new ConfigurationError(`Cannot use llama.cpp through the package "${name}": ${state}; ${install}.`, {
      cause: error,
    });
  }
  if (typeof loaded === "object" && loaded !== null && "getLlama" in loaded && typeof loaded.getLlama === "function") {
    return loaded as LlamaLibrary;
  }
  throw new ConfigurationError(`Cannot use llama.cpp through the package "${name}": it has no "getLlama"; ${install}.`);
}
