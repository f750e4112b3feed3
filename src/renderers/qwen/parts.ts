// What Qwen's chat templates have in common: ChatML turns, the tools block, tool results merged into one user turn.
// The texts are the format that the models were trained on; they must match byte for byte.

import type { JsonValue } from "../../python-semantics/json/index.ts";
import type { SegmentWriter } from "../chat-template.ts";
import { attribute, isTruthy, iterate, printed, type TemplateValue, textOperand, toJson } from "../template-values.ts";

export const startToken = "<|im_start|>";
export const endToken = "<|im_end|>";

/** The sentence of the tools block that promises several calls a turn; prompt edits aim at it. */
export const severalCallsSentence = "You may call one or more functions to assist with the user query.";

const toolsHeader = `# Tools

${severalCallsSentence}

You are provided with function signatures within <tools></tools> XML tags:
<tools>`;

const toolsFooter = `
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>`;

/** The tools block and the end of the system turn it stands in. */
export function writeTools(writer: SegmentWriter, tools: TemplateValue): void {
  writer.template(toolsHeader);
  for (const tool of iterate(tools)) {
    writer.template("\n");
    writer.tools(toolJson(tool));
  }
  writer.template(`${toolsFooter}${endToken}\n`);
}

const toolTexts = new WeakMap<object, string>();

/** The JSON of a tool, made once: definitions never change, and every prompt shows all of them. */
export function toolJson(tool: TemplateValue): string {
  if (!(tool instanceof Map)) return toJson(tool);
  const known = toolTexts.get(tool);
  if (known !== undefined) return known;
  const text = toJson(tool);
  toolTexts.set(tool, text);
  return text;
}

/** The system turn of Qwen3's templates: no default words, and the tools below the words. */
export function writeSystem(writer: SegmentWriter, first: TemplateValue, tools: TemplateValue): void {
  const words = attribute(first, "role") === "system" ? textOperand(attribute(first, "content")) : null;
  writer.begin(words === null ? null : 0);
  if (words === null && !isTruthy(tools)) return;
  writer.template(`${startToken}system\n`);
  writer.words(words ?? "");
  if (isTruthy(tools)) {
    if (words !== null) writer.template("\n\n");
    writeTools(writer, tools);
  } else {
    writer.template(`${endToken}\n`);
  }
}

export function writeTurn(writer: SegmentWriter, role: string, content: string): void {
  writer.template(`${startToken}${role}\n`);
  writer.words(content);
  writer.template(`${endToken}\n`);
}

/** A tool result; neighbouring results share one user turn. */
export function writeToolResult(
  writer: SegmentWriter,
  messages: readonly JsonValue[],
  index: number,
  content: string,
): void {
  if (index === 0 || attribute(messages[index - 1], "role") !== "tool") writer.template(`${startToken}user`);
  writer.template("\n<tool_response>\n");
  writer.words(content);
  writer.template("\n</tool_response>");
  const isLast = index === messages.length - 1;
  if (isLast || attribute(messages[index + 1], "role") !== "tool") writer.template(`${endToken}\n`);
}

/** Structured calls of an assistant message, as Qwen3's templates write them after its content. */
export function writeToolCalls(writer: SegmentWriter, calls: TemplateValue, content: TemplateValue): void {
  if (!isTruthy(calls)) return;
  for (const [index, call] of iterate(calls).entries()) {
    if (index > 0 || isTruthy(content)) writer.template("\n");
    const body = attribute(call, "function");
    writeToolCall(writer, isTruthy(body) ? body : call, (value) => (typeof value === "string" ? value : toJson(value)));
  }
}

export function writeToolCall(
  writer: SegmentWriter,
  call: TemplateValue,
  writeArguments: (value: TemplateValue) => string,
): void {
  writer.template('<tool_call>\n{"name": "');
  writer.words(printed(attribute(call, "name")));
  writer.template('", "arguments": ');
  writer.words(writeArguments(attribute(call, "arguments")));
  writer.template("}\n</tool_call>");
}

export function writeGenerationPrompt(writer: SegmentWriter): void {
  writer.begin(null);
  writer.template(`${startToken}assistant\n`);
}
