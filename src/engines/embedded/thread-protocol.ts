// What the engine and its threads say to each other. Plain data: it is cloned on the way.

import type { CompiledKernels, ModelConfig } from "../../learner/model/index.ts";
import type { GenerationParams } from "../../sampling/index.ts";
import type { Finished } from "./sequence.ts";

/** What a thread is born with. */
export type ThreadSetup = {
  readonly config: ModelConfig;
  readonly kernels: CompiledKernels;
  /** Shared with the engine, which writes new weights there before it says so. */
  readonly weights: SharedArrayBuffer;
  readonly weightVersion: string | null;
  readonly maxRows: number;
  readonly maxSequences: number;
  readonly pages: number;
};

export type PauseMode = "abort" | "retract" | "in-place";

export type ToThread =
  | {
      readonly type: "generate";
      readonly call: number;
      readonly prompt: Uint32Array;
      readonly params: GenerationParams;
      /** Whether tokens are told as they come. */
      readonly streams: boolean;
    }
  | { readonly type: "abort"; readonly call: number }
  /** Each of these is answered with "done" when it has taken effect. */
  | { readonly type: "pause"; readonly mode: PauseMode; readonly order: number }
  | { readonly type: "continue"; readonly order: number }
  | { readonly type: "take-weights"; readonly weightVersion: string | null; readonly order: number }
  | { readonly type: "flush-cache"; readonly order: number };

export type FromThread =
  | { readonly type: "tokens"; readonly call: number; readonly ids: number[]; readonly logprobs: number[] }
  | { readonly type: "finished"; readonly call: number; readonly finished: Finished }
  /** One call cannot be carried out; the thread goes on. */
  | { readonly type: "failed"; readonly call: number; readonly problem: string }
  | { readonly type: "done"; readonly order: number };
