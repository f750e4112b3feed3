// The chat template of Qwen3-Coder: append-only, tools and calls as XML-like tags instead of JSON.

import { type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import {
  attribute,
  isIterable,
  isStructured,
  isTruthy,
  itemsOf,
  iterate,
  lengthOf,
  printed,
  type TemplateValue,
  textOperand,
  toJson,
  trimmed,
} from "../template-values.ts";
import { endToken, startToken, writeGenerationPrompt, writeTurn } from "./parts.ts";
import { writeXmlCalls } from "./xml-calls.ts";

const defaultSystem = "You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks.";

const toolsFooter = `
</tools>

If you choose to call a tool ONLY reply in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
value_2
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- Function calls MUST follow the specified format: the tool calling block MUST begin with an opening <tool_call> tag and end with a closing </tool_call> tag.
- Required parameters MUST be specified
- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after
- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls
</IMPORTANT>`;

export const qwen3Coder: ChatTemplate = ({ messages, tools, addGenerationPrompt }) => {
  const writer = new SegmentWriter();
  const hasSystem = attribute(messages[0], "role") === "system";
  writeSystem(writer, hasSystem ? attribute(messages[0], "content") : undefined, tools);
  messages.forEach((message, index) => {
    if (hasSystem && index === 0) return;
    writer.begin(index);
    const role = attribute(message, "role");
    const calls = attribute(message, "tool_calls");
    if (role === "assistant" && calls !== undefined && isIterable(calls) && lengthOf(calls) > 0) {
      writer.template(`${startToken}assistant`);
      const content = attribute(message, "content");
      if (typeof content === "string" && trimmed(content) !== "") {
        writer.template("\n");
        writer.words(trimmed(content));
        writer.template("\n");
      }
      writeXmlCalls(writer, calls, () => "\n");
      writer.template(`${endToken}\n`);
    } else if (role === "tool") {
      const before = index > (hasSystem ? 1 : 0) ? messages[index - 1] : undefined;
      if (isTruthy(before) && attribute(before, "role") !== "tool") writer.template(`${startToken}user\n`);
      writer.template("<tool_response>\n");
      writer.words(printed(attribute(message, "content")));
      writer.template("\n</tool_response>\n");
      const isLast = index === messages.length - 1;
      if (isLast || attribute(messages[index + 1], "role") !== "tool") writer.template(`${endToken}\n`);
    } else {
      writeTurn(writer, textOperand(role), textOperand(attribute(message, "content")));
    }
  });
  if (addGenerationPrompt) writeGenerationPrompt(writer);
  return writer.finish();
};

function writeSystem(writer: SegmentWriter, words: TemplateValue, tools: TemplateValue): void {
  const hasTools = isIterable(tools) && lengthOf(tools) > 0;
  if (words === undefined && !hasTools) return;
  writer.begin(words === undefined ? null : 0);
  writer.template(`${startToken}system\n`);
  if (words === undefined) writer.template(defaultSystem);
  else writer.words(textOperand(words));
  if (hasTools) {
    writer.template("\n\n# Tools\n\nYou have access to the following tools:\n\n<tools>");
    for (const tool of iterate(tools)) writeTool(writer, tool);
    writer.template(toolsFooter);
  }
  writer.template(`${endToken}\n`);
}

function writeTool(writer: SegmentWriter, given: TemplateValue): void {
  const tool = attribute(given, "function") ?? given;
  writer.tools(`\n<function>\n<name>${printed(attribute(tool, "name"))}</name>`);
  const description = attribute(tool, "description");
  if (description !== undefined) writer.tools(`\n<description>${trimmed(description)}</description>`);
  writer.tools("\n<parameters>");
  const parameters = attribute(tool, "parameters");
  const properties = parameters instanceof Map ? parameters.get("properties") : undefined;
  if (properties instanceof Map) {
    for (const [name, fields] of itemsOf(properties)) {
      writer.tools(`\n<parameter>\n<name>${name}</name>`);
      const type = attribute(fields, "type");
      if (type !== undefined) writer.tools(`\n<type>${printed(type)}</type>`);
      const about = attribute(fields, "description");
      if (about !== undefined) writer.tools(`\n<description>${trimmed(about)}</description>`);
      writeOtherKeys(writer, fields, ["name", "type", "description"]);
      writer.tools("\n</parameter>");
    }
  }
  writeOtherKeys(writer, parameters, ["type", "properties"]);
  writer.tools("\n</parameters>");
  writeOtherKeys(writer, tool, ["type", "name", "description", "parameters"]);
  writer.tools("\n</function>");
}

function writeOtherKeys(writer: SegmentWriter, value: TemplateValue, written: readonly string[]): void {
  if (!(value instanceof Map)) return;
  for (const [key, held] of value) {
    if (written.includes(key)) continue;
    writer.tools(`\n<${key}>${isStructured(held) ? toJson(held) : printed(held)}</${key}>`);
  }
}
