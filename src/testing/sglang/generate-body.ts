// A /generate body, read into one call per sequence. Wrong types are refused as the reference's validation does; what can
// be read but not served, as its own checks do.

import { randomUUID } from "node:crypto";
import type { Tokenizer } from "../../core/tokenizer.ts";
import { Refusal } from "./refusal.ts";
import { checkSampling, type CheckedSampling, type OutputParams } from "./sampling-check.ts";
import type { SamplerParams } from "../front/sampler.ts";

/** One sequence to sample. */
export type SequenceCall = {
  readonly promptIds: Uint32Array;
  readonly sampler: SamplerParams;
  readonly output: OutputParams;
  readonly requestId: string;
  readonly routingKey: string | null;
  readonly returnLogprob: boolean;
  readonly returnTextInLogprobs: boolean;
};

export type GenerateCall = {
  /** Prompt-major: all sequences of the first prompt, then those of the second. */
  readonly sequences: readonly SequenceCall[];
  /** Whether the answer is a list. */
  readonly isList: boolean;
};

export type ModelLimits = {
  readonly contextLength: number;
  /** Ids from here on are refused; `null`: none is. */
  readonly vocabularySize: number | null;
  readonly endTokenIds: readonly number[];
  readonly tokenizer: Tokenizer | null;
};

export type Fields = Readonly<Record<string, unknown>>;

/** Throws a `Refusal`. */
export function readGenerateCall(
  fields: Fields,
  options: { readonly limits: ModelLimits; readonly routingKey: string | null },
): GenerateCall {
  const { limits, routingKey } = options;
  const { prompts, isBatch } = readPrompts(fields, limits);
  const samplings = perPrompt(fields, "sampling_params", prompts.length, (value) => checkSampling(value ?? {}, limits));
  const n = samplings[0]?.n ?? 1;
  if (samplings.some((sampling) => sampling.n !== n)) {
    throw Refusal.ofValue("The parallel_sample_num should be the same for all samples in sample params.");
  }
  const returnLogprobs = perPrompt(fields, "return_logprob", prompts.length, (value) =>
    boolean(value, "return_logprob"),
  );
  refuseScoring(fields, prompts.length);
  const isList = isBatch || n > 1;
  const requestIds = readRequestIds(fields["rid"], { count: prompts.length, n, isBatch });
  const returnTextInLogprobs = boolean(fields["return_text_in_logprobs"], "return_text_in_logprobs");
  const sequences = prompts.flatMap((promptIds, prompt) => {
    const sampling = samplings[prompt]!;
    const sampler = { ...sampling.sampler, maxNewTokens: fit(promptIds.length, sampling, limits.contextLength) };
    return Array.from({ length: n }, (_, index) => ({
      promptIds,
      sampler,
      output: sampling.output,
      requestId: requestIds[prompt * n + index]!,
      routingKey,
      returnLogprob: returnLogprobs[prompt]!,
      returnTextInLogprobs,
    }));
  });
  return { sequences, isList };
}

/** A JSON object out of a body. Throws a `Refusal`. */
export function parseFields(text: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw Refusal.ofShape("body: JSON decode error");
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw Refusal.ofShape("body: Input should be a valid dictionary");
}

/** Throws a `Refusal`. Absent is false. */
export function boolean(value: unknown, name: string): boolean {
  if (value === undefined || value === null) return false;
  if (typeof value !== "boolean") throw Refusal.ofShape(`${name}: Input should be a valid boolean`);
  return value;
}

function readPrompts(fields: Fields, limits: ModelLimits): { prompts: Uint32Array[]; isBatch: boolean } {
  const ids = fields["input_ids"] ?? null;
  const text = fields["text"] ?? null;
  if ((ids === null) === (text === null)) {
    throw Refusal.ofValue("Either text, input_ids or input_embeds should be provided.");
  }
  const read = ids === null ? readTexts(text, limits.tokenizer) : readIds(ids);
  for (const prompt of read.prompts) {
    if (prompt.length === 0) throw Refusal.ofValue("input_ids cannot be empty.");
    const { vocabularySize } = limits;
    if (vocabularySize !== null && prompt.some((id) => id >= vocabularySize)) {
      throw Refusal.ofValue(`The input_ids contain values greater than the vocab size (${vocabularySize}).`);
    }
  }
  return read;
}

function readIds(value: unknown): { prompts: Uint32Array[]; isBatch: boolean } {
  const list = array(value, "input_ids");
  const isBatch = Array.isArray(list[0]);
  const prompts = isBatch ? list.map((entry) => array(entry, "input_ids")) : [list];
  return { prompts: prompts.map(toIds), isBatch };
}

function toIds(list: readonly unknown[]): Uint32Array {
  const isId = (id: unknown): id is number => Number.isInteger(id) && (id as number) >= 0 && (id as number) < 2 ** 32;
  if (!list.every(isId)) throw Refusal.ofShape("input_ids: Input should be a valid integer");
  return Uint32Array.from(list);
}

function readTexts(value: unknown, tokenizer: Tokenizer | null): { prompts: Uint32Array[]; isBatch: boolean } {
  const isBatch = Array.isArray(value);
  const texts = isBatch ? (value as readonly unknown[]) : [value];
  if (!texts.every((text) => typeof text === "string")) throw Refusal.ofShape("text: Input should be a valid string");
  if (tokenizer === null) {
    throw Refusal.ofValue(
      "The engine initialized with skip_tokenizer_init=True cannot accept text prompts. Please provide input_ids or re-initialize the engine with skip_tokenizer_init=False.",
    );
  }
  return { prompts: texts.map((text) => tokenizer.encode(text)), isBatch };
}

/** One value for all prompts, or a list with one for each. */
function perPrompt<T>(fields: Fields, name: string, count: number, read: (value: unknown) => T): T[] {
  const value = fields[name];
  if (!Array.isArray(value)) return Array.from({ length: count }, () => read(value));
  if (value.length !== count) throw Refusal.ofValue(`The length of ${name} should be equal to the batch size.`);
  return value.map(read);
}

function readRequestIds(
  value: unknown,
  options: { readonly count: number; readonly n: number; readonly isBatch: boolean },
): readonly string[] {
  const { count, n, isBatch } = options;
  if (value === undefined || value === null || n > 1) return Array.from({ length: count * n }, newRequestId);
  if (typeof value === "string" && !isBatch) return [value];
  const list = array(value, "rid");
  if (!list.every((entry) => typeof entry === "string")) throw Refusal.ofShape("rid: Input should be a valid string");
  if (list.length !== count) throw Refusal.ofValue("The length of rid should be equal to the batch size.");
  return list;
}

function newRequestId(): string {
  return randomUUID().replaceAll("-", "");
}

function refuseScoring(fields: Fields, count: number): void {
  const unsupported: readonly (readonly [string, (value: unknown) => boolean])[] = [
    ["logprob_start_len", (value) => value === undefined || value === null || value === -1],
    ["top_logprobs_num", (value) => value === undefined || value === null || value === 0],
    ["token_ids_logprob", (value) => value === undefined || value === null],
    ["input_embeds", (value) => value === undefined || value === null],
    ["session_params", (value) => value === undefined || value === null],
    ["priority", (value) => value === undefined || value === null],
    ["return_hidden_states", (value) => value === undefined || value === null || value === false],
  ];
  for (const [name, isFine] of unsupported) {
    if (perPrompt(fields, name, count, isFine).includes(false)) {
      throw Refusal.ofValue(`This server samples only: ${name} is not supported.`);
    }
  }
}

/** The bound of a generation, after the two checks against the context length. */
function fit(promptLength: number, sampling: CheckedSampling, contextLength: number): number {
  const { maxNewTokens } = sampling.sampler;
  if (promptLength >= contextLength) {
    throw Refusal.ofValue(
      `The input (${promptLength} tokens) is longer than the model's context length (${contextLength} tokens).`,
    );
  }
  if (sampling.hasOwnBound && maxNewTokens !== null && promptLength + maxNewTokens >= contextLength) {
    throw Refusal.ofValue(
      `Requested token count exceeds the model's maximum context length of ${contextLength} tokens. You requested a total of ${promptLength + maxNewTokens} tokens: ${promptLength} tokens from the input messages and ${maxNewTokens} tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.`,
    );
  }
  return Math.max(0, Math.min(maxNewTokens ?? Infinity, contextLength - promptLength - 1));
}

function array(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value)) throw Refusal.ofShape(`${name}: Input should be a valid list`);
  return value as readonly unknown[];
}
