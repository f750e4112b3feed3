// How Qwen3's hybrid templates treat thinking. They rewrite history: a new user message strips the thinking of every turn
// before it, and a last answer without thinking gets an empty think block that vanishes when a tool result follows.

import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import { pythonLstrip, pythonStrip } from "../../python-semantics/index.ts";
import type { SegmentWriter } from "../chat-template.ts";
import { attribute, isTruthy, methodReceiver, type TemplateValue, textOperand } from "../template-values.ts";
import { endToken, startToken, writeGenerationPrompt, writeToolCalls } from "./parts.ts";

/** Place of the last message by a person (a user turn that is no tool result in disguise); the last place when there is none. */
export function lastQueryIndex(
  messages: readonly JsonValue[],
  textOf: (content: TemplateValue) => string | null,
): number {
  for (let index = messages.length - 1; index >= 0; index--) {
    if (attribute(messages[index], "role") !== "user") continue;
    const content = textOf(attribute(messages[index], "content"));
    if (content === null) continue;
    if (!(content.startsWith("<tool_response>") && content.endsWith("</tool_response>"))) return index;
  }
  return messages.length - 1;
}

export type AssistantTurn = {
  readonly content: TemplateValue;
  readonly reasoning: TemplateValue;
  readonly calls: TemplateValue;
  /** After the last query thinking is shown: always in the last message, elsewhere when there is some. */
  readonly isAfterLastQuery: boolean;
  readonly isLast: boolean;
};

export function writeAssistant(writer: SegmentWriter, turn: AssistantTurn): void {
  const { content, reasoning } = turn;
  writer.template(`${startToken}assistant\n`);
  if (turn.isAfterLastQuery && (turn.isLast || isTruthy(reasoning))) {
    writer.template("<think>\n");
    writer.words(pythonStrip(methodReceiver(reasoning, "strip"), "\n"));
    writer.template("\n</think>\n\n");
    writer.words(pythonLstrip(methodReceiver(content, "lstrip"), "\n"));
  } else {
    writer.words(textOperand(content));
  }
  writeToolCalls(writer, turn.calls, content);
  writer.template(`${endToken}\n`);
}

/** The generation prompt; with `enable_thinking` false it ends in an empty think block. */
export function writeThinkingPrompt(writer: SegmentWriter, kwargs: JsonObject): void {
  writeGenerationPrompt(writer);
  if (kwargs.get("enable_thinking") === false) writer.template("<think>\n\n</think>\n\n");
}
