// Facts about a model family that the renderer needs in addition to its chat template: its tokens,
// how its template treats history, and which parsers read its output. Data, and functions only
// where data are not enough; `template-renderer.ts` does the work.

import type { Message, ToolCall } from "../core/index.ts";
import { type JsonObject, JsonSyntaxError, type JsonValue, parseJson } from "../python-semantics/json/index.ts";

export type RendererFamily = {
  readonly name: string;
  /**
   * Fingerprints of the published chat templates that the row describes; see `templateFingerprint`.
   */
  readonly fingerprints: readonly string[];
  /** True if the bundled ChatML template writes the family's format, so that none must be given. */
  readonly isBundledFormat: boolean;
  /**
   * A token that opens messages and occurs nowhere else in rendered text unless a message spells it
   * out.
   */
  readonly startToken: string;
  /**
   * The token that ends an action. `null` if an action ends with the token that opens the next
   * message.
   */
  readonly endToken: string | null;
  /** Further tokens that end an action; nothing is missing after them. */
  readonly otherEnds: readonly string[];
  /** Text that the template writes between the end token and the next message. */
  readonly closing: string;
  /** Tokens that stop sampling, the end token first; those that the tokenizer lacks are omitted. */
  readonly stopTokens: readonly string[];
  /**
   * "append-only": adding messages never changes the text before them, and an action is written
   * back as it was sampled. "rewrites": one of them may fail. "unproven": nothing is known, so
   * every bridge compares whole renderings and refuses if the earlier text has changed.
   */
  readonly history: "append-only" | "rewrites" | "unproven";
  /** Name of the parser of its reasoning; `null` if the family does not think. */
  readonly reasoningParser: string | null;
  /** Name of the parser of its calls. */
  readonly toolCallParser: string;
  /**
   * Reason for that parser: "family": the row names it; "named": the caller does; "written": it
   * reads the call that the template writes; "requested": the prompt requests its calls, although
   * the template writes earlier calls otherwise; "marked": its markers occur in the template;
   * "assumed": the template writes no calls and shows no tools. "unread": no parser is known for
   * the calls of this template, and nothing reads them.
   */
  readonly toolCallBasis: "family" | "named" | "written" | "requested" | "marked" | "assumed" | "unread";
  /** The template's variable that turns thinking on and off; `null` if it has none. */
  readonly thinkingVariable: "enable_thinking" | "thinking" | null;
  /** `bos_token`, ... as the template reads them, if the model folder gives none. */
  readonly specialTokens: JsonObject;
  /**
   * Control tokens that have several names, each with its names in order: the template reads the
   * first one that the tokenizer has, as a special token.
   */
  readonly spellings: ReadonlyMap<string, readonly string[]>;
  /**
   * Value that the template is given for `tools` when there are none: an empty list if it requires
   * one.
   */
  readonly noTools: JsonValue;
  /**
   * Converts messages, one for one, to a form that the template can read: for templates that depend
   * on the messages around one.
   */
  readonly restate: (messages: readonly Message[]) => readonly Message[];
  /** Our message, restated, in the shape that the template reads. */
  readonly wire: (message: Message) => JsonObject;
  /**
   * The prompt's opening of an action, for parsers that must see a whole message. They then also
   * see the stop token. `null` if they see only the sampled text, without the stop token.
   */
  readonly actionFrame: string | null;
  /**
   * The shortest history that ends with an assistant message and after which the template writes new messages as it does
   * after the given one.
   */
  readonly standIn: (history: readonly Message[]) => readonly Message[];
};

/** A whole list of messages in the shape that the family's template reads. */
export function wireMessages(family: RendererFamily, messages: readonly Message[]): readonly JsonObject[] {
  return family.restate(messages).map((message) => family.wire(message));
}

/**
 * A message in the OpenAI wire shape. Absent parts are omitted: templates tell a missing key from a
 * null.
 */
export function wireMessage(message: Message): JsonObject {
  const wire: JsonObject = new Map<string, JsonValue>([
    ["role", message.role],
    ["content", message.content],
  ]);
  if (message.role === "assistant") {
    if (message.reasoning !== null) {
      // Templates read one name or the other; transformers gives both.
      wire.set("reasoning_content", message.reasoning);
      wire.set("thinking", message.reasoning);
    }
    if (message.toolCalls.length > 0) wire.set("tool_calls", message.toolCalls.map(wireCall));
  }
  if (message.role === "tool") {
    wire.set("name", message.name);
    if (message.callId !== null) wire.set("tool_call_id", message.callId);
  }
  return wire;
}

/** The same with its content as a list of parts, for templates that write nothing for a text. */
export function wireMessageInParts(message: Message): JsonObject {
  const text = new Map<string, JsonValue>([
    ["type", "text"],
    ["text", message.content],
  ]);
  return new Map<string, JsonValue>([...wireMessage(message), ["content", message.content === "" ? [] : [text]]]);
}

/**
 * Servers decode the arguments before a template sees them, a blank text as none; text that is not
 * JSON stays text.
 */
function wireCall(call: ToolCall): JsonObject {
  const body: JsonObject = new Map<string, JsonValue>([
    ["name", call.name],
    ["arguments", decodeArguments(call.argumentsText)],
  ]);
  return new Map<string, JsonValue>([
    ["id", call.id],
    ["type", "function"],
    ["function", body],
  ]);
}

function decodeArguments(text: string): JsonValue {
  if (text.trim() === "") return new Map();
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return text;
    throw error;
  }
}

/** A question and an answer: enough for templates that look only at the previous message. */
export const shortestHistory: readonly [Message, Message] = [
  { role: "user", content: "?" },
  { role: "assistant", content: "!", reasoning: null, toolCalls: [] },
];

/** Defaults that hold for most families. */
export const familyDefaults = {
  fingerprints: [],
  isBundledFormat: false,
  history: "rewrites",
  reasoningParser: null,
  toolCallBasis: "family",
  thinkingVariable: null,
  specialTokens: new Map(),
  spellings: new Map(),
  noTools: null,
  otherEnds: [],
  closing: "",
  restate: (messages) => messages,
  wire: wireMessage,
  actionFrame: null,
  standIn: () => shortestHistory,
} as const satisfies Partial<RendererFamily>;
