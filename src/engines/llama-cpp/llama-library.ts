// The part of node-llama-cpp that this engine uses, and how it is loaded. The package is an
// optional peer dependency of several hundred megabytes: no type names it, and nothing of it is
// loaded before an engine is created. Its types are not imported, so the build does not need it.

import { ConfigurationError } from "../../core/failure.ts";

/** The result after one token. */
export type LlamaRow = { readonly next: { readonly logits?: ReadonlyMap<number, number> } } | undefined;

/** A token, or a token together with options for the result after it. */
export type LlamaInput =
  | number
  | readonly [token: number, options: { readonly generateNext: { readonly logits: true } }];

/** The place of one conversation in the cache of keys and values. */
export interface LlamaSequence {
  /** Number of tokens in the cache. */
  readonly nextTokenIndex: number;
  /** Drops everything after the common prefix with these tokens. */
  adaptStateToTokens(tokens: readonly number[], allowShift: false): Promise<void>;
  clearHistory(): Promise<void>;
  /**
   * Appends tokens; returns one row for each, empty if nothing was requested. Calls of several
   * sequences are computed together.
   */
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

/** The part of the module `node-llama-cpp` that we use. */
export interface LlamaLibrary {
  getLlama(options: object): Promise<Llama>;
}

const install = 'run "npm install node-llama-cpp@3"';

/**
 * Loads the package installed next to ours. Rejects with a `ConfigurationError` that has the
 * command to install it.
 */
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
