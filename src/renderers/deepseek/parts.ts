// What DeepSeek's chat templates have in common: system messages gathered at the front, no line ends, calls in marked sections.

import type { JsonValue } from "../../python-semantics/json/index.ts";
import { attribute, type TemplateValue, textOperand, toJson } from "../template-values.ts";
import type { SegmentWriter } from "../chat-template.ts";

export const userToken = "<｜User｜>";
export const assistantToken = "<｜Assistant｜>";
export const endToken = "<｜end▁of▁sentence｜>";
export const callsBegin = "<｜tool▁calls▁begin｜>";
export const callBegin = "<｜tool▁call▁begin｜>";
export const callSeparator = "<｜tool▁sep｜>";
export const callEnd = "<｜tool▁call▁end｜>";
export const callsEnd = "<｜tool▁calls▁end｜>";
export const outputsBegin = "<｜tool▁outputs▁begin｜>";
export const outputBegin = "<｜tool▁output▁begin｜>";
export const outputEnd = "<｜tool▁output▁end｜>";
export const outputsEnd = "<｜tool▁outputs▁end｜>";

/** System messages, wherever they stand, with an empty line between them. */
export function writeSystem(writer: SegmentWriter, messages: readonly JsonValue[]): void {
  let isFirst = true;
  messages.forEach((message, index) => {
    if (attribute(message, "role") !== "system") return;
    writer.begin(index);
    if (!isFirst) writer.template("\n\n");
    writer.words(textOperand(attribute(message, "content")));
    isFirst = false;
  });
  writer.begin(null);
}

/** Arguments as SGLang's versions of the templates write them: a text as it is. */
export function argumentsText(value: TemplateValue): string {
  return typeof value === "string" ? value : toJson(value);
}
