// OpenAI's Chat Completions: POST /v1/chat/completions, whole and streamed. Shapes as clients sent them over the wire (OpenAI
// Agents, AI SDK, LangGraph, qwen-code, pi) and as openai 6 reads answers. And completions of token ids, which share its fields.

import { z } from "zod";
import type { Message } from "../../core/index.ts";
import {
  type AnswerHead,
  type AnswerStream,
  type Dialect,
  endingOf,
  type GatewayAnswer,
  type GatewayError,
} from "../request.ts";
import {
  callNames,
  commonShape,
  contentSchema,
  limitSchema,
  longList,
  makeTool,
  readBody,
  readText,
  requestOf,
  sse,
  stopSchema,
  unsupported,
} from "./fields.ts";

const callSchema = z.looseObject({
  id: z.string(),
  function: z.looseObject({ name: z.string(), arguments: z.string().default("{}") }),
});

const messageSchema = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool"]),
  content: contentSchema.nullish(),
  reasoning_content: z.string().nullish(),
  reasoning: z.string().nullish(),
  tool_calls: z.array(callSchema).nullish(),
  tool_call_id: z.string().optional(),
});

const toolSchema = z.looseObject({
  type: z.string().default("function"),
  function: z
    .looseObject({ name: z.string().min(1), description: z.string().nullish(), parameters: z.unknown().optional() })
    .optional(),
});

/** Of both. */
const openAiShape = {
  n: z.int().nullish(),
  max_tokens: limitSchema,
  stop: stopSchema,
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  ...commonShape,
};

const chatSchema = z.looseObject({
  messages: longList(messageSchema).min(1),
  tools: longList(toolSchema).nullish(),
  tool_choice: z.unknown().optional(),
  response_format: z.looseObject({ type: z.string() }).nullish(),
  max_completion_tokens: limitSchema,
  ...openAiShape,
});

/** Throws for what asks for more than one answer. */
function readOne<Body extends { readonly n?: number | null | undefined }>(schema: z.ZodType<Body>, raw: unknown): Body {
  const body = readBody(schema, raw);
  if ((body.n ?? 1) !== 1) throw unsupported("n is more than 1; one answer is sampled a call", "n");
  return body;
}

export const chatDialect: Dialect = {
  name: "chat",
  lists: { messages: messageSchema, tools: toolSchema },
  read: (raw) => {
    const body = readOne(chatSchema, raw);
    const { type = "text" } = body.response_format ?? {};
    for (const name of ["functions", "function_call"]) {
      if (body[name] !== undefined) throw unsupported(`${name} is the form before tools; send tools`, name);
    }
    if (Array.isArray(body["modalities"]) && body["modalities"].some((one) => one !== "text")) {
      throw unsupported("a model of text answers with text alone", "modalities");
    }
    if (type !== "text")
      throw unsupported(`response_format "${type}" needs an engine with a grammar`, "response_format");
    const tools = body.tools ?? [];
    return requestOf(body, {
      messages: readMessages(body.messages),
      tools: tools.flatMap((tool) => (tool.function === undefined ? [] : makeTool(tool.function))),
      mayCall: readToolChoice(body.tool_choice),
      maxTokens: body.max_completion_tokens ?? body.max_tokens ?? null,
      stop: body.stop,
      ignoredTools: tools.filter((tool) => tool.function === undefined).length,
      includesUsage: body.stream_options?.include_usage ?? false,
    });
  },
  whole: (answer, { model }) => ({
    id: idOf(answer),
    object: "chat.completion",
    created: answer.createdAt,
    model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: answer.action.content === "" ? null : answer.action.content,
          ...(answer.action.reasoning === null ? {} : { reasoning_content: answer.action.reasoning }),
          ...(answer.action.toolCalls.length === 0 ? {} : { tool_calls: callsOf(answer) }),
          refusal: null,
        },
        logprobs: null,
        finish_reason: finishReasonOf(answer),
      },
    ],
    usage: usageOf(answer),
  }),
  stream: (head, { model, includesUsage }): AnswerStream => {
    const about = { id: idOf(head), object: "chat.completion.chunk", created: head.createdAt, model };
    const chunk = (choices: readonly unknown[], usage: unknown = null): string =>
      sse({ ...about, choices, ...(includesUsage ? { usage } : {}) });
    const delta = (fields: object, reason: string | null = null): string =>
      chunk([{ index: 0, delta: fields, logprobs: null, finish_reason: reason }]);
    return {
      start: () => delta({ role: "assistant", content: "" }),
      delta: ({ type, text }) => delta(type === "reasoning" ? { reasoning_content: text } : { content: text }),
      end: (answer) => ({
        rest: callsOf(answer)
          .map((call, index) => delta({ tool_calls: [{ index, ...call }] }))
          .join(""),
        terminal: `${delta({}, finishReasonOf(answer))}${includesUsage ? chunk([], usageOf(answer)) : ""}data: [DONE]\n\n`,
      }),
      error: (error) => sse(errorBody(error)),
    };
  },
  error: errorBody,
};

function readMessages(messages: readonly z.infer<typeof messageSchema>[]): Message[] {
  const names = callNames();
  return messages.map((message, index): Message => {
    const content = readText(message.content, `messages.${index}.content`);
    switch (message.role) {
      case "system":
      case "developer":
        return { role: "system", content };
      case "user":
        return { role: "user", content };
      case "assistant": {
        const toolCalls = (message.tool_calls ?? []).map((call) => {
          names.add(call.id, call.function.name);
          return { id: call.id, name: call.function.name, argumentsText: call.function.arguments };
        });
        return {
          role: "assistant",
          content,
          reasoning: message.reasoning_content ?? message.reasoning ?? null,
          toolCalls,
        };
      }
      case "tool":
        return {
          role: "tool",
          content,
          name: names.of(message.tool_call_id ?? ""),
          callId: message.tool_call_id ?? null,
        };
      default:
        return message.role satisfies never;
    }
  });
}

/** Whether the model may call tools. Throws where it would have to. */
export function readToolChoice(choice: unknown): boolean {
  const type = typeof choice === "object" && choice !== null && "type" in choice ? choice.type : choice;
  if (type === undefined || type === null || type === "auto") return true;
  if (type === "none") return false;
  throw unsupported(
    "a forced tool_choice needs an engine with a grammar; leave the choice to the model",
    "tool_choice",
  );
}

function idOf({ idPrefix, call }: Pick<GatewayAnswer, "idPrefix" | "call">): string {
  return `chatcmpl-${idPrefix}-${call}`;
}

function callsOf({ action }: GatewayAnswer): readonly { readonly id: string }[] {
  return action.toolCalls.map(({ id, name, argumentsText }) => ({
    id,
    type: "function",
    function: { name, arguments: argumentsText },
  }));
}

function finishReasonOf(answer: GatewayAnswer): string {
  return { calls: "tool_calls", length: "length", stop: "stop" }[endingOf(answer)];
}

function usageOf({ usage }: GatewayAnswer): object {
  return { ...countsOf(usage), prompt_tokens_details: { cached_tokens: usage.cachedTokens ?? 0 } };
}

function countsOf({ promptTokens, sampledTokens }: GatewayAnswer["usage"]): object {
  const [prompt_tokens, completion_tokens] = [promptTokens, sampledTokens];
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

/** As OpenAI's clients read errors; Codex stops, and does not try again, at "context_length_exceeded". */
export function errorBody(error: GatewayError): { readonly error: unknown } {
  const { code, message, param } = error;
  const type =
    error.status >= 500 ? "server_error" : error.status === 429 ? "rate_limit_error" : "invalid_request_error";
  return {
    error: {
      message,
      type,
      param,
      code: code === "context-length" ? "context_length_exceeded" : code.replaceAll("-", "_"),
    },
  };
}

// Completions of token ids: POST /v1/completions, whole and streamed, for programs that render for themselves. Ids come back as
// vLLM returns them (`return_token_ids`): `token_ids`, and `token_logprobs` in the OpenAI form. A prompt that begins as the record
// of its session does continues it.

const completionsSchema = z.looseObject({ prompt: z.union([z.string(), z.array(z.unknown())]), ...openAiShape });

export const completionsDialect: Dialect = {
  name: "completions",
  lists: {},
  read: (raw) => {
    const body = readOne(completionsSchema, raw);
    const { prompt } = body;
    const isIds = Array.isArray(prompt) && prompt.length > 0 && prompt.every(isTokenId);
    if (!isIds) {
      throw unsupported("its prompt is no list of token ids; render it, or use /v1/chat/completions", "prompt");
    }
    return requestOf(body, {
      promptTokens: Uint32Array.from(prompt as readonly number[]),
      messages: [],
      maxTokens: body.max_tokens ?? null,
      stop: body.stop,
      includesUsage: body.stream_options?.include_usage ?? false,
    });
  },
  whole: (answer, { model }) => ({
    ...headOf(answer, model),
    choices: [{ ...choiceOf(answer), text: answer.action.text }],
    usage: countsOf(answer.usage),
  }),
  stream: (head, { model, includesUsage }): AnswerStream => ({
    start: () => "",
    // Ids and logprobs of a part are known with the whole alone, so it is told at once.
    delta: () => "",
    end: (answer) => {
      const choice = { ...choiceOf(answer), text: answer.action.text };
      const usage = includesUsage ? sse({ ...headOf(head, model), choices: [], usage: countsOf(answer.usage) }) : "";
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
