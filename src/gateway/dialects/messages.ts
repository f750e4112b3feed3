// Anthropic's Messages: POST /v1/messages, whole and streamed. Shapes as clients sent them over the wire (a coding CLI, the AI SDK,
// whole and streamed) and as @anthropic-ai/sdk reads answers.

import { z } from "zod";
import type { Message, ToolCall } from "../../core/index.ts";
import { JsonFloat, type JsonValue, parseJson, toPlain } from "../../python-semantics/json/index.ts";
import {
  type AnswerStream,
  type Dialect,
  endingOf,
  type GatewayAnswer,
  type GatewayError,
  type GatewayErrorStatus,
} from "../request.ts";
import { readToolChoice } from "./chat.ts";
import {
  AssistantBuilder,
  callNames,
  commonShape,
  contentSchema,
  limitSchema,
  longList,
  makeTool,
  partSchema,
  readBody,
  readText,
  requestOf,
  sse,
  stopSchema,
} from "./fields.ts";

const blockSchema = partSchema.extend({
  id: z.string().optional(),
  name: z.string().optional(),
  input: z.unknown().optional(),
  thinking: z.string().optional(),
  tool_use_id: z.string().optional(),
  content: contentSchema.nullish(),
  is_error: z.boolean().nullish(),
});

const messageSchema = z.looseObject({
  role: z.enum(["user", "assistant", "system"]),
  content: z.union([z.string(), z.array(blockSchema)]),
});

const toolSchema = z.looseObject({
  type: z.string().nullish(),
  name: z.string().min(1),
  description: z.string().nullish(),
  input_schema: z.unknown().optional(),
});

const bodySchema = z.looseObject({
  max_tokens: limitSchema,
  system: contentSchema.nullish(),
  messages: longList(messageSchema).min(1),
  tools: longList(toolSchema).nullish(),
  tool_choice: z.unknown().optional(),
  stop_sequences: stopSchema,
  ...commonShape,
});

/** What thinking blocks are signed with: clients drop a streamed block without one. */
const signature = "trainable-agents";

export const messagesDialect: Dialect = {
  name: "messages",
  lists: { messages: messageSchema, tools: toolSchema },
  read: (raw) => {
    const body = readBody(bodySchema, raw);
    const tools = body.tools ?? [];
    const isFunction = ({ type }: z.infer<typeof toolSchema>): boolean => (type ?? "custom") === "custom";
    return requestOf(body, {
      messages: [...readSystem(body.system), ...readMessages(body.messages)],
      tools: tools.filter(isFunction).map((tool) => makeTool({ ...tool, parameters: tool.input_schema })),
      mayCall: readToolChoice(body.tool_choice),
      maxTokens: body.max_tokens ?? null,
      stop: body.stop_sequences,
      ignoredTools: tools.filter((tool) => !isFunction(tool)).length,
    });
  },
  whole: (answer, { model }) => ({
    id: `msg_${answer.idPrefix}_${answer.call}`,
    type: "message",
    role: "assistant",
    model,
    content: blocksOf(answer),
    stop_reason: stopReasonOf(answer),
    stop_sequence: stopSequenceOf(answer),
    usage: usageOf(answer),
  }),
  stream: (head, { model }): AnswerStream => {
    let index = -1;
    let open: "thinking" | "text" | null = null;
    let sentText = "";
    const event = (type: string, fields: object): string => sse({ type, ...fields }, type);
    const begin = (block: object): string => event("content_block_start", { index: ++index, content_block: block });
    const blockDelta = (delta: object): string => event("content_block_delta", { index, delta });
    const stop = (): string => {
      if (open === null) return "";
      const signed = open === "thinking" ? blockDelta({ type: "signature_delta", signature }) : "";
      open = null;
      return signed + event("content_block_stop", { index });
    };
    return {
      start: (promptTokens) =>
        event("message_start", {
          message: {
            ...{ id: `msg_${head.idPrefix}_${head.call}`, type: "message", role: "assistant", model, content: [] },
            ...{ stop_reason: null, stop_sequence: null },
            usage: { ...emptyUsage, input_tokens: promptTokens },
          },
        }),
      delta: ({ type, text }) => {
        const kind = type === "reasoning" ? "thinking" : "text";
        let out = "";
        if (open !== kind) {
          out =
            stop() +
            begin(kind === "thinking" ? { type: "thinking", thinking: "", signature: "" } : { type: "text", text: "" });
          open = kind;
        }
        if (kind === "text") sentText += text;
        return (
          out +
          blockDelta(kind === "thinking" ? { type: "thinking_delta", thinking: text } : { type: "text_delta", text })
        );
      },
      end: (answer) => {
        let rest = stop();
        for (const block of blocksOf(answer)) {
          if (block.type === "tool_use") {
            const json = JSON.stringify(block.input);
            rest += begin({ ...block, input: {} }) + blockDelta({ type: "input_json_delta", partial_json: json });
            rest += event("content_block_stop", { index });
          } else if (block.type === "text" && block.text !== sentText && block.text.startsWith(sentText)) {
            // Text that stands for a call which is no JSON object was not streamed.
            rest +=
              begin({ type: "text", text: "" }) +
              blockDelta({ type: "text_delta", text: block.text.slice(sentText.length) });
            rest += event("content_block_stop", { index });
          }
        }
        const delta = { stop_reason: stopReasonOf(answer), stop_sequence: stopSequenceOf(answer) };
        return {
          rest,
          terminal: event("message_delta", { delta, usage: usageOf(answer) }) + event("message_stop", {}),
        };
      },
      error: (error) => sse(errorBody(error), "error"),
    };
  },
  error: errorBody,
};

/** Prefix of a block that one client puts first, with the number of its build: it is no instruction, and changes. */
const billingHeader = "x-anthropic-billing-header:";

function readSystem(system: z.infer<typeof bodySchema>["system"]): Message[] {
  if (system === null || system === undefined || system.length === 0) return [];
  const shown =
    typeof system === "string" ? system : system.filter(({ text }) => !(text ?? "").startsWith(billingHeader));
  return [{ role: "system", content: readText(shown, "system") }];
}

function readMessages(messages: readonly z.infer<typeof messageSchema>[]): Message[] {
  const names = callNames();
  return messages.flatMap(({ role, content }, index): Message[] => {
    const param = `messages.${index}.content`;
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
    if (role === "system") return [{ role, content: readText(blocks, param) }];
    if (role === "assistant") {
      const message = new AssistantBuilder();
      for (const block of blocks as readonly z.infer<typeof blockSchema>[]) {
        if (block.type === "thinking" || block.type === "redacted_thinking") message.reasoning(block.thinking ?? "");
        else if (block.type === "tool_use") {
          const { id = "", name = "" } = block;
          names.add(id, name);
          message.call({ id, name, argumentsText: JSON.stringify(block.input ?? {}) });
        } else message.text(readText([block], param));
      }
      const taken = message.take();
      return taken === null ? [{ role, content: "", reasoning: null, toolCalls: [] }] : [taken];
    }
    const results: Message[] = [];
    const texts: z.infer<typeof partSchema>[] = [];
    for (const block of blocks as readonly z.infer<typeof blockSchema>[]) {
      if (block.type !== "tool_result") texts.push(block);
      else {
        const callId = block.tool_use_id ?? "";
        results.push({ role: "tool", content: readText(block.content, param), name: names.of(callId), callId });
      }
    }
    if (texts.length > 0 || results.length === 0) results.push({ role: "user", content: readText(texts, param) });
    return results;
  });
}

type Block =
  | { readonly type: "thinking"; readonly thinking: string; readonly signature: string }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly input: unknown };

function blocksOf({ action }: GatewayAnswer): Block[] {
  const blocks: Block[] = [];
  if (action.reasoning !== null && action.reasoning !== "") {
    blocks.push({ type: "thinking", thinking: action.reasoning, signature });
  }
  const inputs = action.toolCalls.map(inputOf);
  // The format has no place for arguments that are no JSON object: the client reads what was sampled, as text.
  const isWritable = inputs.every((input) => input !== null);
  const text = isWritable ? action.content : action.text;
  if (text !== "") blocks.push({ type: "text", text });
  if (!isWritable) return blocks;
  action.toolCalls.forEach(({ id, name }, place) => blocks.push({ type: "tool_use", id, name, input: inputs[place] }));
  return blocks;
}

function inputOf({ argumentsText }: ToolCall): object | null {
  try {
    const value = parseJson(argumentsText);
    return value instanceof Map && isPlain(value) ? (toPlain(value) as object) : null;
  } catch {
    return null;
  }
}

/** False for numbers that JavaScript would write otherwise than they were sampled. */
function isPlain(value: JsonValue): boolean {
  if (Array.isArray(value)) return value.every(isPlain);
  if (value instanceof Map) return [...value.values()].every(isPlain);
  return typeof value !== "bigint" && !(value instanceof JsonFloat && !Number.isFinite(value.value));
}

function stopReasonOf(answer: GatewayAnswer): string {
  const ending = endingOf(answer);
  if (ending === "calls") return blocksOf(answer).some(({ type }) => type === "tool_use") ? "tool_use" : "end_turn";
  if (ending === "length") return "max_tokens";
  return stopSequenceOf(answer) === null ? "end_turn" : "stop_sequence";
}

function stopSequenceOf({ finish }: GatewayAnswer): string | null {
  return typeof finish.matched === "string" ? finish.matched : null;
}

const emptyUsage = { cache_creation_input_tokens: 0, cache_read_input_tokens: 0, input_tokens: 0, output_tokens: 0 };

/** The three counts of input are disjoint. */
function usageOf({ usage }: GatewayAnswer): unknown {
  const cached = Math.min(usage.cachedTokens ?? 0, usage.promptTokens);
  return {
    ...emptyUsage,
    cache_read_input_tokens: cached,
    input_tokens: usage.promptTokens - cached,
    output_tokens: usage.sampledTokens,
  };
}

const errorTypes = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  503: "overloaded_error",
} as const satisfies Record<GatewayErrorStatus, string>;

/** Clients shorten the conversation at "prompt is too long". */
function errorBody(error: GatewayError): unknown {
  const { context } = error;
  const isLong = error.code === "context-length";
  const message = isLong
    ? `prompt is too long: ${context === null ? error.message : `${context.tokens} tokens > ${context.most} maximum`}`
    : error.message;
  return { type: "error", error: { type: errorTypes[error.status], message } };
}
