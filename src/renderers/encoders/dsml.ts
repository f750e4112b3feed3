// Shared parts of the formats of DeepSeek V3.2, V4 and V4.1: tools in a paragraph of the vendor's,
// calls as DSML tags, and histories that hold an action as it was sampled. Format: DeepSeek's
// encoding modules, as SGLang 0.5.23 and vLLM 0.33.0 run them.

import type { Message } from "../../core/index.ts";
import { dumpJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { restateCalls } from "../calls-in-history.ts";
import { familyDefaults, type RendererFamily, shortestHistory } from "../renderer-family.ts";
import { formatSentence, type PlacedMessage, type PromptWriter, type WrittenCall } from "./prompt-encoder.ts";

export const bos = "<｜begin▁of▁sentence｜>";
export const eos = "<｜end▁of▁sentence｜>";
export const userToken = "<｜User｜>";
export const assistantToken = "<｜Assistant｜>";
export const thinkStart = "<think>";
export const thinkEnd = "</think>";
export const dsml = "｜DSML｜";

/** Names of the tags that hold calls, one call, and one parameter. */
export type DsmlTags = { readonly calls: string; readonly call: string; readonly parameter: string };

/** Facts of all these families, except the parsers. */
export function dsmlFamily(parser: string): Omit<RendererFamily, "name" | "reasoningParser"> {
  const restate = restateActions(parser);
  return {
    ...familyDefaults,
    specialTokens: new Map([["bos_token", bos]]),
    startToken: userToken,
    endToken: eos,
    stopTokens: [eos],
    toolCallParser: parser,
    thinkingVariable: "thinking",
    restate,
    // Results are written after the calls of the last action, in their order.
    standIn: (history) => {
      const last = history.findLast(({ role }) => role === "assistant");
      return [shortestHistory[0], last ?? shortestHistory[1]];
    },
  };
}

/**
 * Reads thought and calls from actions: a history holds an action as it was sampled, after the tag
 * that opens the thinking.
 */
function restateActions(parser: string): RendererFamily["restate"] {
  const withCalls = restateCalls(parser, { always: false });
  return (messages) => withCalls(messages.map(withoutThought));
}

function withoutThought(message: Message): Message {
  if (message.role !== "assistant" || message.reasoning !== null) return message;
  const end = message.content.indexOf(thinkEnd);
  if (end === -1) return message;
  const start = message.content.startsWith(thinkStart) ? thinkStart.length : 0;
  return {
    ...message,
    reasoning: message.content.slice(start, end),
    content: message.content.slice(end + thinkEnd.length),
  };
}

/** The vendor's paragraph on tools, with the definition of each. */
export function writeTools(
  writer: PromptWriter,
  {
    paragraph,
    functions,
    place,
  }: { readonly paragraph: string; readonly functions: readonly JsonValue[]; readonly place: number | null },
  tags: DsmlTags,
): void {
  const fields = new Map([
    ["tool_schemas", functions.map((definition) => dumpJson(definition)).join("\n")],
    ["dsml_token", dsml],
    ["thinking_start_token", thinkStart],
    ["thinking_end_token", thinkEnd],
    ["tc_block_name", tags.calls],
    ["tool_call_tag_name", tags.call],
    ["tool_parameter_tag_name", tags.parameter],
  ]);
  for (const { field, text } of formatSentence(paragraph, fields)) {
    if (field === "tool_schemas") writer.writeTools(text, place);
    else writer.write(text, place);
  }
}

/** Calls of an assistant message; nothing where there are none. */
export function writeCalls(
  writer: PromptWriter,
  { calls, place }: { readonly calls: readonly WrittenCall[]; readonly place: number | null },
  { tags, read }: { readonly tags: DsmlTags; readonly read: (value: JsonValue) => JsonObject },
): void {
  if (calls.length === 0) return;
  writer.write(`\n\n<${dsml}${tags.calls}>\n`, place);
  calls.forEach((call, index) => {
    writer.write(`${index === 0 ? "" : "\n"}<${dsml}${tags.call} name="`, place);
    writer.quote(call.name, place);
    writer.write('">\n', place);
    let isFirst = true;
    for (const [key, value] of read(call.arguments)) {
      writer.write(`${isFirst ? "" : "\n"}<${dsml}${tags.parameter} name="`, place);
      writer.quote(key, place);
      writer.write(`" string="${typeof value === "string"}">`, place);
      writer.quote(typeof value === "string" ? value : dumpJson(value), place);
      writer.write(`</${dsml}${tags.parameter}>`, place);
      isFirst = false;
    }
    writer.write(`\n</${dsml}${tags.call}>`, place);
  });
  writer.write(`\n</${dsml}${tags.calls}>`, place);
}

/**
 * Writes the text that opens an answer, after the message at `index`. It belongs to the answer if
 * one follows, else to the message before, and at the end of the conversation it is the generation
 * prompt.
 */
export function writeOpening(
  writer: PromptWriter,
  text: string,
  at: { readonly messages: readonly PlacedMessage[]; readonly index: number; readonly isPrompt: boolean },
): void {
  const { messages, index, isPrompt } = at;
  const next = messages[index + 1];
  if (next === undefined) {
    if (isPrompt) writer.write(text, null);
    return;
  }
  writer.write(text, next.role === "assistant" ? next.place : messages[index]!.place);
}
