// A request on its way to an API model: the fields that are set in its body, and the text that its record shows. The body stays as its
// program wrote it, every field that is not named here included; the record is text, so parts that have none stand as their kind.

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
  /** The model in place of the one that the program names; `null`: the program's. */
  readonly model: string | null;
  /** Sampling in place of the program's. */
  readonly sampling: ChatSampling;
  readonly seed: number | null;
  readonly extraBody: Readonly<Record<string, unknown>>;
};

export type ForwardedBody = {
  /** JSON. */
  readonly text: string;
  readonly model: string;
  readonly isStreamed: boolean;
  /** The program did not ask for the event that counts tokens. */
  readonly hidesUsage: boolean;
};

/** Names of the cap on an answer's tokens, the one that is written first. */
const capNames: Readonly<Record<WireFormat, readonly [string, ...string[]]>> = {
  chat: ["max_tokens", "max_completion_tokens"],
  messages: ["max_tokens"],
  responses: ["max_output_tokens"],
  completions: ["max_tokens"],
};

/** The body that goes on. Throws a `GatewayError` for what would not end with one answer. */
export function forwardedBody(format: WireFormat, text: string, changes: BodyChanges): ForwardedBody {
  const body = readObject(text);
  const several = body.get("n") ?? 1;
  if (several !== 1) throw refusal("n is more than 1; one answer is recorded a call", "n");
  if (body.get("background") === true)
    throw refusal("background responses are not kept; leave background out", "background");
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
  // Without it these streams do not say what they cost.
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

/** Messages and tools of a request, as its record shows them. */
export type ShownRequest = Pick<GatewayRequest, "messages" | "tools" | "response">;

/** Answers of the API in this session, by the names that the API gave them. */
export interface NamedAnswers extends SampledItems {
  /** The call that was answered with this response; `null`: none of this session. */
  callOf(responseId: string): number | null;
  /** `null`: no answer of this session had it. */
  itemOf(itemId: string): unknown;
}

/** Never throws for what a program wrote: a conversation that cannot be read stands in the record as it was sent. */
export function shownRequest(dialect: Dialect, body: unknown, answers: NamedAnswers): ShownRequest {
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

/** The fields that a record shows, with parts without text replaced; switches of the API are not among them. */
const readable: Readonly<
  Record<Exclude<WireFormat, "completions">, (body: Fields, answers: NamedAnswers) => Record<string, unknown>>
> = {
  chat: ({ messages, tools }) => ({
    messages: list(messages).map((message) => {
      const shown = { ...message, content: textParts(message["content"]) };
      // The form before tools.
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
      // Under the name that our own dialect gives it.
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
