// A /generate body, read into one call per sequence. Wrong types are refused as the reference's validation does; what can
// be read but not served, as its own checks do.

import { randomUUID } from "node:crypto";
import type { Tokenizer } from "../../core/renderer.ts";
import { type SglangProtocol, Refusal } from "./protocol.ts";
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
  readonly returnPromptIds: boolean;
};

export type GenerateCall = {
  /** Prompt-major: all sequences of the first prompt, then those of the second. */
  readonly sequences: readonly SequenceCall[];
  /** Whether the answer is a list. */
  readonly isList: boolean;
  /** A stream has a frame for the first token, then for every so many. */
  readonly streamInterval: number;
};

export type ModelLimits = {
  readonly contextLength: number;
  /** Ids from here on are refused; `null`: none is. */
  readonly vocabularySize: number | null;
  readonly endTokenIds: readonly number[];
  readonly tokenizer: Tokenizer | null;
  readonly protocol: SglangProtocol;
};

export type Fields = Readonly<Record<string, unknown>>;

/** Throws a `Refusal`: wrong types first, then values. */
export function readGenerateCall(
  fields: Fields,
  options: { readonly limits: ModelLimits; readonly routingKey: string | null },
): GenerateCall {
  const { limits, routingKey } = options;
  const { prompts, isBatch } = readPrompts(fields, limits);
  const samplings = perPrompt(fields, "sampling_params", prompts.length, (value) => checkSampling(value ?? {}, limits));
  for (const prompt of prompts) checkPrompt(prompt, limits);
  const n = samplings[0]?.n ?? 1;
  if (samplings.some((sampling) => sampling.n !== n)) {
    throw Refusal.ofValue("The parallel_sample_num should be the same for all samples in sample params.");
  }
  const returnLogprobs = perPrompt(fields, "return_logprob", prompts.length, (value) =>
    boolean(value, "return_logprob"),
  );
  refuseUnsupported(fields, prompts, limits);
  const isList = isBatch || n > 1;
  const requestIds = readRequestIds(fields["rid"], { count: prompts.length, n, isBatch });
  const returnTextInLogprobs = boolean(fields["return_text_in_logprobs"], "return_text_in_logprobs");
  const returnPromptIds = boolean(fields["return_prompt_token_ids"], "return_prompt_token_ids");
  const sequences = prompts.flatMap((promptIds, prompt) => {
    const sampling = samplings[prompt]!;
    const sampler = { ...sampling.sampler, maxNewTokens: fit(promptIds.length, sampling, limits) };
    return Array.from({ length: n }, (_, index) => ({
      promptIds,
      sampler,
      output: sampling.output,
      requestId: requestIds[prompt * n + index]!,
      routingKey,
      returnLogprob: returnLogprobs[prompt]!,
      returnTextInLogprobs,
      returnPromptIds,
    }));
  });
  return { sequences, isList, streamInterval: samplings[0]?.streamInterval ?? 1 };
}

const integerWrittenAsFloat =
  /"(max_new_tokens|min_new_tokens|n|top_k|stream_interval|sampling_seed)"\s*:\s*(-?\d+\.0+)\s*[,}]/;

/** A JSON object out of a body. Throws a `Refusal`. */
export function parseFields(text: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw Refusal.ofShape("0", "JSON decode error");
  }
  // `JSON.parse` makes 5.0 a 5, which the server refuses where it expects an integer.
  const [, name, number] = integerWrittenAsFloat.exec(text) ?? [];
  if (name !== undefined) throw Refusal.ofParameter(`invalid type: floating point \`${number}\`, expected i64`);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw Refusal.ofShape("body", "Input should be a dictionary or an instance of GenerateReqInput");
}

/** Throws a `Refusal`. Absent is false. */
export function boolean(value: unknown, name: string): boolean {
  if (value === undefined || value === null) return false;
  if (typeof value !== "boolean") {
    throw Refusal.ofShape(name, "Input should be a valid boolean, unable to interpret input");
  }
  return value;
}

function readPrompts(fields: Fields, limits: ModelLimits): { prompts: Uint32Array[]; isBatch: boolean } {
  const ids = fields["input_ids"] ?? null;
  const text = fields["text"] ?? null;
  if (ids === null ? text === null : text !== null && !limits.protocol.idsWinOverText) {
    throw Refusal.ofValue("Either text, input_ids or input_embeds should be provided.");
  }
  return ids === null ? readTexts(text, limits.tokenizer) : readIds(ids);
}

function checkPrompt(prompt: Uint32Array, { vocabularySize }: ModelLimits): void {
  if (prompt.length === 0) throw Refusal.ofValue("input_ids cannot be empty.");
  // The server itself does not look, and its scheduler dies of such an id.
  if (vocabularySize !== null && prompt.some((id) => id >= vocabularySize)) {
    throw Refusal.ofValue(`The input_ids contain values greater than the vocab size (${vocabularySize}).`);
  }
}

function readIds(value: unknown): { prompts: Uint32Array[]; isBatch: boolean } {
  if (!Array.isArray(value)) {
    throw Refusal.ofShape("input_ids", `Value error, must be list or null; got ${pythonType(value)}`);
  }
  const list = value as readonly unknown[];
  const isBatch = Array.isArray(list[0]);
  const prompts = isBatch ? list.map((entry): readonly unknown[] => (Array.isArray(entry) ? entry : [entry])) : [list];
  return { prompts: prompts.map(toIds), isBatch };
}

function toIds(list: readonly unknown[]): Uint32Array {
  for (const id of list) {
    if (typeof id === "boolean") throw Refusal.ofParameter(`invalid type: boolean \`${id}\`, expected a sequence`);
    if (typeof id !== "number") {
      throw Refusal.ofShape("input_ids", `Value error, elements must be int or list; got ${pythonType(id)}`);
    }
    if (!Number.isInteger(id)) {
      const problem = "contains non-int64 element: 'float' object cannot be interpreted as an integer";
      throw Refusal.ofShape("input_ids", `Value error, ${problem}`);
    }
    // As an id beyond the vocabulary, this would end the server.
    if (id < 0 || id >= 2 ** 32) throw Refusal.ofValue(`The input_ids contain ${id}, which is no token id.`);
  }
  return Uint32Array.from(list as readonly number[]);
}

function pythonType(value: unknown): string {
  if (value === null) return "NoneType";
  const names: Readonly<Record<string, string>> = { string: "str", boolean: "bool", object: "dict" };
  return names[typeof value] ?? (Number.isInteger(value) ? "int" : "float");
}

function readTexts(value: unknown, tokenizer: Tokenizer | null): { prompts: Uint32Array[]; isBatch: boolean } {
  const isBatch = Array.isArray(value);
  const texts = isBatch ? (value as readonly unknown[]) : [value];
  if (!texts.every((text) => typeof text === "string")) throw Refusal.ofShape("text", "Input should be a valid string");
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
  if (!Array.isArray(value)) throw Refusal.ofShape("rid", "Input should be a valid list");
  const list = value as readonly unknown[];
  if (!list.every((entry) => typeof entry === "string")) throw Refusal.ofShape("rid", "Input should be a valid string");
  if (list.length !== count) throw Refusal.ofValue("The length of rid should be equal to the batch size.");
  return list;
}

function newRequestId(): string {
  return randomUUID().replaceAll("-", "");
}

/** What the server can do and this front cannot, and what the server refuses unless it was started for it. */
function refuseUnsupported(fields: Fields, prompts: readonly Uint32Array[], { protocol }: ModelLimits): void {
  const refuse = (name: string, nothing: readonly unknown[], message: string): void => {
    const value = fields[name] ?? null;
    // One for all prompts, or a list with one for each.
    if (![value].flat().every((entry) => nothing.includes(entry))) throw Refusal.ofValue(message);
  };
  const samplesOnly = (name: string): string => `This server samples only: ${name} is not supported.`;
  const start = fields["logprob_start_len"];
  const shortest = Math.min(...prompts.map(({ length }) => length));
  if (typeof start === "number" && start > shortest) {
    throw Refusal.ofValue(
      `req.logprob_start_len=${start} is higher than the number of input tokens len(req.origin_input_ids)=${shortest}. Please use a smaller logprob_start_len.`,
    );
  }
  refuse("logprob_start_len", [null, -1], samplesOnly("logprob_start_len"));
  refuse("top_logprobs_num", [null, 0], samplesOnly("top_logprobs_num"));
  for (const name of ["token_ids_logprob", "input_embeds", "session_params"]) refuse(name, [null], samplesOnly(name));
  if (!protocol.acceptsPriority) {
    refuse(
      "priority",
      [null],
      "Using priority is disabled for this server. Please send a new request without a priority.",
    );
  }
  refuse(
    "return_hidden_states",
    [null, false],
    "The server is not configured to return hidden states. Please set `--return-hidden-states-mode last`, `--return-hidden-states-mode full`, or the legacy `--enable-return-hidden-states` flag.",
  );
  refuse(
    "lora_path",
    [null],
    `LoRA adapter '${String(fields["lora_path"])}' was requested, but LoRA is not enabled. Please launch the server with --enable-lora flag and preload adapters using --lora-paths or /load_lora_adapter endpoint.`,
  );
}

/** The bound of a generation, after the checks against the context length. */
function fit(prompt: number, sampling: CheckedSampling, { contextLength: context, protocol }: ModelLimits): number {
  const { maxNewTokens } = sampling.sampler;
  if (prompt >= context) {
    throw Refusal.ofValue(
      `The input (${prompt} tokens) is longer than the model's context length (${context} tokens).`,
    );
  }
  const total = prompt + (sampling.hasOwnBound ? (maxNewTokens ?? 0) : 0);
  if (protocol.mayFillContext ? total > context : sampling.hasOwnBound && total >= context) {
    throw Refusal.ofValue(
      `Requested token count exceeds the model's maximum context length of ${context} tokens. You requested a total of ${total} tokens: ${prompt} tokens from the input messages and ${maxNewTokens} tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.`,
    );
  }
  const longest = context - protocol.reservedTokens;
  if (prompt >= longest) {
    throw Refusal.ofValue(
      `Input length (${prompt} tokens) exceeds the maximum allowed length (${longest} tokens). Use a shorter input or enable --allow-auto-truncate.`,
    );
  }
  return Math.max(0, Math.min(maxNewTokens ?? Infinity, context - prompt - protocol.freeTokens));
}
