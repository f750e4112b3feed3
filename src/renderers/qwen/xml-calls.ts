// Structured calls as Qwen3-Coder and Qwen3.5 write them: one tag a parameter.

import type { SegmentWriter } from "../chat-template.ts";
import {
  attribute,
  isStructured,
  itemsOf,
  iterate,
  printed,
  type TemplateValue,
  textOperand,
  toJson,
} from "../template-values.ts";

/** `before` is what stands before the call at a place. */
export function writeXmlCalls(writer: SegmentWriter, calls: TemplateValue, before: (index: number) => string): void {
  for (const [index, given] of iterate(calls).entries()) {
    const call = attribute(given, "function") ?? given;
    writer.template(`${before(index)}<tool_call>\n<function=`);
    writer.words(textOperand(attribute(call, "name")));
    writer.template(">\n");
    for (const [name, value] of itemsOf(attribute(call, "arguments"))) {
      writer.template(`<parameter=`);
      writer.words(name);
      writer.template(">\n");
      writer.words(isStructured(value) ? toJson(value) : printed(value));
      writer.template("\n</parameter>\n");
    }
    writer.template("</function>\n</tool_call>");
  }
}
