// Reads calls back from sampled text. The loop's history holds an action as the text that the model
// wrote; some templates refuse that text, or need the name or the id of the call to write its
// result, and so must be given calls as structure. A bridge then extends only if the template
// writes those calls exactly as they were sampled.

import { type AssistantMessage, type Message, type Tool, type ToolCall, toolFromDefinition } from "../core/index.ts";
import type { JsonObject } from "../python-semantics/json/index.ts";
import { reasoningParser, toolCallParser, writtenCallIds } from "../parsers/on-demand.ts";
import { type RendererFamily, shortestHistory, wireMessage } from "./renderer-family.ts";

/** Parsers look for calls only if there are tools; this one accepts all names. */
const anyTool: readonly Tool[] = [toolFromDefinition(new Map([["function", new Map([["name", "any"]])]]))];

type ReadBack = { readonly calls: readonly ToolCall[]; readonly rest: string };

function readCalls(
  text: string,
  { parser, idOf }: { readonly parser: string; readonly idOf: (place: number) => string },
): ReadBack {
  const { calls, content } = toolCallParser(parser).parse(text, { tools: anyTool, forwardUnknownTools: true });
  return {
    rest: content,
    calls: calls.map(({ name, parameters }, place) => ({
      id: idOf(place),
      name: name ?? "",
      argumentsText: parameters,
    })),
  };
}

/**
 * Restates calls for templates whose results must follow a structured call and bear its id.
 * `parser`: the name of the parser that reads it. `always`: false if calls that no result follows
 * may stay text.
 */
export function restateCalls(parser: string, { always }: { readonly always: boolean }): RendererFamily["restate"] {
  return (messages) => {
    let ids: readonly string[] = [];
    let results = 0;
    return messages.map((message, index): Message => {
      if (message.role === "tool") {
        const id = ids[placeOf(message.callId) ?? results];
        results++;
        return { ...message, callId: id ?? callId(null, results - 1) };
      }
      [ids, results] = [[], 0];
      if (message.role !== "assistant" || (!always && messages[index + 1]?.role !== "tool")) return message;
      const structured = structure(message, parser);
      ids = structured.toolCalls.map(({ id }) => id);
      return structured;
    });
  };
}

function structure(message: AssistantMessage, parser: string): AssistantMessage {
  if (message.toolCalls.length > 0) {
    return { ...message, toolCalls: message.toolCalls.map((call, place) => ({ ...call, id: callId(call.id, place) })) };
  }
  const written = writtenCallIds(message.content);
  const { calls, rest } = readCalls(message.content, {
    parser,
    idOf: (place) => callId(written[place] ?? null, place),
  });
  return calls.length === 0 ? message : { ...message, content: rest, toolCalls: calls };
}

/**
 * The model's own id if Mistral's templates, the strictest, accept it; else one made from the
 * call's place.
 */
function callId(written: string | null, place: number): string {
  return written !== null && /^[A-Za-z0-9]{9}$/.test(written) ? written : String(place).padStart(9, "0");
}

/** The place of the call that a result answers, read from one of our own ids (`call_3_0`). */
function placeOf(id: string | null): number | null {
  const place = id === null ? undefined : /^call_\d+_(\d+)$/.exec(id)?.[1];
  return place === undefined ? null : Number(place);
}

const ownId = (place: number): string => `call_${place}`;

/**
 * Reads an answer of gpt-oss: the template refuses channel tags in contents; thinking, content and
 * one call have fields of their own.
 */
function readHarmony(message: AssistantMessage): AssistantMessage {
  const { content } = message;
  if (message.toolCalls.length > 0 || !content.includes("<|channel|>")) return message;
  // The prompt opened the message, and its stop token is not part of the text: that of a call if it
  // ends with one.
  const header = content.slice(content.lastIndexOf("<|channel|>"), content.lastIndexOf("<|message|>"));
  const end = header.includes(" to=") ? "<|call|>" : "<|return|>";
  const { reasoning, normalText } = reasoningParser("gpt-oss").split(`<|start|>assistant${content}${end}`);
  const { calls, rest } = readCalls(normalText, { parser: "gpt-oss", idOf: ownId });
  return {
    role: "assistant",
    content: calls.length === 0 ? rest : "",
    reasoning: reasoning === "" ? null : reasoning,
    toolCalls: calls,
  };
}

/** A message as the template of gpt-oss reads it. */
export function harmonyMessage(message: Message): JsonObject {
  if (message.role !== "assistant") return wireMessage(message);
  const read = readHarmony(message);
  const wire = wireMessage({ ...read, reasoning: null });
  if (read.reasoning !== null) wire.set("thinking", read.reasoning);
  return wire;
}

const minimaxThinkEnd = "</mm:think>";

/**
 * Reads an answer of MiniMax: results are closed with the name of the call. A call inside thinking
 * is a thought.
 */
function readMinimax(message: AssistantMessage): AssistantMessage {
  if (message.toolCalls.length > 0) return message;
  const tagAt = message.content.lastIndexOf(minimaxThinkEnd);
  const thoughtEnd = tagAt === -1 ? 0 : tagAt + minimaxThinkEnd.length;
  const { calls, rest } = readCalls(message.content.slice(thoughtEnd), { parser: "minimax-m2", idOf: ownId });
  return { ...message, content: message.content.slice(0, thoughtEnd) + rest, toolCalls: calls };
}

/** A message as the template of MiniMax reads it. */
export function minimaxMessage(message: Message): JsonObject {
  return wireMessage(message.role === "assistant" ? readMinimax(message) : message);
}

/**
 * A stand-in with the last action, for templates whose results repeat parts of the calls before
 * them.
 */
function withLastCalls(
  read: (message: AssistantMessage) => AssistantMessage,
  content: string,
): RendererFamily["standIn"] {
  return (history) => {
    const [question, answer] = shortestHistory;
    const last = history.at(-1);
    const action = last?.role === "assistant" ? read(last) : null;
    if (action === null || action.toolCalls.length === 0) return [question, answer];
    return [question, { ...action, reasoning: null, content }];
  };
}

export const harmonyStandIn = withLastCalls(readHarmony, "");
export const minimaxStandIn = withLastCalls(readMinimax, "!");

/** The last action unchanged: `restateCalls` reads it. */
export const mistralStandIn: RendererFamily["standIn"] = (history) => {
  const [question, answer] = shortestHistory;
  return [question, history.findLast(({ role }) => role === "assistant") ?? answer];
};

/**
 * DeepSeek opens the section of results at the first results after `isReset`, so a stand-in needs
 * results if the history had them.
 */
export function standInAfterResults(isReset: (message: Message) => boolean): RendererFamily["standIn"] {
  return (history) => {
    const start = history.findLastIndex(isReset) + 1;
    if (!history.slice(start).some(({ role }) => role === "tool")) return shortestHistory;
    return [shortestHistory[0], { role: "tool", content: "", name: "", callId: null }, shortestHistory[1]];
  };
}
