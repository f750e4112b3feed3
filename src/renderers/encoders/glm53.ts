// GLM-5.3 and GLM-5.3-Flash in a folder without a chat template: the prompt of SGLang 0.5.23
// (`parser/glm53_chat_template.py`), which is that of the published template. Not here: images,
// sound, and references to tools.

import { type Steps, stepItems } from "../../lib/steps.ts";
import { pythonStrip } from "../../python-semantics/index.ts";
import { dumpJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import type { PromptEncoder, TemplateInput } from "../chat-template.ts";
import { familyDefaults } from "../renderer-family.ts";
import {
  createEncoder,
  isTruthy,
  placedMessages,
  type PlacedMessage,
  type PromptWriter,
  refuse,
  sentence,
  type VendorSentences,
} from "./prompt-encoder.ts";

/** `sentences` holds, for tools, `_TOOLS_PREFIX` and `_TOOLS_SUFFIX`. */
export function createGlm53Encoder(sentences: VendorSentences): PromptEncoder {
  return createEncoder({
    family: {
      ...familyDefaults,
      name: "glm-5.3",
      startToken: "<|user|>",
      endToken: null,
      stopTokens: ["<|user|>", "<|observation|>", "<|endoftext|>"],
      reasoningParser: "glm45",
      toolCallParser: "glm47",
    },
    variables: ["clear_thinking", "reasoning_effort"],
    encode: (input, writer) => encode(input, writer, sentences),
  });
}

function* encode(
  { messages, tools, kwargs, addGenerationPrompt }: TemplateInput,
  writer: PromptWriter,
  sentences: VendorSentences,
): Steps<void> {
  const placed = placedMessages(messages);
  const effort = kwargs.get("reasoning_effort");
  const level = effort === "low" ? "Low" : effort === "high" ? "High" : "Max";
  writer.write(`[gMASK]<sop><|system|>Reasoning Effort: ${level}`, null);
  if (isTruthy(tools)) writeTools(writer, tools, sentences);
  const lastUser = placed.findLastIndex(({ role }) => role === "user");
  const clears = isTruthy(kwargs.get("clear_thinking"));
  for (let index = 0; index < placed.length; index++) {
    if (index % stepItems === stepItems - 1) yield;
    const message = placed[index]!;
    const { role, place } = message;
    if (role === "user" || role === "system") {
      writer.write(`<|${role}|>`, place);
      writer.quote(textOf(message.wire.get("content")), place);
    } else if (role === "assistant") {
      writeAnswer(writer, message, { keepsThought: !clears || index > lastUser });
    } else if (role === "tool") {
      let end = index + 1;
      while (placed[end]?.role === "tool") end++;
      const results = placed.slice(index, end);
      writer.write("<|observation|>", place);
      for (const result of inOrder(results, placed[index - 1])) {
        writer.write("<tool_response>", result.place);
        writer.quote(textOf(result.wire.get("content")), result.place);
        writer.write("</tool_response>", result.place);
      }
      index += results.length - 1;
    }
  }
  if (addGenerationPrompt) writer.write("<|assistant|><think>", null);
}

function writeTools(writer: PromptWriter, tools: JsonValue, sentences: VendorSentences): void {
  if (!Array.isArray(tools)) return refuse("TypeError", "the tools are not a list");
  writer.write(`<|system|>${sentence(sentences, "_TOOLS_PREFIX")}`, null);
  for (const tool of tools) {
    const body = tool instanceof Map && tool.has("function") ? tool.get("function") : tool;
    if (!(body instanceof Map)) return refuse("ValueError", "a tool is not an object");
    if (isTruthy(body.get("defer_loading"))) continue;
    const fields = Array.from(body).filter(([key]) => key !== "defer_loading" && key !== "strict");
    // The template writes keys as they are.
    writer.writeTools(`{${fields.map(([key, value]) => `"${key}": ${dumpJson(value)}`).join(", ")}}\n`, null);
  }
  writer.write(sentence(sentences, "_TOOLS_SUFFIX"), null);
}

const [thinkStart, thinkEnd] = ["<think>", "</think>"];

function writeAnswer(
  writer: PromptWriter,
  { wire, place }: PlacedMessage,
  { keepsThought }: { readonly keepsThought: boolean },
): void {
  let content = textOf(wire.get("content"));
  let thought = wire.get("reasoning_content");
  if (typeof thought !== "string") {
    thought = undefined;
    const end = content.indexOf(thinkEnd);
    if (end !== -1) {
      const before = content.slice(0, end);
      const start = before.lastIndexOf(thinkStart);
      thought = start === -1 ? before : before.slice(start + thinkStart.length);
      content = content.slice(content.lastIndexOf(thinkEnd) + thinkEnd.length);
    }
  }
  writer.write(`<|assistant|>${thinkStart}`, place);
  writer.quote(keepsThought && typeof thought === "string" ? thought : "", place);
  writer.write(thinkEnd, place);
  writer.quote(pythonStrip(content), place);
  for (const call of callsOf(wire)) {
    const body = call instanceof Map && isTruthy(call.get("function")) ? call.get("function") : call;
    const name = body instanceof Map ? body.get("name") : undefined;
    const given = body instanceof Map ? body.get("arguments") : undefined;
    if (typeof name !== "string") return refuse("ValueError", "a tool call has no name");
    if (!(given instanceof Map)) return refuse("ValueError", "the arguments of a tool call are not a JSON object");
    writer.write("<tool_call>", place);
    writer.quote(name, place);
    for (const [key, value] of given) {
      writer.write("<arg_key>", place);
      writer.quote(key, place);
      writer.write("</arg_key><arg_value>", place);
      writer.quote(typeof value === "string" ? value : dumpJson(value), place);
      writer.write("</arg_value>", place);
    }
    writer.write("</tool_call>", place);
  }
}

function callsOf(wire: JsonObject): readonly JsonValue[] {
  const calls = wire.get("tool_calls");
  if (!isTruthy(calls)) return [];
  return Array.isArray(calls) ? calls : refuse("TypeError", "the tool_calls of a message are not a list");
}

/** Results in the order of the calls before them, if each has an id of its own among theirs. */
function inOrder(results: readonly PlacedMessage[], answer: PlacedMessage | undefined): readonly PlacedMessage[] {
  const calls = answer?.role === "assistant" ? callsOf(answer.wire).map(idOf) : [];
  const places = new Map(calls.map((id, index) => [id, index]));
  const ids = results.map(({ wire }) => idOf(wire));
  const isClear = calls.length > 0 && places.size === calls.length && !places.has("");
  if (!isClear || new Set(ids).size < ids.length || ids.some((id) => !places.has(id))) return results;
  return results.toSorted((left, right) => places.get(idOf(left.wire))! - places.get(idOf(right.wire))!);
}

function idOf(value: JsonValue): string {
  if (!(value instanceof Map)) return "";
  const id = [value.get("tool_call_id"), value.get("id")].find(isTruthy);
  return id === undefined ? "" : typeof id === "string" ? id : dumpJson(id);
}

/** A text, or the texts of a list of parts. Refuses parts that are not text. */
function textOf(content: JsonValue | undefined): string {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return refuse("TypeError", "the content of a message is neither text nor a list");
  return content
    .map((part: JsonValue) => {
      const text = part instanceof Map && part.get("type") === "text" ? part.get("text") : part;
      return typeof text === "string" ? text : refuse("ValueError", "a message has a part that is not text");
    })
    .join("");
}
