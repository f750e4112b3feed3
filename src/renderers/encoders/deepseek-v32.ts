// DeepSeek V3.2, which has no chat template: the prompt of SGLang 0.5.23 (`entrypoints/openai/encoding_dsv32.py`, with the empty system
// message that its server puts first). Not here: response formats and prefixes, which are not part of a rollout.

import { type Steps, stepItems } from "../../lib/steps.ts";
import type { PromptEncoder, TemplateInput } from "../chat-template.ts";
import {
  assistantToken,
  bos,
  type DsmlTags,
  dsmlFamily,
  eos,
  thinkEnd,
  thinkStart,
  userToken,
  writeCalls,
  writeOpening,
  writeTools,
} from "./dsml.ts";
import {
  argumentsObject,
  callsOf,
  createEncoder,
  functionsOf,
  isTruthy,
  isUnlessGiven,
  placedMessages,
  type PlacedMessage,
  type PromptWriter,
  refuse,
  sentence,
  textOf,
  type VendorSentences,
} from "./prompt-encoder.ts";

const tags: DsmlTags = { calls: "function_calls", call: "invoke", parameter: "parameter" };

/** `sentences` holds the paragraph on tools, `TOOLS_SYSTEM_TEMPLATE`. */
export function createDeepseekV32Encoder(sentences: VendorSentences): PromptEncoder {
  return createEncoder({
    family: {
      ...dsmlFamily("deepseekv32"),
      name: "deepseek-v3.2",
      reasoningParser: "deepseek-v3",
    },
    variables: ["drop_thinking", "thinking"],
    encode: (input, writer) => encode(input, writer, sentences),
  });
}

function* encode(input: TemplateInput, writer: PromptWriter, sentences: VendorSentences): Steps<void> {
  const { kwargs, addGenerationPrompt: isPrompt } = input;
  const isThinking = isTruthy(kwargs.get("thinking"));
  const drops = isThinking && isUnlessGiven(kwargs, "drop_thinking");
  const messages = given(input, { drops });
  const lastUser = lastQuestion(messages);
  const functions = functionsOf(input.tools);
  const opening = (isOpen: boolean): string => (isThinking && isOpen ? thinkStart : thinkEnd);
  /** The message that results answer, as a place in `messages`, and its calls. */
  let answered = -1;
  let callCount = 0;
  writer.write(bos, null);
  for (const [index, message] of messages.entries()) {
    if (index % stepItems === stepItems - 1) yield;
    const { role, place, wire } = message;
    if (role !== "tool") {
      answered = index;
      callCount = role === "assistant" ? callsOf(wire).length : 0;
    }
    if (role === "system") {
      writer.quote(textOf(wire, "content"), place);
      if (index > 0 || functions.length === 0) continue;
      writer.write("\n\n", place);
      writeTools(writer, { paragraph: sentence(sentences, "TOOLS_SYSTEM_TEMPLATE"), functions, place }, tags);
    } else if (role === "user" || role === "developer") {
      writer.write(userToken, place);
      if (role === "developer") writer.write("\n\n# The user's message is: ", place);
      writer.quote(contentOf(message), place);
      const text = assistantToken + opening(index === lastUser);
      writeOpening(writer, text, { messages, index, isPrompt });
    } else if (role === "tool") {
      const order = index - answered;
      if (callCount < order) refuse("DS32EncodingError", "a tool result answers no call of the message before it");
      if (order === 1) writer.write("\n\n<function_results>", place);
      writer.write("\n<result>", place);
      writer.quote(contentOf(message), place);
      writer.write("</result>", place);
      if (order < callCount) continue;
      writer.write("\n</function_results>", place);
      writeOpening(writer, `\n\n${opening(index >= lastUser)}`, { messages, index, isPrompt });
    } else if (role === "assistant") {
      writeAnswer(writer, message, isThinking && index > lastUser);
    } else {
      refuse("NotImplementedError", `it has a message of role "${role}"`);
    }
  }
}

/** Adds an empty system message if none comes first, because tools are written after it. */
function given({ messages }: TemplateInput, { drops }: { readonly drops: boolean }): readonly PlacedMessage[] {
  const placed = placedMessages(messages);
  if (placed.length === 0) refuse("IndexError", "it has no messages");
  if (placed[0]!.role !== "system") placed.unshift({ place: null, role: "system", wire: new Map() });
  if (!drops) return placed;
  const lastUser = lastQuestion(placed);
  // Dropping removes a message of another role, and the module then still expects the original
  // number of messages.
  const kept = ["user", "system", "tool", "assistant"];
  const dropped = placed.find(({ role }, index) => !kept.includes(role) && index < lastUser);
  if (dropped === undefined) return placed;
  return refuse("DS32EncodingError", `it has a message of role "${dropped.role}" before the last question`);
}

const lastQuestion = (messages: readonly PlacedMessage[]): number =>
  messages.findLastIndex(({ role }) => role === "user" || role === "developer");

function contentOf({ role, wire }: PlacedMessage): string {
  const content = wire.get("content");
  if (typeof content !== "string") return refuse("TypeError", `the content of a message of role "${role}" is not text`);
  if (role === "developer" && content === "") refuse("DS32EncodingError", "it has an empty message of role developer");
  return content;
}

function writeAnswer(writer: PromptWriter, { wire, place }: PlacedMessage, isThinking: boolean): void {
  const calls = callsOf(wire);
  if (isThinking) {
    const reasoning = textOf(wire, "reasoning_content");
    if (reasoning === "" && calls.length === 0) {
      refuse("DS32EncodingError", "an answer after the last question has neither a thought nor a call");
    }
    writer.quote(reasoning, place);
    writer.write(thinkEnd, place);
  }
  writer.quote(textOf(wire, "content"), place);
  writeCalls(writer, { calls, place }, { tags, read: argumentsObject });
  writer.write(eos, place);
}
