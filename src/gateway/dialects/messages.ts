// Anthropic's Messages: POST /v1/messages, whole and streamed. The formats follow requests recorded
// from clients (a coding CLI, the AI SDK, whole and streamed) and answers as @anthropic-ai/sdk
// parses them.

import { z } from "zod";
import type { Message, ToolCall } from "../../core/index.ts";
import {
  type AnswerStream,
  type Dialect,
  endingOf,
  type GatewayAnswer,
  type GatewayError,
  type GatewayErrorStatus,
} from "../request.ts";
import {
  AssistantBuilder,
  chosenTools,
  commonShape,
  contentSchema,
  limitSchema,
  longList,
  makeTool,
  optional,
  partSchema,
  readText,
  readToolChoice,
  requestOf,
  sse,
  stopSchema,
  unknownTool,
  withRaw,
} from "./fields.ts";
import { constraintIn } from "./constraints.ts";
import { checkFields, readBody } from "./request-fields.ts";

const blockSchema = partSchema.extend({
  id: optional(z.string()),
  name: optional(z.string()),
  input: z.unknown().optional(),
  thinking: optional(z.string()),
  tool_use_id: optional(z.string()),
  content: optional(contentSchema),
  is_error: optional(z.boolean()),
});

const messageSchema = z.object({
  role: z.enum(["user", "assistant", "system"]),
  content: z.union([z.string(), z.array(blockSchema)]),
});

const toolSchema = z.object({
  type: optional(z.string()),
  name: z.string().min(1),
  description: optional(z.string()),
  input_schema: z.unknown().optional(),
});

const bodySchema = z.object({
  max_tokens: limitSchema,
  system: optional(contentSchema),
  messages: longList(messageSchema).min(1),
  tools: optional(longList(toolSchema)),
  tool_choice: z.unknown().optional(),
  stop_sequences: stopSchema,
  ...commonShape,
});

/** Signature of thinking blocks: clients drop a streamed thinking block that has none. */
const signature = "trainable-agents";

export const messagesDialect: Dialect = {
  name: "messages",
  lists: { messages: messageSchema, tools: toolSchema },
  read: (raw) => {
    const checked = checkFields("messages", raw);
    const body = readBody(bodySchema, raw);
    const tools = body.tools ?? [];
    const isFunction = ({ type }: z.infer<typeof toolSchema>): boolean => (type ?? "custom") === "custom";
    const functions = tools.filter(isFunction).map((tool) => makeTool({ ...tool, parameters: tool.input_schema }));
    const choice = readToolChoice(body.tool_choice);
    return requestOf(body, {
      ...checked,
      messages: [...readSystem(body.system), ...readMessages(body.messages)],
      tools: chosenTools(functions, choice, []),
      mayCall: choice.mayCall,
      constraint: constraintIn("messages", raw, choice),
      maxCalls: isSingle(body.tool_choice) ? 1 : null,
      maxTokens: body.max_tokens ?? null,
      stop: body.stop_sequences,
      ignoredTools: tools.length - functions.length,
    });
  },
  whole: (answer, { model }) =>
    withRaw(
      {
        id: `msg_${answer.idPrefix}_${answer.call}`,
        type: "message",
        role: "assistant",
        model,
        ...stopOf(answer),
        usage: usageOf(answer),
      },
      "content",
      `[${blocksOf(answer).map(blockText).join()}]`,
    ),
  stream: (head, { model }): AnswerStream => {
    let index = -1;
    let open: "thinking" | "text" | null = null;
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
            id: `msg_${head.idPrefix}_${head.call}`,
            type: "message",
            role: "assistant",
            model,
            content: [],
            stop_reason: null,
            stop_sequence: null,
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
        return (
          out +
          blockDelta(kind === "thinking" ? { type: "thinking_delta", thinking: text } : { type: "text_delta", text })
        );
      },
      end: (answer) => {
        let rest = stop();
        for (const { id, name, argumentsText } of answer.action.toolCalls) {
          rest += begin({ type: "tool_use", id, name, input: {} });
          rest += blockDelta({ type: "input_json_delta", partial_json: argumentsText });
          rest += event("content_block_stop", { index });
        }
        const delta = stopOf(answer);
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

function isSingle(choice: unknown): boolean {
  if (typeof choice !== "object" || choice === null) return false;
  return readBody(choiceSchema, choice).disable_parallel_tool_use === true;
}

const choiceSchema = z.object({ disable_parallel_tool_use: optional(z.boolean()) });

/**
 * Prefix of a block that one client puts first, with its build number: it changes, and it is not an
 * instruction.
 */
const billingHeader = "x-anthropic-billing-header:";

function readSystem(system: z.infer<typeof bodySchema>["system"]): Message[] {
  if (system === null || system === undefined || system.length === 0) return [];
  const shown =
    typeof system === "string" ? system : system.filter(({ text }) => !(text ?? "").startsWith(billingHeader));
  return [{ role: "system", content: readText(shown, "system") }];
}

function readMessages(messages: readonly z.infer<typeof messageSchema>[]): Message[] {
  return messages.flatMap(({ role, content }, index): Message[] => {
    const param = `messages.${index}.content`;
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
    if (role === "system") return [{ role, content: readText(blocks, param) }];
    if (role === "assistant") {
      const message = new AssistantBuilder();
      for (const block of blocks as readonly z.infer<typeof blockSchema>[]) {
        if (block.type === "thinking" || block.type === "redacted_thinking") message.reasoning(block.thinking ?? "");
        else if (block.type === "tool_use") {
          const { id = "", name = "", input } = block;
          // Some clients send the arguments as text.
          message.call({ id, name, argumentsText: typeof input === "string" ? input : JSON.stringify(input ?? {}) });
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
        const callId = block.tool_use_id ?? null;
        results.push({ role: "tool", content: readText(block.content, param), name: unknownTool, callId });
      }
    }
    if (texts.length > 0 || results.length === 0) results.push({ role: "user", content: readText(texts, param) });
    return results;
  });
}

type Block =
  | { readonly type: "thinking"; readonly thinking: string; readonly signature: string }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tool_use"; readonly call: ToolCall };

function blocksOf({ action: { reasoning, content, toolCalls } }: GatewayAnswer): Block[] {
  return [
    ...(reasoning === null || reasoning === "" ? [] : [{ type: "thinking", thinking: reasoning, signature } as const]),
    ...(content === "" ? [] : [{ type: "text", text: content } as const]),
    ...toolCalls.map((call) => ({ type: "tool_use", call }) as const),
  ];
}

/**
 * Arguments are sent unchanged: JavaScript would change a large integer when it formats them again.
 */
function blockText(block: Block): string {
  if (block.type !== "tool_use") return JSON.stringify(block);
  const { id, name, argumentsText } = block.call;
  return withRaw({ type: block.type, id, name }, "input", argumentsText);
}

function stopOf(answer: GatewayAnswer): { readonly stop_reason: string; readonly stop_sequence: string | null } {
  const { matched } = answer.finish;
  switch (endingOf(answer)) {
    case "calls":
      return { stop_reason: "tool_use", stop_sequence: null };
    case "length":
      return { stop_reason: "max_tokens", stop_sequence: null };
    default:
      return typeof matched === "string"
        ? { stop_reason: "stop_sequence", stop_sequence: matched }
        : { stop_reason: "end_turn", stop_sequence: null };
  }
}

const emptyUsage = { cache_creation_input_tokens: 0, cache_read_input_tokens: 0, input_tokens: 0, output_tokens: 0 };

/** The three counts of input tokens are disjoint. */
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
  415: "invalid_request_error",
  429: "rate_limit_error",
  500: "api_error",
  503: "overloaded_error",
} as const satisfies Record<GatewayErrorStatus, string>;

/** Clients shorten the conversation after "prompt is too long". */
function errorBody(error: GatewayError): unknown {
  const { context } = error;
  const isLong = error.code === "context-length";
  const message = isLong
    ? `prompt is too long: ${context === null ? error.message : `${context.tokens} tokens > ${context.most} maximum`}`
    : error.message;
  return { type: "error", error: { type: errorTypes[error.status], message } };
}
