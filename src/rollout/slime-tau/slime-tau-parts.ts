// What a slime-tau episode is played with, as values: the template, the tokenizer, the server, the parser, the environment.

import type { Tokenizer } from "../../core/renderer.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/value.ts";
import type { SlimeTauAction, SlimeTauParse } from "./interaction-result.ts";

/** τ-bench's environment as the reference has it: the user lives inside. What it throws ends the episode as aborted. */
export interface SlimeTauEnvironment {
  /** `null`: a task drawn at random, as the reference does it. */
  reset(taskIndex: number | null): Promise<{ readonly observation: string; readonly info: JsonObject }>;
  step(action: SlimeTauAction): Promise<{
    readonly observation: string;
    readonly reward: number;
    readonly done: boolean;
    readonly info: JsonObject;
  }>;
}

export type SlimeTauParts = {
  /** The model's own chat template. `tools: null` renders none. */
  readonly renderText: (input: {
    readonly messages: JsonValue[];
    readonly tools: JsonValue[] | null;
    readonly addGenerationPrompt: boolean;
  }) => string;
  readonly tokenizer: Tokenizer;
  /** Sends a payload to SGLang and resolves with the parsed answer; never retries here. */
  readonly post: (url: string, payload: SlimeTauPayload) => Promise<unknown>;
  /** SGLang's qwen25 detector behind the seed's adapter. What it throws aborts the episode. */
  readonly parse: (text: string) => SlimeTauParse;
  readonly environment: SlimeTauEnvironment;
  /** OpenAI entries, in order. */
  readonly tools: JsonValue[];
  readonly wiki: string;
};

export type SlimeTauPayload = { readonly text: string; readonly sampling_params: Readonly<Record<string, unknown>> };
