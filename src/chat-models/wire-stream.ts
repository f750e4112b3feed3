// Streamed answers of models behind APIs: split into events, which can be forwarded unchanged, and
// assembled into the whole answer. Data of an event that is not part of the answer (annotations,
// signatures, progress) is forwarded but not kept.

import { type JsonObject, type JsonValue } from "../python-semantics/json/index.ts";
import {
  asList,
  asObject,
  type Field,
  jsonIn,
  readWireAnswer,
  reasoningOf,
  textOf,
  type WireAnswer,
  type WireFormat,
} from "./wire-answer.ts";

/** An unchanged event, its blank line included, and the data in it. */
export type WireEvent = { readonly raw: string; readonly data: string };

/** Maximum number of characters of an event; a server that exceeds it never ends the event. */
const longestEvent = 64 * 1024 * 1024;

/**
 * Splits a stream into events; comments are events without data. Rejects like `chunks`, and for an
 * event without an end.
 */
export async function* splitEvents(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<WireEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  /**
   * Position at which the search for the end of the event resumes; the text before it contains
   * none.
   */
  let from = 0;
  for await (const chunk of chunks) {
    rest += decoder.decode(chunk, { stream: true });
    for (;;) {
      const end = endOfEvent(rest, from);
      if (end === null) break;
      yield eventOf(rest.slice(0, end));
      rest = rest.slice(end);
      from = 0;
    }
    from = Math.max(0, rest.length - 3);
    if (rest.length > longestEvent) throw new RangeError(`an event has more than ${longestEvent} characters`);
  }
  rest += decoder.decode();
  // Some servers omit the last blank line.
  if (rest.trim() !== "") yield eventOf(`${rest.trimEnd()}\n\n`);
}

function endOfEvent(text: string, from: number): number | null {
  const blank = /\r\n\r\n|\n\n|\r\r|\n\r\n/g;
  blank.lastIndex = from;
  return blank.exec(text) === null ? null : blank.lastIndex;
}

function eventOf(raw: string): WireEvent {
  const lines = raw.split(/\r\n|\n|\r/).flatMap((line) => (line.startsWith("data:") ? [line.slice(5)] : []));
  return { raw, data: lines.map((line) => (line.startsWith(" ") ? line.slice(1) : line)).join("\n") };
}

/** The meaning of an event for the code that forwards it. */
export type EventKind =
  /** The answer is complete. */
  | "terminal"
  /** The event only counts tokens; it is for clients that requested it. */
  | "usage"
  | "part";

/** Assembles a streamed answer. Single use. */
export class WireStream {
  readonly #format: WireFormat;
  readonly #parts: StreamParts;

  constructor(format: WireFormat) {
    this.#format = format;
    this.#parts = new makers[format]();
  }

  /**
   * Reads the data of an event. Throws a plain error for an event that reports a failure of the
   * server.
   */
  take(data: string): EventKind {
    if (data === "") return "part";
    if (data.trim() === "[DONE]") return "terminal";
    const event = asObject(jsonIn(data));
    const fault = event.get("error") ?? null;
    if (fault !== null || event.get("type") === "error") throw new Error(faultText(fault ?? event));
    return this.#parts.take(event);
  }

  /** True once the model has finished, even if the stream has no final event. */
  get isWhole(): boolean {
    return this.#parts.isWhole;
  }

  /** The answer so far; `null` if none of it has arrived. */
  answer(): WireAnswer | null {
    const whole = this.#parts.whole();
    return whole === null ? null : readWireAnswer(this.#format, whole);
  }
}

function faultText(fault: JsonValue): string {
  const message = asObject(fault).get("message");
  return typeof message === "string" ? message : "the server reports an error";
}

interface StreamParts {
  readonly isWhole: boolean;
  take(event: JsonObject): EventKind;
  /** The object that the server would have sent without streaming. */
  whole(): JsonObject | null;
}

/** Chunks of a chat completion; only the first choice is used. */
class ChatParts implements StreamParts {
  readonly #texts = { content: "", reasoning_content: "" };
  readonly #calls = new Map<number, { id: string; name: string; text: string }>();
  #id: Field = null;
  #finish: Field = null;
  #usage: Field = null;
  #hasBegun = false;

  get isWhole(): boolean {
    return this.#finish !== null;
  }

  take(event: JsonObject): EventKind {
    this.#id ??= event.get("id") ?? null;
    const usage = event.get("usage") ?? null;
    if (usage !== null) this.#usage = usage;
    const choices = asList(event.get("choices"));
    if (choices.length === 0) return usage === null ? "part" : "usage";
    const choice = choices.map(asObject).find((one) => (one.get("index") ?? 0) === 0);
    if (choice === undefined) return "part";
    this.#hasBegun = true;
    this.#finish = choice.get("finish_reason") ?? this.#finish;
    const delta = asObject(choice.get("delta"));
    this.#texts.content += textOf(delta.get("content"));
    this.#texts.reasoning_content += reasoningOf(delta) ?? "";
    for (const [place, call] of asList(delta.get("tool_calls")).map(asObject).entries()) {
      const index = Number(call.get("index") ?? place);
      const known = this.#calls.get(index) ?? { id: "", name: "", text: "" };
      const body = asObject(call.get("function"));
      known.id ||= textIn(call.get("id"));
      known.name ||= textIn(body.get("name"));
      known.text += textIn(body.get("arguments"));
      this.#calls.set(index, known);
    }
    return "part";
  }

  whole(): JsonObject | null {
    if (!this.#hasBegun) return null;
    const calls = [...this.#calls.values()].map(({ id, name, text }) =>
      object({ id, function: object({ name, arguments: text }) }),
    );
    const message = object({ ...this.#texts, tool_calls: calls });
    const choice = object({ message, finish_reason: this.#finish ?? null });
    return object({ id: this.#id ?? null, choices: [choice], usage: this.#usage ?? null });
  }
}

class CompletionParts implements StreamParts {
  #text = "";
  #finish: Field = null;
  #usage: Field = null;
  #hasBegun = false;

  get isWhole(): boolean {
    return this.#finish !== null;
  }

  take(event: JsonObject): EventKind {
    const usage = event.get("usage") ?? null;
    if (usage !== null) this.#usage = usage;
    const [choice] = asList(event.get("choices")).map(asObject);
    if (choice === undefined) return usage === null ? "part" : "usage";
    this.#hasBegun = true;
    this.#text += textIn(choice.get("text"));
    this.#finish = choice.get("finish_reason") ?? this.#finish;
    return "part";
  }

  whole(): JsonObject | null {
    if (!this.#hasBegun) return null;
    const choice = object({ text: this.#text, finish_reason: this.#finish ?? null });
    return object({ choices: [choice], usage: this.#usage ?? null });
  }
}

class MessageParts implements StreamParts {
  readonly #blocks = new Map<number, { readonly block: JsonObject; json: string }>();
  #message: JsonObject | null = null;
  #usage = new Map<string, JsonValue>();
  isWhole = false;

  take(event: JsonObject): EventKind {
    const index = Number(event.get("index") ?? 0);
    switch (event.get("type")) {
      case "message_start":
        this.#message = new Map(asObject(event.get("message")));
        this.#usage = new Map(asObject(this.#message.get("usage")));
        break;
      case "content_block_start":
        this.#blocks.set(index, { block: new Map(asObject(event.get("content_block"))), json: "" });
        break;
      case "content_block_delta": {
        const known = this.#blocks.get(index);
        const delta = asObject(event.get("delta"));
        if (known === undefined) break;
        for (const name of ["text", "thinking"]) {
          const text = textIn(delta.get(name));
          if (text !== "") known.block.set(name, textIn(known.block.get(name)) + text);
        }
        known.json += textIn(delta.get("partial_json"));
        break;
      }
      case "message_delta": {
        const stopReason = asObject(event.get("delta")).get("stop_reason") ?? null;
        this.isWhole ||= stopReason !== null;
        this.#message?.set("stop_reason", stopReason);
        for (const [name, count] of asObject(event.get("usage"))) if (count !== null) this.#usage.set(name, count);
        break;
      }
      case "message_stop":
        return "terminal";
      default:
        break;
    }
    return "part";
  }

  whole(): JsonObject | null {
    if (this.#message === null) return null;
    const content = [...this.#blocks.values()].map(({ block, json }) =>
      json === "" ? block : new Map([...block, ["input", json]]),
    );
    return new Map([...this.#message, ["content", content], ["usage", this.#usage]]);
  }
}

class ResponseParts implements StreamParts {
  readonly #items: JsonValue[] = [];
  /** Text of the item in progress. */
  #text = "";
  #response: JsonObject | null = null;
  isWhole = false;

  take(event: JsonObject): EventKind {
    const type = event.get("type");
    const response = event.get("response");
    if (response instanceof Map) this.#response = response;
    if (type === "response.failed") throw new Error(faultText(asObject(response).get("error") ?? null));
    if (type === "response.output_text.delta") this.#text += textIn(event.get("delta"));
    if (type === "response.output_item.done") {
      this.#items.push(event.get("item") ?? null);
      this.#text = "";
    }
    this.isWhole ||= type === "response.completed" || type === "response.incomplete";
    return this.isWhole ? "terminal" : "part";
  }

  whole(): JsonObject | null {
    if (this.#response === null) return null;
    // Some servers omit the output from the last event.
    if (this.isWhole && asList(this.#response.get("output")).length > 0) return this.#response;
    const part = object({ type: "output_text", text: this.#text });
    const open = this.#text === "" ? [] : [object({ type: "message", content: [part] })];
    const output = new Map([...this.#response, ["output", [...this.#items, ...open]] as const]);
    return this.isWhole ? output : output.set("status", "incomplete");
  }
}

const makers: Readonly<Record<WireFormat, new () => StreamParts>> = {
  chat: ChatParts,
  completions: CompletionParts,
  messages: MessageParts,
  responses: ResponseParts,
};

function object(fields: Readonly<Record<string, JsonValue>>): JsonObject {
  return new Map(Object.entries(fields));
}

function textIn(value: Field): string {
  return typeof value === "string" ? value : "";
}
