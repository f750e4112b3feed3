// OpenAI's Responses: POST /v1/responses, whole and streamed. Items of earlier answers are
// recognized by their ids, and a response can be continued by its id. The formats follow requests
// recorded from clients (Codex, OpenAI Agents, AI SDK); the order of events is the one that all of
// them accept.

import { z } from "zod";
import type { AssistantMessage, Message, Tool } from "../../core/index.ts";
import {
  type AnswerHead,
  type AnswerStream,
  type Dialect,
  endingOf,
  type GatewayAnswer,
  GatewayError,
  type GatewayRequest,
  type SampledItems,
} from "../request.ts";
import { errorBody } from "./chat.ts";
import {
  AssistantBuilder,
  chosenTools,
  commonShape,
  contentSchema,
  limitSchema,
  longList,
  makeTool,
  optional,
  readText,
  readToolChoice,
  requestOf,
  sse,
  unknownTool,
} from "./fields.ts";
import { constraintIn } from "./constraints.ts";
import { checkFields, readBody, unsupported } from "./request-fields.ts";

const itemSchema = z.object({
  type: optional(z.string()),
  id: optional(z.string()),
  role: optional(z.enum(["system", "developer", "user", "assistant"])),
  content: optional(contentSchema),
  summary: optional(contentSchema),
  name: optional(z.string()),
  namespace: optional(z.string()),
  call_id: optional(z.string()),
  arguments: optional(z.string()),
  output: optional(contentSchema),
});
type Item = z.infer<typeof itemSchema>;
const toolShape = {
  type: z.string(),
  name: optional(z.string()),
  description: optional(z.string()),
  parameters: z.unknown().optional(),
};
const toolSchema = z.object({ ...toolShape, tools: optional(z.array(z.object(toolShape))) });
type SentTool = z.infer<typeof toolSchema>;
const bodySchema = z.object({
  instructions: optional(z.string()),
  input: optional(z.union([z.string(), longList(itemSchema)])),
  previous_response_id: optional(z.string()),
  tools: optional(longList(toolSchema)),
  tool_choice: z.unknown().optional(),
  parallel_tool_calls: optional(z.boolean()),
  max_output_tokens: limitSchema,
  store: optional(z.boolean()),
  ...commonShape,
});

export const responsesDialect: Dialect = {
  name: "responses",
  lists: { input: itemSchema, tools: toolSchema },
  read: (raw, items) => {
    const checked = checkFields("responses", raw);
    const body = readBody(bodySchema, raw);
    if (body.input === undefined || (Array.isArray(body.input) && body.input.length === 0)) {
      const message = "Cannot read the request: input is missing or empty; send a string or at least one item.";
      throw new GatewayError("invalid-request", message, { param: "input" });
    }
    const instructions: Message[] =
      body.instructions === undefined ? [] : [{ role: "system", content: body.instructions }];
    const before = body.previous_response_id === undefined ? [] : historyOf(body.previous_response_id, items);
    const input: Item[] = typeof body.input === "string" ? [textItem(body.input)] : body.input;
    const { shown, others, namespaces } = readTools(body.tools ?? []);
    const choice = readToolChoice(body.tool_choice);
    return requestOf(body, {
      ...checked,
      messages: [...instructions, ...before, ...readItems(input, items)],
      tools: chosenTools(
        shown,
        choice,
        others.flatMap(({ name }) => name ?? []),
      ),
      mayCall: choice.mayCall,
      constraint: constraintIn("responses", raw, choice),
      maxCalls: body.parallel_tool_calls === false ? 1 : null,
      maxTokens: body.max_output_tokens ?? null,
      ignoredTools: others.length,
      namespaces,
      response: { hasInstructions: instructions.length > 0, isStored: body.store ?? true },
      previousResponseId: body.previous_response_id ?? null,
    });
  },
  whole: (answer, request) => JSON.stringify(responseOf(answer, request, answer)),
  stream: (head, request): AnswerStream => new ResponseStream(head, request),
  error: errorBody,
};

/**
 * Tools as the model sees them. The functions of a namespace, such as the tools of an MCP server that
 * Codex uses, are called by both names; `namespaces` takes them apart again.
 */
function readTools(sent: readonly SentTool[]): {
  readonly shown: Tool[];
  readonly others: readonly Pick<SentTool, "name">[];
  readonly namespaces: GatewayRequest["namespaces"];
} {
  const namespaces = new Map<string, { readonly namespace: string; readonly name: string }>();
  const others: Pick<SentTool, "name">[] = [];
  const shown = sent.flatMap(({ tools, ...tool }) => {
    const namespace = tool.type === "namespace" ? tool.name : undefined;
    return (namespace === undefined ? [tool] : (tools ?? [])).flatMap(({ type, name = "", ...rest }) => {
      if (type !== "function" || name === "") {
        others.push({ name });
        return [];
      }
      const whole = wholeName(namespace, name);
      if (namespace !== undefined) namespaces.set(whole, { namespace, name });
      return [makeTool({ ...rest, name: whole })];
    });
  });
  return { shown, others, namespaces };
}

function wholeName(namespace: string | undefined, name: string): string {
  return namespace === undefined ? name : `${namespace}__${name}`;
}

function historyOf(responseId: string, items: SampledItems): readonly Message[] {
  const call = numberIn(responseId, "resp", items.idPrefix)?.call ?? null;
  const known = call === null || items.answer(call)?.isStored !== true ? null : items.history(call);
  if (known === null) {
    throw new GatewayError(
      "invalid-request",
      `Cannot continue response "${responseId}": this session has not stored it; send the whole input instead.`,
      { param: "previous_response_id" },
    );
  }
  // Instructions of an earlier response are not carried over.
  return known.hasInstructions ? known.messages.slice(1) : known.messages;
}

function textItem(text: string): Item {
  return readBody(itemSchema, { role: "user", content: text });
}

function readItems(input: readonly Item[], items: SampledItems): Message[] {
  const messages: Message[] = [];
  const assistant = new AssistantBuilder();
  const close = (): void => {
    const message = assistant.take();
    if (message !== null) messages.push(message);
  };
  const call = (id: string, name: string, argumentsText: string): void => assistant.call({ id, name, argumentsText });
  input.forEach((item, index) => {
    const param = `input.${index}`;
    const type = item.type ?? (item.role === undefined ? "unknown" : "message");
    switch (type) {
      case "message": {
        const content = readText(item.content, `${param}.content`);
        if (item.role === "assistant") return assistant.text(content);
        close();
        return void messages.push({ role: item.role === "user" ? "user" : "system", content });
      }
      case "reasoning":
        return assistant.reasoning(readText(item.summary, `${param}.summary`));
      case "function_call":
        return call(item.call_id ?? "", wholeName(item.namespace, item.name ?? ""), item.arguments ?? "{}");
      case "item_reference": {
        const part = referenced(item.id ?? "", items);
        if (part.type === "call") return call(part.call.id, part.call.name, part.call.argumentsText);
        return part.type === "reasoning" ? assistant.reasoning(part.text) : assistant.text(part.text);
      }
      case "function_call_output": {
        close();
        const content = readText(item.output, `${param}.output`);
        return void messages.push({ role: "tool", content, name: unknownTool, callId: item.call_id ?? null });
      }
      default:
        throw unsupported(`input of type "${type}" cannot be shown to a model of text`, param);
    }
  });
  close();
  return messages;
}

type Referenced =
  | { readonly type: "reasoning" | "content"; readonly text: string }
  | { readonly type: "call"; readonly call: AssistantMessage["toolCalls"][number] };

function referenced(id: string, items: SampledItems): Referenced {
  const kind = id.slice(0, id.indexOf("_"));
  const place = ["rs", "msg", "fc"].includes(kind) ? numberIn(id, kind, items.idPrefix) : null;
  const action = place === null ? null : (items.answer(place.call)?.action ?? null);
  const call = action?.toolCalls[place?.item ?? 0];
  if (action !== null && kind === "rs") return { type: "reasoning", text: action.reasoning ?? "" };
  if (action !== null && kind === "msg") return { type: "content", text: action.content };
  if (call !== undefined && kind === "fc") return { type: "call", call };
  throw new GatewayError(
    "invalid-request",
    `Cannot find item "${id}": this session never returned it; send only ids from its responses.`,
    {
      param: "input",
    },
  );
}

/**
 * Numbers in an id that this gateway assigned: `resp_<prefix>_<call>`, `fc_<prefix>_<call>_<item>`.
 */
function numberIn(id: string, kind: string, prefix: string): { readonly call: number; readonly item: number } | null {
  const start = `${kind}_${prefix}_`;
  const match = id.startsWith(start) ? /^(\d{1,9})(?:_(\d{1,4}))?$/.exec(id.slice(start.length)) : null;
  return match === null ? null : { call: Number(match[1]), item: Number(match[2] ?? 0) };
}

type OutputItem = { readonly id: string; readonly type: "reasoning" | "message" | "function_call" };

function reasoningItem(head: AnswerHead, text: string): OutputItem {
  const fields = { summary: text === "" ? [] : [{ type: "summary_text", text }] };
  return Object.assign({ id: `rs_${head.idPrefix}_${head.call}`, type: "reasoning" as const }, fields);
}

function messageItem(head: AnswerHead, status: string, text: string | null): OutputItem {
  const fields = { status, role: "assistant", content: text === null ? [] : [textPart(text)] };
  return Object.assign({ id: `msg_${head.idPrefix}_${head.call}`, type: "message" as const }, fields);
}

function textPart(text: string): object {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

function callItems(
  { action, idPrefix, call: number }: GatewayAnswer,
  { namespaces }: GatewayRequest,
): (OutputItem & { readonly arguments: string })[] {
  return action.toolCalls.map(({ id, name, argumentsText }, place) => ({
    id: `fc_${idPrefix}_${number}_${place}`,
    type: "function_call",
    status: "completed",
    call_id: id,
    name,
    ...namespaces.get(name),
    arguments: argumentsText,
  }));
}

function outputOf(answer: GatewayAnswer, request: GatewayRequest): OutputItem[] {
  const { reasoning, content } = answer.action;
  return [
    ...(reasoning === null || reasoning === "" ? [] : [reasoningItem(answer, reasoning)]),
    // An empty answer still gets an item, so that the client echoes it.
    ...(content === "" && answer.action.toolCalls.length > 0 ? [] : [messageItem(answer, "completed", content)]),
    ...callItems(answer, request),
  ];
}

function responseOf(head: AnswerHead, request: GatewayRequest, answer: GatewayAnswer | null): object {
  const isCut = answer !== null && endingOf(answer) === "length";
  return {
    id: `resp_${head.idPrefix}_${head.call}`,
    object: "response",
    created_at: head.createdAt,
    status: answer === null ? "in_progress" : isCut ? "incomplete" : "completed",
    error: null,
    incomplete_details: isCut ? { reason: "max_output_tokens" } : null,
    instructions: null,
    max_output_tokens: request.maxTokens,
    model: request.model,
    output: answer === null ? [] : outputOf(answer, request),
    parallel_tool_calls: request.maxCalls === null,
    previous_response_id: request.previousResponseId,
    reasoning: { effort: null, summary: null },
    store: request.response?.isStored ?? true,
    temperature: 1,
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: [],
    top_p: 1,
    truncation: "disabled",
    usage: answer === null ? null : usageOf(answer),
    metadata: {},
  };
}

/** Input tokens include the cached ones. */
function usageOf({ usage }: GatewayAnswer): unknown {
  return {
    input_tokens: usage.promptTokens,
    input_tokens_details: { cached_tokens: usage.cachedTokens ?? 0 },
    output_tokens: usage.sampledTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: usage.promptTokens + usage.sampledTokens,
  };
}

class ResponseStream implements AnswerStream {
  readonly #head: AnswerHead;
  readonly #request: GatewayRequest;
  #sequence = 0;
  #hasContent = false;
  #index = -1;
  #open: { readonly type: "reasoning" | "content"; text: string } | null = null;

  constructor(head: AnswerHead, request: GatewayRequest) {
    this.#head = head;
    this.#request = request;
  }

  start(): string {
    const response = responseOf(this.#head, this.#request, null);
    return this.#event("response.created", { response }) + this.#event("response.in_progress", { response });
  }

  delta({ type, text }: { readonly type: "reasoning" | "content"; readonly text: string }): string {
    let out = "";
    if (this.#open?.type !== type) {
      out = this.#closeOpen() + this.#begin(type);
      this.#hasContent ||= type === "content";
      this.#open = { type, text: "" };
    }
    this.#open.text += text;
    return (
      out +
      this.#event(type === "reasoning" ? summaryDelta : textDelta, {
        ...this.#place(type),
        delta: text,
        ...logprobsOf(type),
      })
    );
  }

  end(answer: GatewayAnswer): { readonly rest: string; readonly terminal: string } {
    let rest = this.#closeOpen();
    if (!this.#hasContent && answer.action.toolCalls.length === 0)
      rest += this.delta({ type: "content", text: "" }) + this.#closeOpen();
    for (const item of callItems(answer, this.#request)) {
      this.#index++;
      const place = { item_id: item.id, output_index: this.#index };
      rest += this.#event("response.output_item.added", {
        output_index: this.#index,
        item: { ...item, status: "in_progress", arguments: "" },
      });
      rest += this.#event("response.function_call_arguments.delta", { ...place, delta: item.arguments });
      rest += this.#event("response.function_call_arguments.done", { ...place, arguments: item.arguments });
      rest += this.#event("response.output_item.done", { output_index: this.#index, item });
    }
    const response = responseOf(this.#head, this.#request, answer);
    const type = endingOf(answer) === "length" ? "response.incomplete" : "response.completed";
    return { rest, terminal: this.#event(type, { response }) };
  }

  error(error: GatewayError): string {
    const { error: body } = errorBody(error) as { readonly error: { readonly code: string; readonly message: string } };
    const response = responseOf(this.#head, this.#request, null);
    const failed = { ...response, status: "failed", error: { code: body.code, message: body.message } };
    return this.#event("response.failed", { response: failed });
  }

  #event(type: string, fields: object): string {
    return sse({ type, sequence_number: this.#sequence++, ...fields }, type);
  }

  #place(type: "reasoning" | "content"): object {
    const id = `${type === "reasoning" ? "rs" : "msg"}_${this.#head.idPrefix}_${this.#head.call}`;
    const place = { item_id: id, output_index: this.#index };
    return type === "reasoning" ? { ...place, summary_index: 0 } : { ...place, content_index: 0 };
  }

  #begin(type: "reasoning" | "content"): string {
    this.#index++;
    const item = type === "reasoning" ? reasoningItem(this.#head, "") : messageItem(this.#head, "in_progress", null);
    const added = this.#event("response.output_item.added", { output_index: this.#index, item });
    const part = type === "reasoning" ? { type: "summary_text", text: "" } : textPart("");
    const name = type === "reasoning" ? "response.reasoning_summary_part.added" : "response.content_part.added";
    return added + this.#event(name, { ...this.#place(type), part });
  }

  #closeOpen(): string {
    if (this.#open === null) return "";
    const { type, text } = this.#open;
    const place = this.#place(type);
    this.#open = null;
    const isText = type === "content";
    const item = isText ? messageItem(this.#head, "completed", text) : reasoningItem(this.#head, text);
    const part = isText ? textPart(text) : { type: "summary_text", text };
    return (
      this.#event(isText ? "response.output_text.done" : "response.reasoning_summary_text.done", {
        ...place,
        text,
        ...logprobsOf(type),
      }) +
      this.#event(isText ? "response.content_part.done" : "response.reasoning_summary_part.done", { ...place, part }) +
      this.#event("response.output_item.done", { output_index: this.#index, item })
    );
  }
}

const summaryDelta = "response.reasoning_summary_text.delta";
const textDelta = "response.output_text.delta";

function logprobsOf(type: "reasoning" | "content"): object {
  return type === "content" ? { logprobs: [] } : {};
}
