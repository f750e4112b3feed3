// Bodies of vLLM's two endpoints, read into one call: wrong types and values out of range are HTTP
// 400, an unknown model 404. A call has one prompt; several completions of it are served, several
// prompts are not.

import { randomUUID } from "node:crypto";

import { z } from "zod";

import type { AdapterTable, FrontAdapter } from "../front/adapters.ts";
import { isFields, readWith, withoutNulls } from "../front/read-fields.ts";
import type { SamplerParams } from "../front/sampler.ts";
import { type VllmProtocol, VllmRefusal, type Parameter } from "./protocol.ts";

export type VllmEndpoint = "generate" | "completions";

export type VllmCall = {
  readonly endpoint: VllmEndpoint;
  readonly promptIds: Uint32Array;
  readonly sampler: SamplerParams;
  /** Ids that end a reply with a null stop reason; they are checked before the token limit. */
  readonly endTokenIds: ReadonlySet<number>;
  /** Strings that end a reply and are removed from its text. */
  readonly stopStrings: readonly string[];
  /** The id that the client gave. */
  readonly requestId: string;
  readonly routingKey: string | null;
  readonly n: number;
  readonly hasLogprobs: boolean;
  readonly returnTokenIds: boolean;
  readonly tokensAsIds: boolean;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** Name of the model or adapter that the answer states. */
  readonly model: string;
  /** `null` for the base. */
  readonly adapter: FrontAdapter | null;
  /** Index of the first token whose experts are reported. */
  readonly expertsFrom: number;
};

export type VllmLimits = {
  readonly model: string;
  readonly contextLength: number;
  readonly vocabularySize: number | null;
  readonly endTokenIds: readonly number[];
  /** True if there is a tokenizer: without one, no stop string is found. */
  readonly hasText: boolean;
  readonly protocol: VllmProtocol;
  /** `null` for a server without LoRA. Default `null`. */
  readonly adapters?: AdapterTable | null;
};

const nouns: Readonly<Record<string, string>> = { array: "list", object: "dictionary", record: "dictionary" };

/** The fields of a value as parsed by the schema; null counts as absent. Throws a `VllmRefusal`. */
export function readFields<Schema extends z.ZodType>(schema: Schema, value: unknown, name = "body"): z.output<Schema> {
  return readWith(schema, isFields(value) ? withoutNulls(value, keepsNull) : value, {
    say: ({ code, expected = "integer" }) =>
      `Input should be a valid ${nouns[String(expected)] ?? (code === "custom" ? "integer" : String(expected))}`,
    refuse: (issue) => {
      if (issue.code === "unrecognized_keys") {
        return new VllmRefusal(400, `${name}: Unexpected keyword argument '${issue.keys[0]}'`);
      }
      return new VllmRefusal(400, `${String(issue.path[0] ?? name)}: ${issue.message}`);
    },
  });
}

/**
 * True for `max_tokens`, where null has a meaning of its own, and for unknown names, which are
 * refused with any value.
 */
function keepsNull(name: string): boolean {
  return name === "max_tokens" || !(name in strictSampling.shape || name in bodies.completions.shape);
}

const integer = z.number().refine(Number.isInteger);
const flag = z.boolean().default(false);

const any = z.unknown().optional();

const samplingFields = {
  n: integer.default(1),
  temperature: z.number().default(1),
  top_p: z.number().default(1),
  top_k: integer.default(0),
  min_p: z.number().default(0),
  repetition_penalty: z.number().default(1),
  frequency_penalty: z.number().default(0),
  presence_penalty: z.number().default(0),
  max_tokens: integer.nullable().default(16),
  min_tokens: integer.default(0),
  seed: integer.optional(),
  stop: z.union([z.string(), z.array(z.string())]).optional(),
  stop_token_ids: z.array(z.custom<number>(Number.isInteger)).default([]),
  logprobs: integer.optional(),
  prompt_logprobs: any,
  ignore_eos: flag,
  logit_bias: any,
  bad_words: any,
  allowed_token_ids: any,
  structured_outputs: any,
};
type Sampling = z.output<z.ZodObject<typeof samplingFields>>;

const strictSampling = z.strictObject({
  ...samplingFields,
  skip_special_tokens: any,
  spaces_between_special_tokens: any,
  detokenize: any,
  include_stop_str_in_output: any,
  extra_args: any,
  routed_experts_prompt_start: integer.optional(),
});

/** Extra fields besides the prompt are ignored, as by every OpenAI-compatible server. */
const requestFields = z.object({
  model: z.string().optional(),
  request_id: z.string().optional(),
  stream: flag,
  stream_options: any,
});
const bodies = {
  generate: requestFields.extend({ token_ids: z.array(z.unknown()), sampling_params: any }),
  completions: requestFields.extend({
    prompt: z.array(z.unknown()),
    return_token_ids: flag,
    return_tokens_as_token_ids: flag,
    ...samplingFields,
  }),
};
const streamOptions = z.object({ include_usage: flag });

/** Throws a `VllmRefusal`. */
export function readCall(
  body: unknown,
  options: { readonly endpoint: VllmEndpoint; readonly limits: VllmLimits; readonly routingKey: string | null },
): VllmCall {
  const { endpoint, limits, routingKey } = options;
  const fields = readFields(bodies[endpoint], body);
  const isGenerate = "token_ids" in fields;
  const sampling = isGenerate ? readFields(strictSampling, fields.sampling_params ?? {}, "sampling_params") : fields;
  const stream = readFields(streamOptions, fields.stream_options ?? {}, "stream_options");
  const { adapters = null } = limits;
  const named = fields.model ?? limits.model;
  const ignoresNames = adapters?.ignoresNames === true;
  const adapter = ignoresNames ? null : (adapters?.find(named) ?? null);
  if (named !== limits.model && adapter === null && !ignoresNames) {
    const aliases = limits.protocol.namesParameter ? ` Valid aliases: ${limits.model}` : "";
    const parameter = { name: "model", value: null };
    throw new VllmRefusal(404, `The model \`${named}\` does not exist.${aliases}`, parameter);
  }
  const promptIds = isGenerate ? readPrompt(fields.token_ids, "token_ids") : readPrompt(fields.prompt, "prompt");
  const known = limits.vocabularySize ?? Infinity;
  const unknown = promptIds.find((id) => id >= known);
  require(unknown === undefined, `Token id ${unknown} is out of vocabulary`);
  const { logprobs = null, n } = sampling;
  require(logprobs === null || logprobs >= -1, `logprobs must be non-negative or -1, got ${logprobs}.`, {
    name: "logprobs",
    value: String(logprobs),
  });
  require(n >= 1, `n must be at least 1, got ${n}.`);
  const unserved = [
    ...(limits.hasText ? [] : ["stop"]),
    "prompt_logprobs",
    "logit_bias",
    "bad_words",
    "allowed_token_ids",
    "structured_outputs",
  ];
  for (const name of unserved) {
    const value = sampling[name as keyof Sampling] ?? "";
    const isEmpty = value === "" || (typeof value === "object" && Object.keys(value).length === 0);
    require(isEmpty, `This server samples only: ${name} is not supported.`);
  }
  return {
    endpoint,
    promptIds,
    ...toSampler(sampling, { endpoint, limits, promptLength: promptIds.length }),
    stopStrings: [sampling.stop ?? []].flat().filter((one) => one !== ""),
    requestId: fields.request_id ?? randomUUID().replaceAll("-", ""),
    routingKey,
    n,
    hasLogprobs: logprobs !== null,
    returnTokenIds: isGenerate || fields.return_token_ids,
    tokensAsIds: isGenerate || fields.return_tokens_as_token_ids,
    stream: fields.stream,
    includeUsage: stream.include_usage,
    model: adapters === null ? limits.model : named,
    adapter,
    expertsFrom: ("routed_experts_prompt_start" in sampling ? sampling.routed_experts_prompt_start : null) ?? 0,
  };
}

function require(holds: boolean, message: string, parameter: Parameter | null = null): void {
  if (!holds) throw new VllmRefusal(400, message, parameter);
}

function readPrompt(list: readonly unknown[], name: string): Uint32Array {
  const isNested = name === "prompt" && list.length === 1 && Array.isArray(list[0]);
  const ids = isNested ? (list[0] as readonly unknown[]) : list;
  require(ids.length > 0, `${name}: List should have at least 1 item after validation, not 0`);
  const isId = (id: unknown): id is number => Number.isInteger(id) && (id as number) >= 0 && (id as number) < 2 ** 32;
  require(ids.every(isId), `${name}: Input should be a valid integer greater than or equal to 0`);
  return Uint32Array.from(ids as readonly number[]);
}

type Room = { readonly endpoint: VllmEndpoint; readonly limits: VllmLimits; readonly promptLength: number };

function toSampler(sampling: Sampling, room: Room): Pick<VllmCall, "sampler" | "endTokenIds"> {
  const { limits } = room;
  const { temperature, top_p, top_k, min_p, max_tokens, min_tokens } = sampling;
  const { repetition_penalty, frequency_penalty, presence_penalty } = sampling;
  const named = { name: "temperature", value: asPython(temperature) };
  require(temperature >= 0, `temperature must be non-negative, got ${named.value}.`, named);
  // Older versions accept any temperature.
  const isMild = temperature <= 2 || !limits.protocol.namesParameter;
  require(isMild, `temperature must be in [0, 2], got ${named.value}.`, named);
  const shownTopP = asPython(top_p);
  require(top_p > 0 && top_p <= 1, `top_p must be in (0, 1], got ${shownTopP}.`, { name: "top_p", value: shownTopP });
  require(top_k >= -1, `top_k must be 0 (disable), or at least 1, got ${top_k}.`);
  require(min_p >= 0 && min_p <= 1, `min_p must be in [0, 1], got ${min_p}.`);
  require(repetition_penalty > 0, `repetition_penalty must be greater than zero, got ${repetition_penalty}.`);
  require(Math.abs(frequency_penalty) <= 2, `frequency_penalty must be in [-2, 2], got ${frequency_penalty}.`);
  require(Math.abs(presence_penalty) <= 2, `presence_penalty must be in [-2, 2], got ${presence_penalty}.`);
  const most = { name: "max_tokens", value: String(max_tokens) };
  require(max_tokens === null || max_tokens >= 1, `max_tokens must be at least 1, got ${max_tokens}.`, most);
  require(min_tokens >= 0, `min_tokens must be greater than or equal to 0, got ${min_tokens}.`);
  const endTokenIds = new Set(sampling.ignore_eos ? [] : limits.endTokenIds);
  const isGreedy = temperature < 1e-5;
  return {
    endTokenIds,
    sampler: {
      maxNewTokens: fit(max_tokens, room),
      minNewTokens: min_tokens,
      temperature: isGreedy ? 1 : temperature,
      topP: top_p,
      topK: isGreedy ? 1 : top_k <= 0 ? -1 : top_k,
      minP: min_p,
      frequencyPenalty: frequency_penalty,
      presencePenalty: presence_penalty,
      repetitionPenalty: repetition_penalty,
      // Unlike the model's own end tokens, these apply even with `ignore_eos`.
      stopTokenIds: new Set([...endTokenIds, ...sampling.stop_token_ids]),
      logitBias: new Map(),
      seed: sampling.seed ?? null,
    },
  };
}

/** A float in the server's notation. */
function asPython(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

/** The token limit of a generation, after the checks against the context length. */
function fit(maxTokens: number | null, { endpoint, limits, promptLength: prompt }: Room): number {
  const { contextLength: context, protocol } = limits;
  const isCompletion = endpoint === "completions";
  const start = `This model's maximum context length is ${context} tokens. However,`;
  if (!isCompletion || protocol.overflow === "shorten") {
    const shown = `${prompt === context + 1 ? "at least " : ""}${prompt}`;
    require(!isCompletion ||
      prompt <=
        context, `${start} your prompt contains ${shown} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.`, {
      name: "input_tokens",
      value: String(prompt),
    });
    require(prompt <
      context, `The decoder prompt (length ${prompt}) is longer than the maximum model length of ${context}. Make sure that \`max_model_len\` is no smaller than the number of text tokens.`);
    return Math.min(maxTokens ?? Infinity, context - prompt);
  }
  const output = maxTokens ?? 1;
  const total = prompt + output;
  require(total <= context, protocol.overflow === "total"
    ? `${start} you requested ${total} tokens (${prompt} in the messages, ${output} in the completion). Please reduce the length of the messages or completion.`
    : `${start} you requested ${output} output tokens and your prompt contains at least ${prompt} input tokens, for a total of at least ${total} tokens. Please reduce the length of the input prompt or the number of requested output tokens.`);
  return maxTokens ?? context - prompt;
}
