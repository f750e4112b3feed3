// A request to an API model: the fields that are changed in its body, and the text for the record.
// The rest of the body stays as its program wrote it, including fields that are not named here. The
// record is text, so parts without text are represented by their kind.

import { type ChatSampling, standIn, type WireFormat } from "../../chat-models/index.ts";
import {
  dumpJson,
  fromPlain,
  type JsonObject,
  JsonSyntaxError,
  type JsonValue,
  parseJson,
} from "../../python-semantics/json/index.ts";
import { finish } from "../../lib/steps.ts";
import { readLists } from "../dialects/fields.ts";
import { type Dialect, GatewayError, type GatewayRequest, type SampledItems } from "../request.ts";

/** Changes to a body. */
export type BodyChanges = {
  /** Model that replaces the one in the request; `null` to keep the program's. */
  readonly model: string | null;
  /** Sampling parameters that replace the program's. */
  readonly sampling: ChatSampling;
  readonly seed: number | null;
  readonly extraBody: Readonly<Record<string, unknown>>;
};

export type ForwardedBody = {
  /** Body as JSON text. */
  readonly text: string;
  readonly model: string;
  readonly isStreamed: boolean;
  /** True if the program did not request the event with the token counts. */
  readonly hidesUsage: boolean;
};

/** Names of the limit on an answer's tokens; the first is the one that is written. */
const capNames: Readonly<Record<WireFormat, readonly [string, ...string[]]>> = {
  chat: ["max_tokens", "max_completion_tokens"],
  messages: ["max_tokens"],
  responses: ["max_output_tokens"],
  completions: ["max_tokens"],
};

/** A dialect that APIs may speak themselves. */
export type WireDialect = Dialect & { readonly name: WireFormat };

export function isWireDialect(dialect: Dialect): dialect is WireDialect {
  return Object.hasOwn(capNames, dialect.name);
}

/**
 * The body to forward. Throws a `GatewayError` for a request that would not lead to exactly one
 * answer.
 */
export function forwardedBody(format: WireFormat, text: string, changes: BodyChanges): ForwardedBody {
  const body = readObject(text);
  const several = body.get("n") ?? 1;
  if (several !== 1) throw refusal("n is more than 1; one answer is recorded a call", "n");
  if (body.get("background") === true)
    throw refusal("background responses are not stored; remove background", "background");
  const { temperature, topP, maxNewTokens } = changes.sampling;
  const set = (name: string, value: unknown): void => void body.set(name, fromPlain(value));
  if (changes.model !== null) set("model", changes.model);
  if (temperature !== undefined) set("temperature", temperature);
  if (topP !== undefined) set("top_p", topP);
  if (changes.seed !== null && (format === "chat" || format === "completions")) set("seed", changes.seed);
  if (maxNewTokens !== undefined) {
    const name = capNames[format].find((one) => (body.get(one) ?? null) !== null) ?? capNames[format][0];
    const said = body.get(name);
    set(name, typeof said === "number" ? Math.min(said, maxNewTokens) : maxNewTokens);
  }
  for (const [name, value] of Object.entries(changes.extraBody)) set(name, value);
  const isStreamed = body.get("stream") === true;
  // Without this option these streams do not report their usage.
  const counts = isStreamed && (format === "chat" || format === "completions");
  const options = body.get("stream_options");
  const hidesUsage = counts && !(options instanceof Map && options.get("include_usage") === true);
  if (hidesUsage)
    body.set("stream_options", new Map([...(options instanceof Map ? options : []), ["include_usage", true]]));
  const model = body.get("model");
  return { text: dumpJson(body), model: typeof model === "string" ? model : "", isStreamed, hidesUsage };
}

function readObject(text: string): JsonObject {
  try {
    const value = parseJson(text);
    if (value instanceof Map) return new Map(value);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
  }
  throw new GatewayError("invalid-request", "Cannot read the request: its body is not a JSON object.");
}

function refusal(what: string, param: string): GatewayError {
  return new GatewayError("unsupported", `Cannot forward the request: ${what}.`, { param });
}

/** Messages and tools of a request, for its record. */
export type ShownRequest = Pick<GatewayRequest, "messages" | "tools" | "response">;

/** Answers of the API in this session, by the names that the API assigned. */
export interface NamedAnswers extends SampledItems {
  /** The call that this response answered; `null` if it is not of this session. */
  callOf(responseId: string): number | null;
  /** The item with this id; `null` if no answer of this session had it. */
  itemOf(itemId: string): unknown;
}

/**
 * Request for the record. Never throws for the program's content: a conversation that cannot be
 * parsed is recorded as it was sent.
 */
export function shownRequest(dialect: WireDialect, body: unknown, answers: NamedAnswers): ShownRequest {
  const fields = isRecord(body) ? body : {};
  if (dialect.name === "completions") return asText(fields["prompt"]);
  try {
    return dialect.read(finish(readLists(readable[dialect.name](fields, answers), dialect.lists)), answers);
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return asText(fields["messages"] ?? fields["input"] ?? null);
  }
}

function asText(value: unknown): ShownRequest {
  const content = typeof value === "string" ? value : dumpJson(fromPlain(value) satisfies JsonValue);
  return { messages: [{ role: "user", content }], tools: [], response: null };
}

type Fields = Readonly<Record<string, unknown>>;

/** Fields for the record, with parts without text replaced; switches of the API are excluded. */
const readable: Readonly<
  Record<Exclude<WireFormat, "completions">, (body: Fields, answers: NamedAnswers) => Record<string, unknown>>
> = {
  chat: ({ messages, tools }) => ({
    messages: list(messages).map((message) => {
      const shown = { ...message, content: textParts(message["content"]) };
      // The message format that preceded tools.
      return message["role"] === "function" ? { ...shown, role: "tool", tool_call_id: String(message["name"]) } : shown;
    }),
    tools,
  }),
  messages: ({ system, messages, tools }) => ({
    system: textParts(system),
    messages: list(messages).map((message) => ({ ...message, content: blocks(message["content"]) })),
    tools,
  }),
  responses: ({ instructions, input, tools, store, previous_response_id: previous }, answers) => {
    const call = typeof previous === "string" ? answers.callOf(previous) : null;
    return {
      instructions,
      tools,
      store,
      input: Array.isArray(input) ? list(input).map((item) => inputItem(item, answers)) : input,
      // The id in the format of our own dialect.
      ...(call === null ? {} : { previous_response_id: `resp_${answers.idPrefix}_${call}` }),
    };
  },
};

function list(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map((one: unknown) => (isRecord(one) ? one : {})) : [];
}

const textTypes = new Set(["text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text"]);
const blockTypes = new Set(["thinking", "redacted_thinking", "tool_use"]);

function textParts(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  return list(content).map((part) =>
    textTypes.has(String(part["type"])) ? part : { type: "text", text: standIn(part["type"]) },
  );
}

function blocks(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  return list(content).map((block) => {
    const type = String(block["type"]);
    if (type === "tool_result") return { ...block, content: textParts(block["content"]) };
    return textTypes.has(type) || blockTypes.has(type) ? block : { type: "text", text: standIn(type) };
  });
}

function inputItem(item: Fields, answers: NamedAnswers): Fields {
  const given = item["type"] ?? (item["role"] === undefined ? "unknown" : "message");
  const type = typeof given === "string" ? given : "unknown";
  const { call_id, name, id } = item;
  switch (type) {
    case "message":
      return { ...item, content: textParts(item["content"]) };
    case "reasoning":
      return { ...item, summary: textParts(item["summary"] ?? []) };
    case "function_call":
      return item;
    case "custom_tool_call":
      return { type: "function_call", call_id, name, arguments: JSON.stringify({ input: item["input"] }) };
    case "function_call_output":
    case "custom_tool_call_output":
      return { type: "function_call_output", call_id, output: textParts(item["output"]) };
    case "item_reference": {
      const named = answers.itemOf(String(id));
      if (isRecord(named) && named["type"] !== "item_reference") return inputItem(named, answers);
      return { role: "assistant", content: standIn(type) };
    }
    default:
      return { role: type.endsWith("_output") ? "user" : "assistant", content: standIn(type) };
  }
}

function isRecord(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
