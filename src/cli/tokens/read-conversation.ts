// A conversation file: JSON or JSON lines in the OpenAI wire shape, as in chat datasets and logs.
// It is read strictly: a field omitted or misspelled here would silently be missing from the
// tokens.

import { ConfigurationError, type Message, type Tool, type ToolCall, toolFromDefinition } from "../../core/index.ts";
import { readNamedFile } from "../../api/surroundings.ts";
import { dumpJson, type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";

export type Conversation = { readonly messages: readonly Message[]; readonly tools: readonly Tool[] };

/**
 * Reads `{"messages": [...], "tools": [...]}`, a list of messages, or JSON lines of messages or of
 * conversations, of which `line` (from 1) is taken. Throws a `ConfigurationError` that names the
 * place.
 */
export async function readConversation(
  file: string,
  options: { readonly cwd: string; readonly line: number | null },
): Promise<Conversation> {
  const remedy = "name a file with a conversation, or the folder of a run.";
  const text = await readNamedFile(file, options.cwd, remedy);
  const values = parseAll(text, file);
  const { line } = options;
  const areMessages = values.length > 0 && values.every((value) => value instanceof Map && value.has("role"));
  const chosen = values.length === 1 ? values[0] : values[(line ?? 1) - 1];
  if (line !== null && (areMessages || line > values.length)) {
    const state = areMessages ? "its lines are messages of one conversation" : `it has ${values.length}`;
    throw new ConfigurationError(`Cannot read line ${line} of "${file}": ${state}; correct --line.`);
  }
  return conversationOf(areMessages ? [...values] : (chosen ?? null), { file, path: "the file" });
}

/** The whole text as one value, else each line as one. */
function parseAll(text: string, file: string): readonly JsonValue[] {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const whole = tryParse(text);
  if (whole !== undefined) return [whole];
  return lines.map((line, index) => {
    const value = tryParse(line);
    if (value !== undefined) return value;
    throw new ConfigurationError(
      `Cannot read "${file}" as JSON or JSON lines: line ${index + 1} is not JSON (it begins ${JSON.stringify(line.slice(0, 24))}).`,
    );
  });
}

function tryParse(text: string): JsonValue | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

type Place = { readonly file: string; readonly path: string };

function conversationOf(value: JsonValue, place: Place): Conversation {
  const isList = Array.isArray(value);
  const listed = isList ? value : value instanceof Map ? value.get("messages") : undefined;
  if (!Array.isArray(listed)) {
    throw misfit(place, 'a list of messages or an object with "messages"');
  }
  const tools = value instanceof Map ? (value.get("tools") ?? []) : [];
  if (!Array.isArray(tools)) throw misfit({ ...place, path: "tools" }, "a list of OpenAI tool entries");
  const names = new Map<string, string>();
  return {
    messages: listed.map((message, index) => messageOf(message, { ...place, path: `messages[${index}]` }, names)),
    tools: tools.map((tool, index) => toolOf(tool, { ...place, path: `tools[${index}]` })),
  };
}

function toolOf(value: JsonValue, place: Place): Tool {
  if (!(value instanceof Map)) throw misfit(place, 'an OpenAI entry {"type": "function", "function": {"name": ...}}');
  try {
    return toolFromDefinition(value);
  } catch (error) {
    throw misfit(place, 'an OpenAI entry {"type": "function", "function": {"name": ...}}', error);
  }
}

/** `names` maps each call to its tool, because results may omit the name. */
function messageOf(value: JsonValue, place: Place, names: Map<string, string>): Message {
  if (!(value instanceof Map)) throw misfit(place, 'an object with "role" and "content"');
  const role = value.get("role");
  const content = textOf(value.get("content") ?? null, place);
  switch (role) {
    case "system":
    case "user":
      return { role, content };
    case "assistant": {
      const toolCalls = callsOf(value.get("tool_calls") ?? null, place);
      for (const { id, name } of toolCalls) names.set(id, name);
      const reasoning = value.get("reasoning_content") ?? value.get("reasoning") ?? null;
      if (reasoning !== null && typeof reasoning !== "string") throw misfit(place, 'a text as "reasoning_content"');
      return { role, content, reasoning, toolCalls };
    }
    case "tool": {
      const callId = value.get("tool_call_id") ?? null;
      const name = value.get("name") ?? (typeof callId === "string" ? names.get(callId) : undefined) ?? "unknown";
      if (typeof name !== "string") throw misfit(place, 'a text as "name"');
      return { role, content, name, callId: typeof callId === "string" ? callId : null };
    }
    default:
      throw misfit(place, 'a "role" of system, user, assistant or tool');
  }
}

/** Accepts a string, null, or a list of text parts. */
function textOf(content: JsonValue, place: Place): string {
  if (content === null) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw misfit(place, 'a string or a list of text parts as "content"');
  return content
    .map((part) => {
      const text = part instanceof Map && part.get("type") === "text" ? part.get("text") : undefined;
      if (typeof text !== "string") throw misfit(place, "parts of type text only; images and sounds have no text tokens"); // prettier-ignore
      return text;
    })
    .join("");
}

function callsOf(value: JsonValue, place: Place): ToolCall[] {
  if (value === null) return [];
  if (!Array.isArray(value)) throw misfit(place, 'a list as "tool_calls"');
  return value.map((call, index) => {
    const body = call instanceof Map ? call.get("function") : undefined;
    const name = body instanceof Map ? body.get("name") : undefined;
    if (!(call instanceof Map) || !(body instanceof Map) || typeof name !== "string") {
      throw misfit({ ...place, path: `${place.path}.tool_calls[${index}]` }, '{"id": ..., "function": {"name": ..., "arguments": ...}}'); // prettier-ignore
    }
    const id = call.get("id");
    return { id: typeof id === "string" ? id : `call_${index}`, name, argumentsText: argumentsOf(body) };
  });
}

function argumentsOf(body: JsonObject): string {
  const given = body.get("arguments") ?? new Map();
  return typeof given === "string" ? given : dumpJson(given, { ensureAscii: false });
}

function misfit({ file, path }: Place, expected: string, cause?: unknown): ConfigurationError {
  const message = `Cannot read the conversation in "${file}": ${path} is not valid; expected ${expected}.`;
  return new ConfigurationError(message, cause === undefined ? undefined : { cause });
}
