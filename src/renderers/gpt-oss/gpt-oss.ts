// The chat template of gpt-oss (Harmony): system and developer messages in front, the date, thinking dropped once an answer was
// given. The end of an answer is written differently when it is the last message, so the closed rendering is rewritten.

import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import { type ChatTemplate, ChatTemplateError, SegmentWriter, type TemplateInput } from "../chat-template.ts";
import { templateDate } from "../template-date.ts";
import {
  attribute,
  contains,
  isTruthy,
  printed,
  raised,
  type TemplateValue,
  textOperand,
  toJson,
} from "../template-values.ts";
import { toolNamespace } from "./typescript-tools.ts";

export const gptOss: ChatTemplate = (input) => {
  const { messages, addGenerationPrompt } = input;
  const writer = new SegmentWriter();
  writeSystem(writer, input);
  const firstRole = attribute(messages[0], "role");
  const hasDeveloper = firstRole === "developer" || firstRole === "system";
  writeDeveloper(writer, hasDeveloper ? attribute(messages[0], "content") : "", input.tools);
  let lastCall: TemplateValue = null;
  messages.forEach((message, index) => {
    if (hasDeveloper && index === 0) return;
    writer.begin(index);
    const role = attribute(message, "role");
    const content = attribute(message, "content");
    if (role === "assistant") {
      refuseChannels(message, "content");
      refuseChannels(message, "thinking");
      const isLast = index === messages.length - 1;
      if (contains(message, "tool_calls")) {
        lastCall = writeCall(writer, message, messages.slice(index + 1).some(isAnswer));
      } else if (isLast && !addGenerationPrompt) {
        if (contains(message, "thinking")) writeChannel(writer, "analysis", attribute(message, "thinking"), "<|end|>");
        writeChannel(writer, "final", content, "<|return|>");
      } else {
        writeChannel(writer, "final", content, "<|end|>");
        lastCall = null;
      }
    } else if (role === "tool") {
      if (lastCall === null) {
        throw raised("Message has tool role, but there was no previous assistant message with a tool call!");
      }
      writer.template("<|start|>functions.");
      writer.words(textOperand(lastCall));
      writer.template(" to=assistant<|channel|>commentary<|message|>");
      writer.words(toJson(content));
      writer.template("<|end|>");
    } else if (role === "user") {
      writer.template("<|start|>user<|message|>");
      writer.words(textOperand(content));
      writer.template("<|end|>");
    }
  });
  writer.begin(null);
  if (addGenerationPrompt) writer.template("<|start|>assistant");
  return writer.finish();
};

function writeSystem(writer: SegmentWriter, { tools, kwargs, context }: TemplateInput): void {
  if (context.now === null) {
    throw new ChatTemplateError(
      "undefined",
      "Cannot render the conversation with this chat template: it asks for the date.",
    );
  }
  const given = (name: string, preset: string): string => textOperand(kwargs.has(name) ? kwargs.get(name) : preset);
  const identity = given("model_identity", "You are ChatGPT, a large language model trained by OpenAI.");
  const date = templateDate(context.now, "iso");
  writer.template(`<|start|>system<|message|>${identity}\nKnowledge cutoff: 2024-06\nCurrent date: ${date}\n\n`);
  writer.template(`Reasoning: ${given("reasoning_effort", "medium")}\n\n`);
  if (isTruthy(kwargs.get("builtin_tools"))) {
    throw new ChatTemplateError(
      "unsupported",
      "Cannot render the conversation natively: descriptions of built-in tools stand in the model's own chat template; render " +
        'with it (renderWith: "template").',
    );
  }
  writer.template("# Valid channels: analysis, commentary, final. Channel must be included for every message.");
  if (isTruthy(tools)) writer.template("\nCalls to these tools must go to the commentary channel: 'functions'.");
  writer.template("<|end|>");
}

function writeDeveloper(writer: SegmentWriter, words: TemplateValue, tools: JsonValue): void {
  if (!isTruthy(words) && !isTruthy(tools)) return;
  writer.begin(isTruthy(words) ? 0 : null);
  writer.template("<|start|>developer<|message|>");
  if (isTruthy(words)) {
    writer.template("# Instructions\n\n");
    writer.words(printed(words));
    writer.template("\n\n");
  }
  if (isTruthy(tools)) {
    writer.template("# Tools\n\n");
    writer.tools(toolNamespace(tools));
  }
  writer.template("<|end|>");
}

function isAnswer(message: JsonValue): boolean {
  return attribute(message, "role") === "assistant" && !contains(message, "tool_calls");
}

function writeChannel(writer: SegmentWriter, channel: string, words: TemplateValue, end: string): void {
  writer.template(`<|start|>assistant<|channel|>${channel}<|message|>`);
  writer.words(textOperand(words));
  writer.template(end);
}

/** Gives the name that tool results will bear. */
function writeCall(writer: SegmentWriter, message: JsonValue, isAnswered: boolean): TemplateValue {
  const first = attribute(message, "tool_calls");
  const given = Array.isArray(first) ? first[0] : undefined;
  const body = attribute(given, "function");
  const call = isTruthy(body) ? body : given;
  const content = attribute(message, "content");
  const thinking = attribute(message, "thinking");
  if (isTruthy(content) && isTruthy(thinking)) {
    throw raised(
      "Cannot pass both content and thinking in an assistant message with tool calls! Put the analysis message in one or the other, but not both.",
    );
  }
  const shown = isTruthy(content) ? content : thinking;
  if (isTruthy(shown) && !isAnswered) writeChannel(writer, "analysis", shown, "<|end|>");
  const name = attribute(call, "name");
  writer.template("<|start|>assistant to=functions.");
  writer.words(textOperand(name));
  const contentType = attribute(call, "content_type");
  writer.template(`<|channel|>commentary ${contentType === undefined ? "json" : textOperand(contentType)}<|message|>`);
  writer.words(toJson(attribute(call, "arguments")));
  writer.template("<|call|>");
  return name;
}

function refuseChannels(message: JsonValue, field: "content" | "thinking"): void {
  if (!contains(message, field)) return;
  const value = (message as JsonObject).get(field);
  if (!contains(value, "<|channel|>analysis<|message|>") && !contains(value, "<|channel|>final<|message|>")) return;
  throw raised(
    `You have passed a message containing <|channel|> tags in the ${field} field. Instead of doing this, you should pass analysis messages (the string between '<|message|>' and '<|end|>') in the 'thinking' field, and final messages (the string between '<|message|>' and '<|end|>') in the 'content' field.`,
  );
}
