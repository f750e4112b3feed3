// Bodies of vLLM's two endpoints, read into one call: wrong types and values out of range are HTTP 400, an unknown model
// 404. One prompt a call; several completions of it are served, several prompts are not.

import { randomUUID } from "node:crypto";

import type { SamplerParams } from "../front/sampler.ts";
import { type VllmProtocol, VllmRefusal, type Parameter } from "./protocol.ts";

/** Throws a `VllmRefusal` with HTTP 400 when the condition does not hold. */
function require(holds: boolean, message: string, parameter: Parameter | null = null): void {
  if (!holds) throw new VllmRefusal(400, message, parameter);
}

export class FieldReader {
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(value: unknown, name: string) {
    require(typeof value === "object" &&
      value !== null &&
      !Array.isArray(value), `${name}: Input should be a valid dictionary`);
    this.#fields = value as Readonly<Record<string, unknown>>;
  }

  names(): readonly string[] {
    return Object.keys(this.#fields);
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#fields, name);
  }

  /** True for what asks for nothing: absent, null, or without an entry. */
  isEmpty(name: string): boolean {
    const value = this.#value(name);
    return value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0);
  }

  /** Empty when absent. */
  object(name: string): FieldReader {
    return new FieldReader(this.#value(name) ?? {}, name);
  }

  list(name: string): readonly unknown[] {
    const value = this.#value(name);
    require(Array.isArray(value), `${name}: Input should be a valid list`);
    return value as readonly unknown[];
  }

  integers(name: string): readonly number[] {
    if (this.#value(name) === null) return [];
    const list = this.list(name);
    require(list.every((entry) => Number.isInteger(entry)), `${name}: Input should be a valid integer`);
    return list as readonly number[];
  }

  number(name: string): number | null {
    const value = this.#value(name);
    require(value === null || typeof value === "number", `${name}: Input should be a valid number`);
    return value as number | null;
  }

  integer(name: string): number | null {
    const value = this.number(name);
    require(value === null || Number.isInteger(value), `${name}: Input should be a valid integer`);
    return value;
  }

  text(name: string): string | null {
    const value = this.#value(name);
    require(value === null || typeof value === "string", `${name}: Input should be a valid string`);
    return value as string | null;
  }

  /** Absent is false. */
  boolean(name: string): boolean {
    const value = this.#value(name);
    require(value === null || typeof value === "boolean", `${name}: Input should be a valid boolean`);
    return value === true;
  }

  #value(name: string): unknown {
    return (this.has(name) ? this.#fields[name] : null) ?? null;
  }
}

export type VllmEndpoint = "generate" | "completions";

export type VllmCall = {
  readonly endpoint: VllmEndpoint;
  readonly promptIds: Uint32Array;
  readonly sampler: SamplerParams;
  /** Before the bound of tokens, in which they end a reply without a word about it. */
  readonly endTokenIds: ReadonlySet<number>;
  /** As the client gave it. */
  readonly requestId: string;
  readonly routingKey: string | null;
  readonly n: number;
  readonly hasLogprobs: boolean;
  readonly returnTokenIds: boolean;
  readonly tokensAsIds: boolean;
  readonly stream: boolean;
  readonly includeUsage: boolean;
};

export type VllmLimits = {
  readonly model: string;
  readonly contextLength: number;
  readonly vocabularySize: number | null;
  readonly endTokenIds: readonly number[];
  readonly protocol: VllmProtocol;
};

const samplingNames = new Set(
  `n temperature top_p top_k min_p repetition_penalty frequency_penalty presence_penalty max_tokens min_tokens seed stop
   stop_token_ids logprobs prompt_logprobs ignore_eos skip_special_tokens spaces_between_special_tokens detokenize
   include_stop_str_in_output logit_bias bad_words allowed_token_ids structured_outputs extra_args`.split(/\s+/),
);

/** Throws a `VllmRefusal`. */
export function readCall(
  body: unknown,
  options: { readonly endpoint: VllmEndpoint; readonly limits: VllmLimits; readonly routingKey: string | null },
): VllmCall {
  const { endpoint, limits, routingKey } = options;
  const fields = new FieldReader(body, "body");
  const model = fields.text("model");
  if (model !== null && model !== limits.model) {
    const aliases = limits.protocol.namesParameter ? ` Valid aliases: ${limits.model}` : "";
    const parameter = { name: "model", value: null };
    throw new VllmRefusal(404, `The model \`${model}\` does not exist.${aliases}`, parameter);
  }
  const promptIds = readPrompt(fields, endpoint);
  const isGenerate = endpoint === "generate";
  const sampling = isGenerate ? fields.object("sampling_params") : fields;
  // Extra names beside the prompt are ignored, as by every OpenAI-compatible server.
  const strange = isGenerate ? sampling.names().find((name) => !samplingNames.has(name)) : undefined;
  require(strange === undefined, `sampling_params: Unexpected keyword argument '${strange}'`);
  const known = limits.vocabularySize;
  require(known === null || promptIds.every((id) => id < known), `Token id ${promptIds.find(
    (id) => id >= (known ?? 0),
  )} is out of vocabulary`);
  const logprobs = sampling.integer("logprobs");
  require(logprobs === null || logprobs >= -1, `logprobs must be non-negative or -1, got ${logprobs}.`, {
    name: "logprobs",
    value: String(logprobs),
  });
  const n = sampling.integer("n") ?? 1;
  require(n >= 1, `n must be at least 1, got ${n}.`);
  for (const name of [
    "stop",
    "prompt_logprobs",
    "logit_bias",
    "bad_words",
    "allowed_token_ids",
    "structured_outputs",
  ]) {
    require(sampling.isEmpty(name), `This server samples only: ${name} is not supported.`);
  }
  return {
    endpoint,
    promptIds,
    ...readSampling(sampling, { endpoint, limits, promptLength: promptIds.length }),
    requestId: fields.text("request_id") ?? randomUUID().replaceAll("-", ""),
    routingKey,
    n,
    hasLogprobs: logprobs !== null,
    returnTokenIds: isGenerate || fields.boolean("return_token_ids"),
    tokensAsIds: isGenerate || fields.boolean("return_tokens_as_token_ids"),
    stream: fields.boolean("stream"),
    includeUsage: fields.object("stream_options").boolean("include_usage"),
  };
}

function readPrompt(fields: FieldReader, endpoint: VllmEndpoint): Uint32Array {
  const name = endpoint === "generate" ? "token_ids" : "prompt";
  const list = fields.list(name);
  const isNested = endpoint === "completions" && list.length === 1 && Array.isArray(list[0]);
  const ids = isNested ? (list[0] as readonly unknown[]) : list;
  require(ids.length > 0, `${name}: List should have at least 1 item after validation, not 0`);
  const isId = (id: unknown): id is number => Number.isInteger(id) && (id as number) >= 0 && (id as number) < 2 ** 32;
  require(ids.every(isId), `${name}: Input should be a valid integer greater than or equal to 0`);
  return Uint32Array.from(ids as readonly number[]);
}

function readSampling(
  fields: FieldReader,
  options: { readonly endpoint: VllmEndpoint; readonly limits: VllmLimits; readonly promptLength: number },
): Pick<VllmCall, "sampler" | "endTokenIds"> {
  const { limits } = options;
  const temperature = fields.number("temperature") ?? 1;
  const topP = fields.number("top_p") ?? 1;
  const topK = fields.integer("top_k") ?? 0;
  const minP = fields.number("min_p") ?? 0;
  const repetitionPenalty = fields.number("repetition_penalty") ?? 1;
  const frequencyPenalty = fields.number("frequency_penalty") ?? 0;
  const presencePenalty = fields.number("presence_penalty") ?? 0;
  const minTokens = fields.integer("min_tokens") ?? 0;
  const maxTokens = fields.has("max_tokens") ? fields.integer("max_tokens") : 16;
  const float = asPython(temperature);
  const named = { name: "temperature", value: float };
  require(temperature >= 0, `temperature must be non-negative, got ${float}.`, named);
  // Older versions take any.
  require(temperature <= 2 || !limits.protocol.namesParameter, `temperature must be in [0, 2], got ${float}.`, named);
  const shownTopP = asPython(topP);
  require(topP > 0 && topP <= 1, `top_p must be in (0, 1], got ${shownTopP}.`, { name: "top_p", value: shownTopP });
  require(topK >= -1, `top_k must be 0 (disable), or at least 1, got ${topK}.`);
  require(minP >= 0 && minP <= 1, `min_p must be in [0, 1], got ${minP}.`);
  require(repetitionPenalty > 0, `repetition_penalty must be greater than zero, got ${repetitionPenalty}.`);
  require(Math.abs(frequencyPenalty) <= 2, `frequency_penalty must be in [-2, 2], got ${frequencyPenalty}.`);
  require(Math.abs(presencePenalty) <= 2, `presence_penalty must be in [-2, 2], got ${presencePenalty}.`);
  require(maxTokens === null || maxTokens >= 1, `max_tokens must be at least 1, got ${maxTokens}.`, {
    name: "max_tokens",
    value: String(maxTokens),
  });
  require(minTokens >= 0, `min_tokens must be greater than or equal to 0, got ${minTokens}.`);
  const endTokenIds = new Set(fields.boolean("ignore_eos") ? [] : limits.endTokenIds);
  const isGreedy = temperature < 1e-5;
  return {
    endTokenIds,
    sampler: {
      maxNewTokens: fit(maxTokens, options),
      minNewTokens: minTokens,
      temperature: isGreedy ? 1 : temperature,
      topP,
      topK: isGreedy ? 1 : topK <= 0 ? -1 : topK,
      minP,
      frequencyPenalty,
      presencePenalty,
      repetitionPenalty,
      // Unlike the model's own end tokens, these hold whatever `ignore_eos` says.
      stopTokenIds: new Set([...endTokenIds, ...fields.integers("stop_token_ids")]),
      logitBias: new Map(),
      seed: fields.integer("seed"),
    },
  };
}

/** A float as the server prints it. */
function asPython(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

/** The bound of a generation, after the checks against the context length. */
function fit(
  maxTokens: number | null,
  options: { readonly endpoint: VllmEndpoint; readonly limits: VllmLimits; readonly promptLength: number },
): number {
  const { endpoint, limits, promptLength: prompt } = options;
  const { contextLength: context, protocol } = limits;
  const isCompletion = endpoint === "completions";
  if (isCompletion && protocol.overflow === "shorten") {
    require(prompt <=
      context, `This model's maximum context length is ${context} tokens. However, your prompt contains ${
      prompt === context + 1 ? "at least " : ""
    }${prompt} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.`, {
      name: "input_tokens",
      value: String(prompt),
    });
  }
  if (!isCompletion || protocol.overflow === "shorten") {
    require(prompt <
      context, `The decoder prompt (length ${prompt}) is longer than the maximum model length of ${context}. Make sure that \`max_model_len\` is no smaller than the number of text tokens.`);
    return Math.min(maxTokens ?? Infinity, context - prompt);
  }
  const output = maxTokens ?? 1;
  const start = `This model's maximum context length is ${context} tokens. However, you requested`;
  require(prompt + output <= context, protocol.overflow === "total"
    ? `${start} ${prompt + output} tokens (${prompt} in the messages, ${output} in the completion). Please reduce the length of the messages or completion.`
    : `${start} ${output} output tokens and your prompt contains at least ${prompt} input tokens, for a total of at least ${prompt + output} tokens. Please reduce the length of the input prompt or the number of requested output tokens.`);
  return maxTokens ?? context - prompt;
}
