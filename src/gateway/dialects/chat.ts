// OpenAI's Chat Completions: POST /v1/chat/completions, whole and streamed. Shapes as clients sent them over the wire (OpenAI
// Agents, AI SDK, LangGraph, qwen-code, pi) and as openai 6 reads answers.

import { z } from "zod";
import type { Message } from "../../core/index.ts";
import { endingOf, type GatewayAnswer, type GatewayError } from "../request.ts";
import type { AnswerStream, Dialect } from "./dialect.ts";
import {
  callNames,
  contentSchema,
  limitSchema,
  makeTool,
  readBody,
  readSampling,
  readText,
  samplingShape,
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

const bodySchema = z.looseObject({
  model: z.string().default(""),
  messages: z.array(messageSchema).min(1),
  tools: z.array(toolSchema).nullish(),
  tool_choice: z.unknown().optional(),
  response_format: z.looseObject({ type: z.string() }).nullish(),
  n: z.int().nullish(),
  max_tokens: limitSchema,
  max_completion_tokens: limitSchema,
  stop: stopSchema,
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  ...samplingShape,
});

export const chatDialect: Dialect = {
  name: "chat",
  read: (raw) => {
    const body = readBody(bodySchema, raw);
    if ((body.n ?? 1) !== 1) throw unsupported("n is more than 1; one answer is sampled a call", "n");
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
    return {
      promptTokens: null,
      messages: readMessages(body.messages),
      tools: tools.flatMap((tool) => (tool.function === undefined ? [] : makeTool(tool.function))),
      mayCall: readToolChoice(body.tool_choice),
      maxTokens: body.max_completion_tokens ?? body.max_tokens ?? null,
      stop: body.stop,
      isStreamed: body.stream ?? false,
      model: body.model,
      ...readSampling(body),
      ignoredTools: tools.filter((tool) => tool.function === undefined).length,
      includesUsage: body.stream_options?.include_usage ?? false,
      response: null,
      previousResponseId: null,
    };
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
    const chunk = (choices: readonly unknown[], usage: unknown = null): string =>
      sse({
        ...{ id: idOf(head), object: "chat.completion.chunk", created: head.createdAt, model, choices },
        ...(includesUsage ? { usage } : {}),
      });
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

function usageOf({ usage }: GatewayAnswer): unknown {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.sampledTokens,
    total_tokens: usage.promptTokens + usage.sampledTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedTokens ?? 0 },
  };
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
