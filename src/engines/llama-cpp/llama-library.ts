// The part of node-llama-cpp that this engine uses, and how it is loaded. The package is an
// optional peer dependency of several hundred megabytes: no type names it, and nothing of it is
// loaded before an engine is created. Its types are not imported, so the build does not need it.

import { ConfigurationError } from "../../core/failure.ts";
import { loadPeer } from "../../system/peer-library.ts";

/** The result after one token. */
export type LlamaRow = { readonly next: { readonly logits?: ReadonlyMap<number, number> } } | undefined;

/** Result that is requested after a token: the whole row of logits, or the logits of these tokens. */
export type LlamaLogits = true | { readonly filter: { readonly tokens: readonly number[] } };

/** A token, or a token together with options for the result after it. */
export type LlamaInput =
  | number
  | readonly [token: number, options: { readonly generateNext: { readonly logits: LlamaLogits } }];

/** The place of one conversation in the cache of keys and values. */
export interface LlamaSequence {
  /** Number of tokens in the cache. */
  readonly nextTokenIndex: number;
  /** A copy of the tokens in the cache. */
  readonly contextTokens: readonly number[];
  /** Drops everything after the common prefix with these tokens. */
  adaptStateToTokens(tokens: readonly number[], allowShift: false): Promise<void>;
  clearHistory(): Promise<void>;
  /**
   * Appends tokens; returns one row for each, empty if nothing was requested. Calls of several
   * sequences are computed together.
   */
  controlledEvaluate(input: readonly LlamaInput[]): Promise<readonly LlamaRow[]>;
  /**
   * Replaces the cache with the first tokens of another sequence's; resolves with false if that
   * failed, and the cache must be cleared. Not a documented method; absent from some versions.
   */
  _copyStateFromOtherSequence?(other: LlamaSequence, tokens: number): Promise<boolean>;
}

const copyMethod = "_copyStateFromOtherSequence";

/** True if this version of the library can copy caches. */
export function canCopyState(sequence: LlamaSequence): boolean {
  return typeof sequence[copyMethod] === "function";
}

/** Calls {@link LlamaSequence._copyStateFromOtherSequence}, which must be there. */
export async function copyState(sequence: LlamaSequence, source: LlamaSequence, tokens: number): Promise<boolean> {
  return sequence[copyMethod]!(source, tokens);
}

/** A sampler of llama.cpp: its settings decide what remains of a row. */
export interface NativeSampler {
  applyConfig(config: NativeConfig): void;
}

/** Settings of a sampler. Without a temperature it is greedy, and only the biases have an effect. */
export type NativeConfig = {
  readonly temperature?: number;
  readonly seed?: number;
  readonly topK?: number;
  readonly tokenBiasKeys?: Uint32Array;
  readonly tokenBiasValues?: Float32Array;
};

/** The context of the library's own C++ code. Not documented; absent from some versions. */
export interface NativeContext {
  /**
   * Applies the sampler to a row of the batch that was just computed. Resolves with the remaining
   * logits in pairs of token and logit, the highest first, if `logits` is true, and with the sum of
   * e^(logit - highest remaining logit) if `total` is.
   */
  sampleToken(
    row: number,
    sampler: NativeSampler,
    probabilities: false,
    confidence: false,
    logits: boolean | readonly unknown[],
    total: boolean,
  ): Promise<NativeResult>;
}

export type NativeResult = readonly [
  token: number,
  probabilities?: undefined,
  confidence?: undefined,
  logits?: readonly number[] | undefined,
  total?: number | undefined,
];

export interface LlamaContext {
  readonly contextSize: number;
  readonly _ctx?: NativeContext;
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
  /** The device that computes; false: the processor. */
  readonly gpu: string | false;
  loadModel(options: { readonly modelPath: string }): Promise<LlamaModel>;
  dispose(): Promise<void>;
}

/** The part of the module `node-llama-cpp` that we use. */
export interface LlamaLibrary {
  getLlama(options: object): Promise<Llama>;
}

/** The package with llama.cpp's code for the processor by platform and architecture. */
const binaries: Readonly<Record<string, string>> = {
  "linux-x64": "linux-x64",
  "linux-arm64": "linux-arm64",
  "linux-arm": "linux-armv7l",
  "darwin-arm64": "mac-arm64-metal",
  "darwin-x64": "mac-x64",
  "win32-x64": "win-x64",
  "win32-arm64": "win-arm64",
};

/**
 * The command that installs the package. On a known platform without the packages for graphics
 * cards, which take 540 of 670 MB.
 */
export function installCommand(platform = `${process.platform}-${process.arch}`): string {
  const binary = binaries[platform];
  if (binary === undefined) return "npm install node-llama-cpp@3";
  return `npm install --omit=optional node-llama-cpp@3 @node-llama-cpp/${binary}@3`;
}

/** Loads the package. Rejects with a `ConfigurationError` that has the command to install it. */
export async function loadLlamaLibrary(name = "node-llama-cpp"): Promise<LlamaLibrary> {
  const parts = ["getLlama"];
  return (await loadPeer({
    name,
    use: "llama.cpp",
    install: installCommand(),
    parts,
    error: ConfigurationError,
  })) as unknown as LlamaLibrary;
}
