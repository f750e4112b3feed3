// Parses answers of models behind APIs, in each of their wire formats, into one form. Parsing is
// lenient: missing fields are empty, and a part without text becomes its type in brackets. Streams
// are assembled in `wire-stream.ts`.

import {
  dumpJson,
  JsonFloat,
  type JsonObject,
  JsonSyntaxError,
  type JsonValue,
  parseJson,
} from "../python-semantics/json/index.ts";
import type { ChatReply, ChatToolCall } from "./chat-model.ts";

/** OpenAI's Chat Completions, Responses and Completions, and Anthropic's Messages. */
export const wireFormats = ["chat", "messages", "responses", "completions"] as const;
export type WireFormat = (typeof wireFormats)[number];

/** The answer of a model, with the token counts of its server. */
export type WireAnswer = Omit<ChatReply, "usage"> & {
  /** Token counts reported by the server; `null` if it reports none. */
  readonly tokens: { readonly input: number | null; readonly output: number | null };
  /** The id by which later requests refer to this answer; `null` if the server sent none. */
  readonly id: string | null;
  /** Parts of the answer by the ids by which later requests may refer to them (Responses). */
  readonly items: ReadonlyMap<string, JsonObject>;
};

export type Field = JsonValue | undefined;

/**
 * Parses a whole answer. `unreadable` creates the error for an invalid answer, from a text that
 * continues "its answer ..."; `refused` creates the error for a status in the body, because some
 * gateways put the status of the upstream server into a 200.
 */
export function readWireText(
  format: WireFormat,
  text: string,
  fail: { readonly refused: (status: number) => Error; readonly unreadable: (problem: string) => Error },
): WireAnswer {
  const parsed = jsonIn(text);
  if (parsed === undefined) throw fail.unreadable("is not JSON");
  const answer = asObject(parsed);
  const fault = answer.get("error") ?? null;
  if (fault !== null) {
    const status = asObject(fault).get("code");
    const isStatus = typeof status === "number" && status >= 400 && status < 600;
    throw isStatus ? fail.refused(status) : fail.unreadable("is an error");
  }
  const read = readWireAnswer(format, answer);
  if (read === null) throw fail.unreadable(`has no ${essentials[format]}`);
  return read;
}

/** The required field of an answer in each format, for messages. */
const essentials: Readonly<Record<WireFormat, string>> = {
  chat: '"choices[0].message"',
  completions: '"choices[0].text"',
  messages: '"content"',
  responses: '"output"',
};

/** `undefined` if the text is not JSON. */
export function jsonIn(text: string): JsonValue | undefined {
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return undefined;
    throw error;
  }
}

/** `null` if the object is not an answer of this format. */
export function readWireAnswer(format: WireFormat, answer: JsonObject): WireAnswer | null {
  return readers[format](answer);
}

const readers: Readonly<Record<WireFormat, (answer: JsonObject) => WireAnswer | null>> = {
  chat: (answer) => {
    const choice = asObject(asList(answer.get("choices"))[0]);
    const message = choice.get("message");
    if (!(message instanceof Map)) return null;
    return {
      ...identityOf(answer),
      text: textOf(message.get("content")),
      reasoning: reasoningOf(message),
      toolCalls: asList(message.get("tool_calls")).map(readCall),
      isTruncated: choice.get("finish_reason") === "length",
      tokens: tokensOf(answer, ["prompt_tokens"], "completion_tokens"),
    };
  },
  completions: (answer) => {
    const choice = asObject(asList(answer.get("choices"))[0]);
    const text = choice.get("text");
    if (typeof text !== "string") return null;
    return {
      ...identityOf(answer),
      text,
      reasoning: null,
      toolCalls: [],
      isTruncated: choice.get("finish_reason") === "length",
      tokens: tokensOf(answer, ["prompt_tokens"], "completion_tokens"),
    };
  },
  messages: (answer) => {
    const content = answer.get("content");
    if (!Array.isArray(content)) return null;
    const parts = new Parts();
    for (const block of content.map(asObject)) {
      const type = block.get("type");
      if (type === "text") parts.text(block.get("text"));
      else if (type === "thinking") parts.reasoning(block.get("thinking"));
      else if (type === "tool_use") parts.call(block.get("id"), block.get("name"), block.get("input"));
      // Redacted thinking has no text.
      else if (type !== "redacted_thinking") parts.text(standIn(type));
    }
    const stopReason = answer.get("stop_reason");
    const read = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    return {
      ...identityOf(answer),
      ...parts.taken(),
      isTruncated: stopReason === "max_tokens" || stopReason === "model_context_window_exceeded",
      tokens: tokensOf(answer, read, "output_tokens"),
    };
  },
  responses: (answer) => {
    const output = answer.get("output");
    if (!Array.isArray(output)) return null;
    const parts = new Parts();
    const items = new Map<string, JsonObject>();
    for (const item of output.map(asObject)) {
      const [type, id] = [item.get("type"), item.get("id")];
      if (typeof id === "string") items.set(id, item);
      if (type === "message") parts.text(linesOf(item.get("content")));
      else if (type === "reasoning") parts.reasoning(linesOf(item.get("summary")) || linesOf(item.get("content")));
      else if (type === "function_call") parts.call(item.get("call_id"), item.get("name"), item.get("arguments"));
      else if (type === "custom_tool_call") {
        const given = new Map([["input", item.get("input") ?? null]]);
        parts.call(item.get("call_id"), item.get("name"), given);
      } else parts.text(standIn(type));
    }
    return {
      ...identityOf(answer),
      ...parts.taken(),
      items,
      isTruncated: answer.get("status") === "incomplete",
      tokens: tokensOf(answer, ["input_tokens"], "output_tokens"),
    };
  },
};

/** The placeholder of a part without text in conversations. */
export function standIn(type: unknown): string {
  return `[${typeof type === "string" ? type.slice(0, 60) : "unknown"}]`;
}

/**
 * The parts of an answer, joined like the gateway's dialects join them when the answer comes back
 * in a request.
 */
class Parts {
  readonly #texts: string[] = [];
  readonly #reasoning: string[] = [];
  readonly #calls: ChatToolCall[] = [];

  text(text: Field): void {
    if (typeof text === "string" && text !== "") this.#texts.push(text);
  }

  reasoning(text: Field): void {
    if (typeof text === "string" && text !== "") this.#reasoning.push(text);
  }

  call(id: Field, name: Field, given: Field): void {
    this.#calls.push(toolCall(id, name, given));
  }

  taken(): Pick<WireAnswer, "text" | "reasoning" | "toolCalls"> {
    return {
      text: this.#texts.join("\n"),
      reasoning: this.#reasoning.length === 0 ? null : this.#reasoning.join("\n"),
      toolCalls: this.#calls,
    };
  }
}

function identityOf(answer: JsonObject): Pick<WireAnswer, "id" | "items"> {
  const id = answer.get("id");
  return { id: typeof id === "string" && id !== "" ? id : null, items: new Map() };
}

/**
 * Reads token counts. `read` lists the fields that add up to the input, `written` is the field of
 * the output.
 */
function tokensOf(answer: JsonObject, read: readonly string[], written: string): WireAnswer["tokens"] {
  const usage = asObject(answer.get("usage"));
  const counts = read.map((name) => asCount(usage.get(name))).filter((count) => count !== null);
  return {
    input: counts.length === 0 ? null : counts.reduce((sum, count) => sum + count, 0),
    output: asCount(usage.get(written)),
  };
}

/**
 * The text of a message's content: a string, or the text parts of a list; "" if there are none (a
 * refusal, an empty reply).
 */
export function textOf(content: Field): string {
  return typeof content === "string"
    ? content
    : partsOf(content, (type) => type === null || /^(output_)?text$/.test(type));
}

/** The text of the parts with matching types. Mistral's thinking is itself a list. */
function partsOf(content: Field, isRight: (type: string | null) => boolean): string {
  const texts = asList(content).map((one) => {
    const part = asObject(one);
    const type = part.get("type") ?? null;
    if (type !== null && typeof type !== "string") return "";
    if (!isRight(type)) return "";
    const said = part.get("text") ?? part.get("thinking") ?? part.get("reasoning") ?? part.get("summary");
    return typeof said === "string" ? said : partsOf(said, () => true);
  });
  return texts.join("");
}

/** The parts of a message's content, one per line. */
function linesOf(content: Field): string {
  return asList(content)
    .map(asObject)
    .map((part) => part.get("text") ?? part.get("refusal"))
    .filter((text) => typeof text === "string")
    .join("\n");
}

/**
 * The reasoning of a message; `null` if there is none. vLLM, SGLang and DeepSeek send
 * `reasoning_content`, OpenRouter `reasoning` or `reasoning_details`, Ollama `thinking`; others use
 * parts of the content.
 */
export function reasoningOf(message: JsonObject): string | null {
  for (const name of ["reasoning_content", "reasoning", "thinking"]) {
    const text = message.get(name);
    if (typeof text === "string" && text !== "") return text;
  }
  const isThought = (type: string | null): boolean => type !== null && /think|thought|reason/.test(type);
  const text = partsOf(message.get("reasoning_details"), () => true) || partsOf(message.get("content"), isThought);
  return text === "" ? null : text;
}

function readCall(call: JsonValue): ChatToolCall {
  const body = asObject(asObject(call).get("function"));
  return toolCall(asObject(call).get("id"), body.get("name"), body.get("arguments"));
}

function toolCall(id: Field, name: Field, given: Field): ChatToolCall {
  const text = typeof given === "string" ? given : dumpJson(given ?? new Map());
  return {
    id: typeof id === "string" && id !== "" ? id : null,
    name: typeof name === "string" ? name : "",
    // Servers send an empty string for a tool without arguments.
    argumentsText: text === "" ? "{}" : text,
  };
}

export function asObject(value: Field): JsonObject {
  return value instanceof Map ? value : new Map();
}

export function asList(value: Field): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}

function asCount(value: Field): number | null {
  const count = value instanceof JsonFloat ? value.value : value;
  return typeof count === "number" && Number.isFinite(count) && count >= 0 ? count : null;
}
