// The native interfaces of servers, for clients that render prompts themselves: SGLang's POST
// /generate and vLLM's POST /inference/v1/generate, whole and streamed. A prompt that begins with
// the record of its session continues it. The formats follow recorded replies of SGLang 0.5.23 and
// vLLM 0.32.

import { z } from "zod";
import {
  type AnswerHead,
  type AnswerStream,
  type Dialect,
  endingOf,
  type GatewayAnswer,
  type GatewayError,
  type GatewayRequest,
} from "../request.ts";
import { constraintIn } from "./constraints.ts";
import { isTokenId, limitSchema, optional, requestOf, sse, stopSchema } from "./fields.ts";
import { checkFields, readBody, unsupported } from "./request-fields.ts";

const stopIdsSchema = optional(z.array(z.int().min(0)).max(64));

const sglangSchema = z.object({
  input_ids: z.unknown(),
  rid: optional(z.string()),
  stream: optional(z.boolean()),
  sampling_params: optional(z.object({ max_new_tokens: limitSchema, stop: stopSchema, stop_token_ids: stopIdsSchema })),
});

export const sglangDialect: Dialect = {
  name: "sglang",
  lists: {},
  read: (raw) => {
    const checked = checkFields("sglang", raw);
    const { input_ids: ids, rid, stream, sampling_params: sampling } = readBody(sglangSchema, raw);
    return requestOf(
      { stream },
      {
        ...checked,
        messages: [],
        promptTokens: tokensIn(ids, "input_ids"),
        promptField: "input_ids",
        constraint: constraintIn("sglang", raw, null),
        maxTokens: sampling?.max_new_tokens ?? null,
        stop: sampling?.stop ?? [],
        stopTokenIds: sampling?.stop_token_ids ?? [],
        requestId: rid ?? null,
      },
    );
  },
  whole: (answer, request) => JSON.stringify(sglangReply(answer, request)),
  stream: (_, request) => inOneEvent((answer) => sse(sglangReply(answer, request)), errorBody),
  error: errorBody,
};

function sglangReply(answer: GatewayAnswer, { requestId }: GatewayRequest): object {
  const { sampledTokens, logprobs, usage, action } = answer;
  const versions = versionsOf(answer);
  return {
    text: action.text,
    output_ids: [...sampledTokens],
    meta_info: {
      id: requestId ?? idOf(answer),
      finish_reason:
        endingOf(answer) === "length"
          ? { type: "length", length: sampledTokens.length }
          : { type: "stop", matched: answer.finish.matched },
      prompt_tokens: usage.promptTokens,
      completion_tokens: usage.sampledTokens,
      cached_tokens: usage.cachedTokens ?? 0,
      ...(logprobs === null ? {} : logprobsOf(sampledTokens, logprobs)),
      ...(versions.length === 0 ? {} : { weight_version: versions.at(-1)!.version, weight_versions: versions }),
    },
  };
}

function logprobsOf(tokens: Uint32Array, logprobs: Float32Array): object {
  return {
    input_token_logprobs: [],
    output_token_logprobs: Array.from(tokens, (id, at) => [logprobs[at], id, null]),
    output_token_logprobs_length: tokens.length,
  };
}

const vllmSchema = z.object({
  token_ids: z.unknown(),
  request_id: optional(z.string()),
  model: optional(z.string()),
  stream: optional(z.boolean()),
  stream_options: optional(z.object({ include_usage: optional(z.boolean()) })),
  sampling_params: optional(z.object({ max_tokens: limitSchema, stop: stopSchema, stop_token_ids: stopIdsSchema })),
});

export const vllmDialect: Dialect = {
  name: "vllm",
  lists: {},
  read: (raw) => {
    const checked = checkFields("vllm", raw);
    const body = readBody(vllmSchema, raw);
    const { sampling_params: sampling } = body;
    return requestOf(body, {
      ...checked,
      messages: [],
      promptTokens: tokensIn(body.token_ids, "token_ids"),
      promptField: "token_ids",
      constraint: constraintIn("vllm", raw, null),
      maxTokens: sampling?.max_tokens ?? null,
      stop: sampling?.stop ?? [],
      stopTokenIds: sampling?.stop_token_ids ?? [],
      includesUsage: body.stream_options?.include_usage ?? false,
      requestId: body.request_id ?? null,
    });
  },
  whole: (answer, request) =>
    JSON.stringify({
      ...vllmHead(answer, request),
      model: request.model,
      created: answer.createdAt,
      usage: vllmUsage(answer),
      prompt_logprobs: null,
      choices: [vllmChoice(answer)],
    }),
  stream: (_, request) =>
    inOneEvent((answer) => {
      const head = vllmHead(answer, request);
      const usage = request.includesUsage ? sse({ ...head, usage: vllmUsage(answer), choices: [] }) : "";
      return sse({ ...head, usage: null, choices: [vllmChoice(answer)] }) + usage;
    }, errorBody),
  error: errorBody,
};

function vllmHead(head: AnswerHead, { requestId }: GatewayRequest): object {
  return { request_id: requestId ?? `generate-tokens-${idOf(head)}`, output_mode: "tokens" };
}

function vllmUsage({ usage: { promptTokens, sampledTokens, cachedTokens } }: GatewayAnswer): object {
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + sampledTokens,
    completion_tokens: sampledTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens ?? 0 },
  };
}

function vllmChoice(answer: GatewayAnswer): object {
  const { sampledTokens, logprobs, finish } = answer;
  const isCut = endingOf(answer) === "length";
  const versions = versionsOf(answer);
  const content = Array.from(sampledTokens, (id, at) => ({
    token: `token_id:${id}`,
    token_id: id,
    logprob: logprobs?.[at],
    top_logprobs: [],
  }));
  return {
    index: 0,
    finish_reason: isCut ? "length" : "stop",
    stop_reason: isCut ? null : finish.matched,
    token_ids: [...sampledTokens],
    ...(versions.length === 0 ? {} : { weight_versions: versions }),
    logprobs: logprobs === null ? null : { content },
  };
}

function tokensIn(ids: unknown, field: string): Uint32Array {
  if (Array.isArray(ids) && ids.length > 0 && ids.every(isTokenId)) return Uint32Array.from(ids as readonly number[]);
  throw unsupported(`${field} is not one list of token ids; encode the prompt, and send one prompt per request`, field);
}

function idOf({ idPrefix, call }: AnswerHead): string {
  return `${idPrefix}-${call}`;
}

/** Versions of the weights in ranges of the sampled tokens; empty unless all are known. */
function versionsOf({ weightSpans }: GatewayAnswer): readonly { readonly version: string }[] {
  let start = 0;
  const all = weightSpans.flatMap(({ tokenCount, reply }) => {
    const span = { version: reply, start, end: start + tokenCount };
    start += tokenCount;
    return reply === null ? [] : [{ ...span, version: reply }];
  });
  return all.length === weightSpans.length ? all : [];
}

/** Token ids and logprobs of a part are known only with the whole answer, so it is sent at once. */
export function inOneEvent(
  write: (answer: GatewayAnswer) => string,
  writeError: (error: GatewayError) => unknown,
): AnswerStream {
  return {
    start: () => "",
    delta: () => "",
    end: (answer) => ({ rest: "", terminal: `${write(answer)}data: [DONE]\n\n` }),
    error: (error) => `${sse(writeError(error))}data: [DONE]\n\n`,
  };
}

function errorBody({ status, message, param }: GatewayError): unknown {
  const type = status >= 500 ? "InternalServerError" : "BadRequestError";
  return { error: { message, type, param, code: status } };
}
