// OpenAI's Chat Completions: POST /v1/chat/completions, whole and streamed. The formats follow
// requests recorded from clients (OpenAI Agents, AI SDK, LangGraph, qwen-code, pi) and answers as
// openai 6 parses them. Also completions of token ids, which share its fields.

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
  chosenTools,
  commonShape,
  contentSchema,
  isTokenId,
  limitSchema,
  longList,
  makeTool,
  optional,
  readText,
  readToolChoice,
  requestOf,
  sse,
  stopSchema,
  unknownTool,
} from "./fields.ts";
import { constraintIn } from "./constraints.ts";
import { inOneEvent } from "./generate.ts";
import { checkFields, readBody, unsupported } from "./request-fields.ts";
import { anyNames } from "../../lib/any-names.ts";

/** Arguments are text; an object is converted to its JSON text. */
const argumentsSchema = optional(
  z.union([z.string(), anyNames(z.unknown()).transform((value) => JSON.stringify(value))]),
);
const callSchema = z.object({
  id: optional(z.string()),
  function: z.object({ name: z.string(), arguments: argumentsSchema }),
});
const messageSchema = z.object({
  role: z.enum(["system", "developer", "user", "assistant", "tool"]),
  content: optional(contentSchema),
  reasoning_content: optional(z.string()),
  reasoning: optional(z.string()),
  tool_calls: optional(z.array(callSchema)),
  tool_call_id: optional(z.string()),
  name: optional(z.string()),
  function_call: z.unknown().optional(),
});
const toolSchema = z.object({
  type: optional(z.string()),
  function: optional(
    z.object({ name: z.string().min(1), description: optional(z.string()), parameters: z.unknown().optional() }),
  ),
  custom: optional(z.object({ name: optional(z.string()) })),
});
/** Fields that Chat and Completions share. */
const openAiShape = {
  max_tokens: limitSchema,
  stop: stopSchema,
  stream_options: optional(z.object({ include_usage: optional(z.boolean()) })),
  ...commonShape,
};
const chatSchema = z.object({
  messages: longList(messageSchema).min(1),
  tools: optional(longList(toolSchema)),
  tool_choice: z.unknown().optional(),
  parallel_tool_calls: optional(z.boolean()),
  max_completion_tokens: limitSchema,
  ...openAiShape,
});

export const chatDialect: Dialect = {
  name: "chat",
  lists: { messages: messageSchema, tools: toolSchema },
  read: (raw) => {
    const checked = checkFields("chat", raw);
    const body = readBody(chatSchema, raw);
    const tools = body.tools ?? [];
    const functions = tools.flatMap((tool) => (tool.function === undefined ? [] : makeTool(tool.function)));
    const others = tools.filter((tool) => tool.function === undefined);
    const choice = readToolChoice(body.tool_choice);
    return requestOf(body, {
      ...checked,
      messages: readMessages(body.messages),
      tools: chosenTools(
        functions,
        choice,
        others.flatMap(({ custom }) => custom?.name ?? []),
      ),
      mayCall: choice.mayCall,
      constraint: constraintIn("chat", raw, choice),
      maxCalls: body.parallel_tool_calls === false ? 1 : null,
      maxTokens: body.max_completion_tokens ?? body.max_tokens ?? null,
      stop: body.stop,
      ignoredTools: others.length,
      includesUsage: body.stream_options?.include_usage ?? false,
    });
  },
  whole: (answer, { model }) =>
    JSON.stringify({
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
  return messages.map((message, index): Message => {
    const content = readText(message.content, `messages.${index}.content`);
    switch (message.role) {
      case "system":
      case "developer":
        return { role: "system", content };
      case "user":
        return { role: "user", content };
      case "assistant": {
        if (message.function_call !== undefined && message.function_call !== null) {
          const field = `messages.${index}.function_call`;
          throw unsupported(`${field} is refused: it is the form that preceded tools; send tool_calls`, field);
        }
        const toolCalls = (message.tool_calls ?? []).map((call) => ({
          id: call.id ?? "",
          name: call.function.name,
          argumentsText: call.function.arguments ?? "{}",
        }));
        return {
          role: "assistant",
          content,
          reasoning: message.reasoning_content ?? message.reasoning ?? null,
          toolCalls,
        };
      }
      case "tool":
        return { role: "tool", content, name: message.name ?? unknownTool, callId: message.tool_call_id ?? null };
      default:
        return message.role satisfies never;
    }
  });
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

/**
 * Error body as OpenAI's clients read it; at "context_length_exceeded" Codex stops and does not
 * retry.
 */
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

// Completions of token ids: POST /v1/completions, whole and streamed, for programs that render
// prompts themselves. Ids are returned in vLLM's format (`return_token_ids`): `token_ids`, and
// `token_logprobs` in OpenAI's form. A prompt that begins with the record of its session continues
// it.

const completionsSchema = z.object({ prompt: z.union([z.string(), z.array(z.unknown())]), ...openAiShape });

export const completionsDialect: Dialect = {
  name: "completions",
  lists: {},
  read: (raw) => {
    const checked = checkFields("completions", raw);
    const body = readBody(completionsSchema, raw);
    const { prompt } = body;
    const isIds = Array.isArray(prompt) && prompt.length > 0 && prompt.every(isTokenId);
    if (!isIds) {
      throw unsupported("its prompt is not a list of token ids; render it, or use /v1/chat/completions", "prompt");
    }
    return requestOf(body, {
      ...checked,
      promptTokens: Uint32Array.from(prompt as readonly number[]),
      constraint: constraintIn("completions", raw, null),
      messages: [],
      maxTokens: body.max_tokens ?? null,
      stop: body.stop,
      includesUsage: body.stream_options?.include_usage ?? false,
    });
  },
  whole: (answer, { model }) =>
    JSON.stringify({
      ...headOf(answer, model),
      choices: [{ ...choiceOf(answer), text: answer.action.text }],
      usage: countsOf(answer.usage),
    }),
  stream: (head, { model, includesUsage }): AnswerStream =>
    inOneEvent((answer) => {
      const choice = { ...choiceOf(answer), text: answer.action.text };
      const usage = includesUsage ? sse({ ...headOf(head, model), choices: [], usage: countsOf(answer.usage) }) : "";
      return sse({ ...headOf(head, model), choices: [choice] }) + usage;
    }, errorBody),
  error: errorBody,
};

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
