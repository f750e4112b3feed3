// Reads the body of an OpenAI-compatible chat completion. Servers differ in what they leave out; nothing here throws.
// Read losslessly, since some servers send the arguments of a call as an object instead of its text.

import {
  dumpJson,
  type JsonObject,
  JsonFloat,
  JsonSyntaxError,
  type JsonValue,
  parseJson,
} from "../python-semantics/json/index.ts";
import type { ChatReply, ChatToolCall } from "./chat-model.ts";

/** `null`: the server did not say. */
export type ReportedTokens = { readonly input: number | null; readonly output: number | null };

export type Completion =
  | { readonly type: "reply"; readonly reply: Omit<ChatReply, "usage">; readonly tokens: ReportedTokens }
  /** Some gateways answer 200 and put the status of the server behind them into the body. */
  | { readonly type: "refused"; readonly status: number }
  /** `problem` continues "its answer ...". */
  | { readonly type: "unreadable"; readonly problem: string };

type Field = JsonValue | undefined;

export function readCompletion(body: string): Completion {
  let value: JsonValue;
  try {
    value = parseJson(body);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    return { type: "unreadable", problem: "is not JSON" };
  }
  const answer = asObject(value);
  const fault = answer.get("error") ?? null;
  if (fault !== null) {
    const status = asObject(fault).get("code");
    if (typeof status === "number" && status >= 400 && status < 600) return { type: "refused", status };
    return { type: "unreadable", problem: "is an error" };
  }
  const choice = asObject(asList(answer.get("choices"))[0]);
  const message = choice.get("message");
  if (!(message instanceof Map)) return { type: "unreadable", problem: 'has no "choices[0].message"' };
  const usage = asObject(answer.get("usage"));
  return {
    type: "reply",
    reply: {
      text: textOf(message.get("content")),
      reasoning: reasoningOf(message),
      toolCalls: asList(message.get("tool_calls")).map(readCall),
      isCutOff: choice.get("finish_reason") === "length",
    },
    tokens: { input: asCount(usage.get("prompt_tokens")), output: asCount(usage.get("completion_tokens")) },
  };
}

/** The words of a content: a string, or the text parts of a list; "" when there are none (a refusal, an empty reply). */
function textOf(content: Field): string {
  if (typeof content === "string") return content;
  return asList(content)
    .map((part) => asObject(part).get("text"))
    .filter((text) => typeof text === "string")
    .join("");
}

/** vLLM, SGLang and DeepSeek say `reasoning_content`, OpenRouter says `reasoning`. */
function reasoningOf(message: JsonObject): string | null {
  for (const name of ["reasoning_content", "reasoning"]) {
    const text = message.get(name);
    if (typeof text === "string" && text !== "") return text;
  }
  return null;
}

function readCall(call: JsonValue): ChatToolCall {
  const body = asObject(asObject(call).get("function"));
  const [id, name] = [asObject(call).get("id"), body.get("name")];
  const given = body.get("arguments") ?? "";
  const text = typeof given === "string" ? given : dumpJson(given);
  return {
    id: typeof id === "string" && id !== "" ? id : null,
    name: typeof name === "string" ? name : "",
    // Servers write nothing for a tool without arguments.
    argumentsText: text === "" ? "{}" : text,
  };
}

function asObject(value: Field): JsonObject {
  return value instanceof Map ? value : new Map();
}

function asList(value: Field): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}

function asCount(value: Field): number | null {
  const count = value instanceof JsonFloat ? value.value : value;
  return typeof count === "number" && Number.isFinite(count) && count >= 0 ? count : null;
}
