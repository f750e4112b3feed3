// A stand-in for the parts of node-llama-cpp that we use: its "model" derives logits from all
// previous tokens, so that wrong tokens in the cache change the answer. It rejects calls that the
// real library would handle wrongly or not at all.

import { createRandom, deriveSeed } from "../../lib/random.ts";
import type { LlamaInput, LlamaLibrary, LlamaRow, LlamaSequence } from "./llama-library.ts";

export const vocabularySize = 32;

/** The logits after these tokens. */
export function logitsAfter(tokens: readonly number[]): number[] {
  const random = createRandom(deriveSeed(7, ...tokens));
  return Array.from({ length: vocabularySize }, () => random.next() * 6 - 3);
}

export class FakeLlama {
  /** Tokens of each call, in order. */
  readonly evaluated: number[] = [];
  /** Numbers of tokens that sequences took from others. */
  readonly copied: number[] = [];
  /** False for a version of the library that cannot copy. */
  canCopy = true;
  readonly disposed: string[] = [];
  /** Options of the last context. */
  contextOptions: Readonly<Record<string, unknown>> = {};
  cleared = 0;
  /** Thrown by the next evaluation, which leaves the cache in an inconsistent state. */
  fault: Error | null = null;
  /** The error that loading the model throws; `null` if it succeeds. */
  loadFault: Error | null = null;
  #gate: Promise<void> = Promise.resolve();
  #running = 0;
  mostRunning = 0;

  /** Copies wait for it. */
  copyGate: Promise<void> = Promise.resolve();

  /** Blocks new evaluations until the returned function is called. */
  hold(): () => void {
    let open: () => void = () => undefined;
    this.#gate = new Promise((resolve) => {
      open = resolve;
    });
    return open;
  }

  readonly library: LlamaLibrary = {
    getLlama: async () => ({
      gpu: false,
      dispose: async () => void this.disposed.push("llama"),
      loadModel: async () => {
        if (this.loadFault !== null) throw this.loadFault;
        return {
          trainContextSize: 1024,
          iterateAllTokens: () => Array.from({ length: vocabularySize }, (_, id) => id),
          dispose: async () => void this.disposed.push("model"),
          createContext: async (options) => {
            this.contextOptions = options as Readonly<Record<string, unknown>>;
            const { contextSize, sequences } = options as { readonly contextSize: number; readonly sequences: number };
            let left = sequences;
            return {
              contextSize,
              getSequence: () => {
                if (left-- === 0) throw new Error("No sequences left");
                return this.#sequence(contextSize);
              },
              dispose: async () => {
                if (this.#running > 0) throw new Error("It is in use");
                this.disposed.push("context");
              },
            };
          },
        };
      },
    }),
  };

  #sequence(contextSize: number): LlamaSequence {
    let cache: number[] = [];
    let isBusy = false;
    return {
      get nextTokenIndex() {
        return cache.length;
      },
      get contextTokens() {
        return [...cache];
      },
      ...(this.canCopy && {
        _copyStateFromOtherSequence: async (other: LlamaSequence, count: number) => {
          if (isBusy) throw new Error("A copy during a call");
          this.copied.push(count);
          await this.copyGate;
          cache = other.contextTokens.slice(0, count);
          return cache.length === count;
        },
      }),
      adaptStateToTokens: async (tokens) => {
        const different = cache.findIndex((token, at) => token !== tokens[at]);
        if (different >= 0) cache = cache.slice(0, different);
      },
      clearHistory: async () => {
        this.cleared++;
        cache = [];
      },
      controlledEvaluate: async (input) => {
        if (isBusy) throw new Error("Two calls at a time");
        isBusy = true;
        this.#running++;
        this.mostRunning = Math.max(this.mostRunning, this.#running);
        this.evaluated.push(input.length);
        await this.#gate;
        await Promise.resolve();
        isBusy = false;
        this.#running--;
        if (this.fault !== null) {
          const fault = this.fault;
          this.fault = null;
          cache.push(31, 31);
          throw fault;
        }
        return input.map((item): LlamaRow => {
          cache.push(tokenOf(item));
          if (cache.length >= contextSize) throw new Error("The context would be shifted");
          return typeof item === "number" ? undefined : { next: { logits: new Map(logitsAfter(cache).entries()) } };
        });
      },
    };
  }
}

function tokenOf(item: LlamaInput): number {
  return typeof item === "number" ? item : item[0];
}
