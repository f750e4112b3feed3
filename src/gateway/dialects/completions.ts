// Completions of token ids: POST /v1/completions, whole and streamed, for programs that render for themselves. Ids come back as
// vLLM returns them (`return_token_ids`): `token_ids`, and `token_logprobs` in the OpenAI form. A prompt that begins as the record
// of its session does continues it.

import { z } from "zod";
import { endingOf, type GatewayAnswer, type GatewayRequest } from "../request.ts";
import { errorBody } from "./chat.ts";
import type { AnswerHead, AnswerStream, Dialect } from "./dialect.ts";
import { limitSchema, readBody, readSampling, samplingShape, sse, stopSchema, unsupported } from "./fields.ts";

const bodySchema = z.looseObject({
  model: z.string().default(""),
  prompt: z.union([z.string(), z.array(z.unknown())]),
  n: z.int().nullish(),
  max_tokens: limitSchema,
  stop: stopSchema,
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  ...samplingShape,
});

export const completionsDialect: Dialect = {
  name: "completions",
  read: (raw): GatewayRequest => {
    const body = readBody(bodySchema, raw);
    if ((body.n ?? 1) !== 1) throw unsupported("n is more than 1; one answer is sampled a call", "n");
    const { prompt } = body;
    const isIds = Array.isArray(prompt) && prompt.length > 0 && prompt.every(isTokenId);
    if (!isIds) {
      throw unsupported("its prompt is no list of token ids; render it, or use /v1/chat/completions", "prompt");
    }
    return {
      promptTokens: Uint32Array.from(prompt as readonly number[]),
      ...{ messages: [], tools: [], mayCall: false },
      ...{ maxTokens: body.max_tokens ?? null, stop: body.stop, isStreamed: body.stream ?? false, model: body.model },
      ...readSampling(body),
      ...{ ignoredTools: 0, includesUsage: body.stream_options?.include_usage ?? false },
      ...{ response: null, previousResponseId: null },
    };
  },
  whole: (answer, { model }) => ({
    ...headOf(answer, model),
    choices: [{ ...choiceOf(answer), text: answer.action.text }],
    usage: usageOf(answer),
  }),
  stream: (head, { model, includesUsage }): AnswerStream => ({
    start: () => "",
    // Ids and logprobs of a part are known with the whole alone, so it is told at once.
    delta: () => "",
    end: (answer) => {
      const choice = { ...choiceOf(answer), text: answer.action.text };
      const usage = includesUsage ? sse({ ...headOf(head, model), choices: [], usage: usageOf(answer) }) : "";
      return { rest: "", terminal: `${sse({ ...headOf(head, model), choices: [choice] })}${usage}data: [DONE]\n\n` };
    },
    error: (error) => sse(errorBody(error)),
  }),
  error: errorBody,
};

function isTokenId(id: unknown): boolean {
  return Number.isInteger(id) && Number(id) >= 0 && Number(id) <= 0xffff_ffff;
}

function headOf({ idPrefix, call, createdAt }: AnswerHead, model: string): object {
  return { id: `cmpl-${idPrefix}-${call}`, object: "text_completion", created: createdAt, model };
}

function choiceOf(answer: GatewayAnswer): object {
  const { sampledTokens, logprobs } = answer;
  return {
    index: 0,
    token_ids: [...sampledTokens],
    logprobs: logprobs === null ? null : { token_logprobs: [...logprobs] },
    finish_reason: endingOf(answer) === "length" ? "length" : "stop",
  };
}

function usageOf({ usage }: GatewayAnswer): object {
  const { promptTokens: prompt_tokens, sampledTokens: completion_tokens } = usage;
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}
