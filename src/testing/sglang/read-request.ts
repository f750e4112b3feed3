// A /generate body, read into one call per sequence, as strictly as SGLang reads it: an unknown
// sampling parameter, or one of an unexpected type, is refused by name with the message of the
// server's parser; a value out of range, with the reason; a request that can be parsed but not
// served, as the server's own checks do.

import { randomUUID } from "node:crypto";

import { z } from "zod";

import type { Tokenizer } from "../../core/tokenizer.ts";
import type { AdapterTable, FrontAdapter } from "../front/adapters.ts";
import { type Fields, isFields, readWith, withoutNulls } from "../front/read-fields.ts";
import type { SamplerParams } from "../front/sampler.ts";
import { type SglangProtocol, Refusal } from "./protocol.ts";

export type SequenceCall = {
  readonly promptIds: Uint32Array;
  readonly sampler: SamplerParams;
  readonly output: OutputParams;
  readonly requestId: string;
  readonly routingKey: string | null;
  readonly returnLogprob: boolean;
  readonly returnTextInLogprobs: boolean;
  readonly returnPromptIds: boolean;
  /** Index of the first token whose experts are requested; `null` if none are. */
  readonly expertsFrom: number | null;
  /** `null` for the base. */
  readonly adapter: FrontAdapter | null;
  readonly returnSamplingMask: boolean;
};

/** Parameters that the front itself applies to the output. */
type OutputParams = {
  readonly stopStrings: readonly string[];
  readonly stopPatterns: readonly RegExp[];
  readonly skipSpecialTokens: boolean;
  readonly noStopTrim: boolean;
};

export type GenerateCall = {
  /** Sequences in prompt-major order: all of the first prompt, then those of the second. */
  readonly sequences: readonly SequenceCall[];
  /** True if the answer is a list. */
  readonly isList: boolean;
  /** A stream has a frame for the first token, then one for every this many tokens. */
  readonly streamInterval: number;
};

export type ModelLimits = {
  readonly contextLength: number;
  /** First id that is refused; `null` if none is. */
  readonly vocabularySize: number | null;
  readonly endTokenIds: readonly number[];
  readonly tokenizer: Tokenizer | null;
  readonly protocol: SglangProtocol;
  /** `null` for a server without LoRA. Default `null`. */
  readonly adapters?: AdapterTable | null;
};

/** Throws a `Refusal`: for wrong types first, then for values. */
export function readGenerateCall(fields: Fields, limits: ModelLimits, routingKey: string | null): GenerateCall {
  const { prompts, isBatch } = readPrompts(fields, limits);
  const count = prompts.length;
  const samplings = perPrompt(fields, "sampling_params", count, (value) => readSampling(value ?? {}, limits));
  for (const prompt of prompts) checkPrompt(prompt, limits);
  const n = samplings[0]?.n ?? 1;
  if (samplings.some((sampling) => sampling.n !== n)) {
    throw Refusal.ofValue("The parallel_sample_num should be the same for all samples in sample params.");
  }
  const returnLogprobs = perPrompt(fields, "return_logprob", count, (value) => boolean(value, "return_logprob"));
  refuseUnsupported(fields, prompts, limits);
  const adapters = perPrompt(fields, "lora_path", count, (value) => readAdapter(value ?? null, limits));
  const requestIds = readRequestIds(fields["rid"], { count, n, isBatch });
  const returnTextInLogprobs = boolean(fields["return_text_in_logprobs"], "return_text_in_logprobs");
  const returnPromptIds = boolean(fields["return_prompt_token_ids"], "return_prompt_token_ids");
  const startLen = fields["routed_experts_start_len"] ?? 0;
  if (typeof startLen !== "number")
    throw Refusal.ofShape("routed_experts_start_len", "Input should be a valid integer");
  const expertsFrom = boolean(fields["return_routed_experts"], "return_routed_experts") ? startLen : null;
  const returnSamplingMask = boolean(fields["return_sampling_mask"], "return_sampling_mask");
  const sequences = prompts.flatMap((promptIds, prompt) => {
    const sampling = samplings[prompt]!;
    const { topK } = sampling.sampler;
    if (returnSamplingMask && (topK < 1 || topK > 4096)) throw Refusal.ofValue(maskNeedsTopK(topK));
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
      expertsFrom,
      adapter: adapters[prompt]!,
      returnSamplingMask,
    }));
  });
  return { sequences, isList: isBatch || n > 1, streamInterval: samplings[0]?.streamInterval ?? 1 };
}

/** A name that was unloaded is loaded again, as the server does. */
function readAdapter(name: unknown, { adapters = null }: ModelLimits): FrontAdapter | null {
  if (name === null || adapters === null || adapters.ignoresNames) return null;
  if (typeof name !== "string") throw Refusal.ofShape("lora_path", "Input should be a valid string");
  const adapter = adapters.reload(name);
  if (adapter !== null) return adapter;
  const names = adapters.loaded.map((one) => `'${one.name}'`).join(", ");
  throw Refusal.ofValue(
    `Got LoRA adapter that has never been loaded: ${name}\nAll loaded adapters: dict_keys([${names}]).`,
  );
}

function maskNeedsTopK(topK: number): string {
  const read = topK === -1 ? 2 ** 30 : topK;
  return `return_sampling_mask requires top_k=1 for greedy sampling or finite 1 < top_k <= 4096; got top_k=${read}. Lower top_k or increase --sampling-mask-max-tokens.`;
}

const integerWrittenAsFloat =
  /"(max_new_tokens|min_new_tokens|n|top_k|stream_interval|sampling_seed)"\s*:\s*(-?\d+\.0+)\s*[,}]/;

/** Parses a JSON object from a body. Throws a `Refusal`. */
export function parseFields(text: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw noJson();
  }
  // `JSON.parse` turns 5.0 into 5, but the server refuses 5.0 where it expects an integer.
  const [, name, number] = integerWrittenAsFloat.exec(text) ?? [];
  if (name !== undefined) throw Refusal.ofParameter(`invalid type: floating point \`${number}\`, expected i64`);
  if (isFields(value)) return value;
  throw Refusal.ofShape("body", "Input should be a dictionary or an instance of GenerateReqInput");
}

function noJson(): Refusal {
  return Refusal.ofShape("0", "JSON decode error");
}

/** Reads a boolean; an absent one is false. Throws a `Refusal`. */
export function boolean(value: unknown, name: string): boolean {
  if (value === undefined || value === null) return false;
  if (typeof value === "boolean") return value;
  throw Refusal.ofShape(name, "Input should be a valid boolean, unable to interpret input");
}

function readPrompts(fields: Fields, limits: ModelLimits): { prompts: Uint32Array[]; isBatch: boolean } {
  const ids = fields["input_ids"] ?? null;
  const text = fields["text"] ?? null;
  if (ids === null ? text === null : text !== null && !limits.protocol.idsWinOverText) {
    throw Refusal.ofValue("Either text, input_ids or input_embeds should be provided.");
  }
  if (ids === null) {
    const { strings: prompts, isBatch } = readStrings(text, "text");
    const { tokenizer } = limits;
    if (tokenizer !== null) return { prompts: prompts.map((prompt) => tokenizer.encode(prompt)), isBatch };
    throw Refusal.ofValue(
      "The engine initialized with skip_tokenizer_init=True cannot accept text prompts. Please provide input_ids or re-initialize the engine with skip_tokenizer_init=False.",
    );
  }
  if (!Array.isArray(ids)) {
    throw Refusal.ofShape("input_ids", `Value error, must be list or null; got ${pythonType(ids)}`);
  }
  const list = ids as readonly unknown[];
  const isBatch = Array.isArray(list[0]);
  return { prompts: (isBatch ? list : [list]).map((entry) => toIds([entry].flat())), isBatch };
}

/** Reads a string or a list of strings. Throws a `Refusal`. */
export function readStrings(value: unknown, name: string): { strings: readonly string[]; isBatch: boolean } {
  const isBatch = Array.isArray(value);
  const list: readonly unknown[] = isBatch ? value : [value];
  if (list.every((entry) => typeof entry === "string")) return { strings: list, isBatch };
  throw Refusal.ofShape(name, "Input should be a valid string");
}

function checkPrompt(prompt: Uint32Array, { vocabularySize }: ModelLimits): void {
  if (prompt.length === 0) throw Refusal.ofValue("input_ids cannot be empty.");
  // The real server does not check this, and such an id crashes its scheduler.
  if (vocabularySize !== null && prompt.some((id) => id >= vocabularySize)) {
    throw Refusal.ofValue(`The input_ids contain values greater than the vocab size (${vocabularySize}).`);
  }
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
    // An id beyond the vocabulary would end the real server.
    if (id < 0 || id >= 2 ** 32) throw Refusal.ofValue(`The input_ids contain ${id}, which is no token id.`);
  }
  return Uint32Array.from(list as readonly number[]);
}

function pythonType(value: unknown): string {
  if (value === null) return "NoneType";
  const names: Readonly<Record<string, string>> = { string: "str", boolean: "bool", object: "dict" };
  return names[typeof value] ?? (Number.isInteger(value) ? "int" : "float");
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
  { count, n, isBatch }: { readonly count: number; readonly n: number; readonly isBatch: boolean },
): readonly string[] {
  if (value === undefined || value === null || n > 1) {
    return Array.from({ length: count * n }, () => randomUUID().replaceAll("-", ""));
  }
  if (typeof value === "string" && !isBatch) return [value];
  if (!Array.isArray(value)) throw Refusal.ofShape("rid", "Input should be a valid list");
  const ids = readStrings(value, "rid").strings;
  if (ids.length !== count) throw Refusal.ofValue("The length of rid should be equal to the batch size.");
  return ids;
}

/**
 * Refuses requests that the server can serve and this front cannot, and those that the server
 * serves only if it was started for them.
 */
function refuseUnsupported(fields: Fields, prompts: readonly Uint32Array[], limits: ModelLimits): void {
  const { protocol, adapters = null } = limits;
  const start = fields["logprob_start_len"];
  const shortest = Math.min(...prompts.map(({ length }) => length));
  if (typeof start === "number" && start > shortest) {
    throw Refusal.ofValue(
      `req.logprob_start_len=${start} is higher than the number of input tokens len(req.origin_input_ids)=${shortest}. Please use a smaller logprob_start_len.`,
    );
  }
  const samplesOnly = (name: string): string => `This server samples only: ${name} is not supported.`;
  /**
   * Name of each field, the value besides null that requests nothing, and the refusal of any other
   * value.
   */
  const rows: readonly (readonly [name: string, nothing: unknown, message?: string])[] = [
    ["logprob_start_len", -1],
    ["top_logprobs_num", 0],
    ["token_ids_logprob", null],
    ["input_embeds", null],
    ["session_params", null],
    ["priority", null, "Using priority is disabled for this server. Please send a new request without a priority."],
    [
      "return_hidden_states",
      false,
      "The server is not configured to return hidden states. Please set `--return-hidden-states-mode last`, `--return-hidden-states-mode full`, or the legacy `--enable-return-hidden-states` flag.",
    ],
    [
      "lora_path",
      null,
      `LoRA adapter '${String(fields["lora_path"])}' was requested, but LoRA is not enabled. Please launch the server with --enable-lora flag and preload adapters using --lora-paths or /load_lora_adapter endpoint.`,
    ],
  ];
  for (const [name, nothing, message = samplesOnly(name)] of rows) {
    if (name === "priority" && protocol.acceptsPriority) continue;
    if (name === "lora_path" && adapters !== null) continue;
    // One value for all prompts, or a list with one for each.
    const values = [fields[name] ?? null].flat();
    if (!values.every((value) => value === null || value === nothing)) throw Refusal.ofValue(message);
  }
}

/** The token limit of a generation, after the checks against the context length. */
function fit(prompt: number, sampling: CheckedSampling, { contextLength: context, protocol }: ModelLimits): number {
  const { maxNewTokens } = sampling.sampler;
  const total = prompt + (sampling.hasOwnBound ? (maxNewTokens ?? 0) : 0);
  const longest = context - protocol.reservedTokens;
  require(prompt <
    context, `The input (${prompt} tokens) is longer than the model's context length (${context} tokens).`);
  require(protocol.mayFillContext
    ? total <= context
    : !sampling.hasOwnBound ||
        total <
          context, `Requested token count exceeds the model's maximum context length of ${context} tokens. You requested a total of ${total} tokens: ${prompt} tokens from the input messages and ${maxNewTokens} tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.`);
  require(prompt <
    longest, `Input length (${prompt} tokens) exceeds the maximum allowed length (${longest} tokens). Use a shorter input or enable --allow-auto-truncate.`);
  return Math.max(0, Math.min(maxNewTokens ?? Infinity, context - prompt - protocol.freeTokens));
}

function require(holds: boolean, message: string): void {
  if (!holds) throw Refusal.ofValue(message);
}

/** The expected type in the words of the server's parser. */
const expected = (type: string) => ({
  error: ({ input }: { readonly input?: unknown }) => `invalid type: ${typeName(input)}, expected ${type}`,
});
const f64 = z.number(expected("f64"));
const i64 = z.number(expected("i64")).refine(Number.isInteger, expected("i64"));
const any = z.unknown().optional();
const flag = z.boolean(expected("a boolean")).nullish();
const strings = z
  .preprocess(
    (value) => (typeof value === "string" ? [value] : value),
    z.array(z.string(expected("a string")), expected("a value or an array of values for StringOrList")).nullish(),
  )
  .optional();

/** Parameters in the order in which the server lists them. */
const samplingSchema = z.strictObject({
  max_new_tokens: i64.nullable().default(128),
  stop: strings,
  stop_token_ids: z.array(i64, expected("a sequence")).nullish(),
  stop_regex: strings,
  temperature: f64.default(1),
  top_p: f64.default(1),
  top_k: i64.default(-1),
  min_p: f64.default(0),
  frequency_penalty: f64.default(0),
  presence_penalty: f64.default(0),
  repetition_penalty: f64.default(1),
  min_new_tokens: i64.default(0),
  n: i64.default(1),
  json_schema: any,
  regex: any,
  ebnf: any,
  structural_tag: any,
  ignore_eos: flag,
  skip_special_tokens: flag,
  spaces_between_special_tokens: any,
  no_stop_trim: flag,
  stream_interval: i64.default(1),
  logit_bias: z.record(z.string(), f64, expected("a map")).nullish(),
  sampling_seed: i64.nullish(),
  custom_params: any,
  beam_width: any,
  watermark: any,
  choice: any,
});

/**
 * True for `max_new_tokens`, where null has its own meaning, and for unknown names, which are
 * refused with any value.
 */
function keepsNull(name: string): boolean {
  return name === "max_new_tokens" || !(name in samplingSchema.shape);
}

type CheckedSampling = {
  /** `maxNewTokens` is as requested; `null` for as much as the context allows. */
  readonly sampler: Omit<SamplerParams, "maxNewTokens"> & { readonly maxNewTokens: number | null };
  readonly output: OutputParams;
  readonly n: number;
  readonly streamInterval: number;
  /** True when the body named a token limit: only then is it checked against the context. */
  readonly hasOwnBound: boolean;
};

/** Temperature below which sampling is greedy. */
const greedyTemperature = 1e-6;

/** Throws a `Refusal`. */
export function readSampling(
  value: unknown,
  model: Pick<ModelLimits, "endTokenIds" | "vocabularySize" | "protocol">,
): CheckedSampling {
  const { protocol } = model;
  if (!isFields(value)) throw Refusal.ofShape("sampling_params", "Input should be a valid dictionary");
  // Older versions compare None with a number, which raises an error.
  const fields = protocol.nullIsDefault ? withoutNulls(value, keepsNull) : value;
  const read = readWith(samplingSchema, fields, {
    refuse: ({ code, input, message, ...issue }) => {
      if (code === "unrecognized_keys" && "keys" in issue) {
        const names = Object.keys(samplingSchema.shape).map((name) => `\`${name}\``);
        return Refusal.ofParameter(`unknown field \`${issue.keys[0]}\`, expected one of ${names.join(", ")}`);
      }
      return Math.abs(Number(input)) === Infinity ? noJson() : Refusal.ofParameter(message);
    },
  });
  const { temperature, top_p, min_p, min_new_tokens, max_new_tokens, sampling_seed: seed = null } = read;
  const { frequency_penalty, presence_penalty, repetition_penalty } = read;
  const logitBias = readBias(read.logit_bias ?? {}, model.vocabularySize);
  // Greedy sampling replaces top_k before it is checked.
  const isGreedy = temperature >= 0 && temperature < greedyTemperature;
  const topK = isGreedy ? 1 : read.top_k;
  const { allowsZero, range } = protocol.repetitionPenalty;
  const isRepetition = repetition_penalty <= 2 && (allowsZero ? repetition_penalty >= 0 : repetition_penalty > 0);
  const most = max_new_tokens ?? Infinity;
  require(temperature >= 0, `temperature must be ${protocol.temperatureRange}, got ${temperature}.`);
  require(top_p > 0 && top_p <= 1, `top_p must be in (0, 1], got ${top_p}.`);
  require(min_p >= 0 && min_p <= 1, `min_p must be in [0, 1], got ${min_p}.`);
  require(topK >= 1 || topK === -1, `top_k must be -1 (disable) or at least 1, got ${topK}.`);
  require(Math.abs(frequency_penalty) <= 2, `frequency_penalty must be in [-2, 2], got ${frequency_penalty}.`);
  require(Math.abs(presence_penalty) <= 2, `presence_penalty must be in [-2, 2], got ${presence_penalty}.`);
  require(isRepetition, `repetition_penalty must be in ${range}, got ${repetition_penalty}.`);
  require(min_new_tokens >= 0, `min_new_tokens must be in [0, max_new_tokens], got ${min_new_tokens}.`);
  require(most >= 0, `max_new_tokens must be at least 0, got ${most}.`);
  require(min_new_tokens <= most, `min_new_tokens must be in [0, max_new_tokens(${most})], got ${min_new_tokens}.`);
  // BigInt prints all digits; doubles from 2^53 on would be printed rounded.
  require(Math.abs(seed ?? 0) < 2 ** 63, `sampling_seed must be in [-2**63, 2**63 - 1], got ${BigInt(seed ?? 0)}.`);
  refuseGrammars(read, protocol);
  return {
    sampler: {
      maxNewTokens: max_new_tokens,
      minNewTokens: min_new_tokens,
      temperature: isGreedy ? 1 : temperature,
      topP: top_p,
      topK,
      minP: min_p,
      frequencyPenalty: frequency_penalty,
      presencePenalty: presence_penalty,
      repetitionPenalty: repetition_penalty,
      stopTokenIds: new Set(read.ignore_eos === true ? [] : [...model.endTokenIds, ...(read.stop_token_ids ?? [])]),
      logitBias,
      seed,
    },
    output: {
      stopStrings: read.stop ?? [],
      stopPatterns: (read.stop_regex ?? []).map(toPattern),
      skipSpecialTokens: read.skip_special_tokens ?? true,
      noStopTrim: read.no_stop_trim ?? false,
    },
    n: Math.max(1, read.n),
    streamInterval: Math.max(1, read.stream_interval),
    hasOwnBound: Object.hasOwn(value, "max_new_tokens") && max_new_tokens !== null,
  };
}

function readBias(fields: Readonly<Record<string, number>>, size: number | null): ReadonlyMap<number, number> {
  const entries = Object.entries(fields).map(([id, bias]) => {
    require(/^-?\d+$/.test(id), `invalid literal for int() with base 10: '${id}'`);
    const isKnown = Number(id) >= 0 && Number(id) < (size ?? Infinity);
    require(isKnown, `logit_bias must has keys in [0, ${(size ?? 0) - 1}], got ${id}.`);
    return [Number(id), bias] as const;
  });
  return new Map(entries);
}

function refuseGrammars(fields: Fields, protocol: SglangProtocol): void {
  const has = (name: string): boolean => (fields[name] ?? null) !== null;
  const grammars = ["json_schema", "regex", "ebnf", "structural_tag"].filter(has);
  require(grammars.length <= 1, protocol.twoGrammars);
  require(grammars.length ===
    0, "Grammar-based generation (json_schema, regex, ebnf, structural_tag) is not supported when the server is launched with --grammar-backend none");
  for (const name of ["beam_width", "watermark", "choice"]) {
    require(!has(name), `This server samples only: ${name} is not supported.`);
  }
}

function toPattern(source: string): RegExp {
  try {
    return new RegExp(source, "u");
  } catch {
    throw Refusal.crash();
  }
}

function typeName(value: unknown): string {
  switch (typeof value) {
    case "string":
      return `string ${JSON.stringify(value)}`;
    case "boolean":
      return `boolean \`${value}\``;
    case "number":
      return `${Number.isInteger(value) ? "integer" : "floating point"} \`${value}\``;
    default:
      return value === null ? "null" : Array.isArray(value) ? "sequence" : "map";
  }
}
