// The chat templates of Llama 3.1 and 3.2 Instruct: a system turn with the date, tools in the first user turn, contents trimmed,
// one call a message. The revisions differ in the date and in the built-in tools of 3.1.

import { dumpJson, type JsonValue } from "../../python-semantics/json/index.ts";
import { type ChatTemplate, SegmentWriter, type TemplateInput } from "../chat-template.ts";
import { templateDate } from "../template-date.ts";
import {
  attribute,
  contains,
  isIterable,
  isTruthy,
  itemsOf,
  iterate,
  lengthOf,
  printed,
  raised,
  type TemplateValue,
  textOperand,
  toJson,
  trimmed,
} from "../template-values.ts";

export const startHeader = "<|start_header_id|>";
export const endOfTurn = "<|eot_id|>";

const callInstruction =
  'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.' +
  "Do not use variables.\n\n";

export const llama31: ChatTemplate = (input) => render(input, input.kwargs.get("builtin_tools"), "26 Jul 2024");

export const llama32: ChatTemplate = (input) => {
  const { now } = input.context;
  return render(input, undefined, now === null ? "26 Jul 2024" : templateDate(now, "day month year"));
};

function render(
  { messages, tools: given, addGenerationPrompt, kwargs, context }: TemplateInput,
  builtinTools: TemplateValue,
  today: string,
): ReturnType<ChatTemplate> {
  const tools = kwargs.has("custom_tools") ? kwargs.get("custom_tools")! : given;
  const toolsPlace =
    tools === null ? "none" : isToolsInUserTurn(kwargs.get("tools_in_user_message")) ? "user" : "system";
  const hasSystem = attribute(messages[0], "role") === "system";
  const writer = new SegmentWriter();
  writer.template(printed(context.specialTokens.get("bos_token")));
  writer.begin(hasSystem ? 0 : null);
  writeHeader(writer, "system");
  if (builtinTools !== undefined || tools !== null) writer.template("Environment: ipython\n");
  if (builtinTools !== undefined) {
    const shown = iterate(builtinTools).filter((tool) => tool !== "code_interpreter");
    writer.template(`Tools: ${shown.map(printed).join(", ")}\n\n`);
  }
  const date = kwargs.has("date_string") ? textOperand(kwargs.get("date_string")) : today;
  writer.template(`Cutting Knowledge Date: December 2023\nToday Date: ${date}\n\n`);
  if (toolsPlace === "system") {
    writer.template(
      "You have access to the following functions. To call a function, please respond with JSON for a function call.",
    );
    writeTools(writer, tools);
  }
  if (hasSystem) writer.words(trimmed(attribute(messages[0], "content")));
  writer.template(endOfTurn);
  let next = hasSystem ? 1 : 0;
  if (toolsPlace === "user") {
    if (next >= messages.length) {
      throw raised("Cannot put tools in the first user message when there's no first user message!");
    }
    writer.begin(next);
    writeHeader(writer, "user");
    writer.template("Given the following functions, please respond with a JSON for a function call ");
    writer.template("with its proper arguments that best answers the given prompt.\n\n");
    writeTools(writer, tools);
    writer.words(trimmed(attribute(messages[next], "content")));
    writer.template(endOfTurn);
    next++;
  }
  for (; next < messages.length; next++) {
    writer.begin(next);
    writeMessage(writer, messages[next]!, builtinTools);
  }
  writer.begin(null);
  if (addGenerationPrompt) writeHeader(writer, "assistant");
  return writer.finish();
}

function isToolsInUserTurn(value: TemplateValue): boolean {
  return value === undefined || isTruthy(value);
}

function writeHeader(writer: SegmentWriter, role: string): void {
  writer.template(`${startHeader}${role}<|end_header_id|>\n\n`);
}

function writeTools(writer: SegmentWriter, tools: TemplateValue): void {
  writer.template(callInstruction);
  for (const tool of iterate(tools)) {
    writer.tools(dumpJson(tool, { indent: 4 }));
    writer.template("\n\n");
  }
}

function writeMessage(writer: SegmentWriter, message: JsonValue, builtinTools: TemplateValue): void {
  const role = attribute(message, "role");
  const content = attribute(message, "content");
  if (contains(message, "tool_calls")) {
    writeCall(writer, attribute(message, "tool_calls"), builtinTools);
  } else if (role === "tool" || role === "ipython") {
    writeHeader(writer, "ipython");
    writer.words(isIterable(content) ? toJson(content) : printed(content));
    writer.template(endOfTurn);
  } else {
    writeHeader(writer, textOperand(role));
    writer.words(trimmed(content));
    writer.template(endOfTurn);
  }
}

function writeCall(writer: SegmentWriter, calls: TemplateValue, builtinTools: TemplateValue): void {
  if (lengthOf(calls) !== 1) throw raised("This model only supports single tool-calls at once!");
  const call = attribute(calls instanceof Map ? undefined : iterate(calls)[0], "function");
  const name = attribute(call, "name");
  const callArguments = attribute(call, "arguments");
  writeHeader(writer, "assistant");
  if (builtinTools !== undefined && typeof name === "string" && contains(builtinTools, name)) {
    const list = itemsOf(callArguments).map(([key, value]) => `${key}="${textOperand(value)}"`);
    writer.template("<|python_tag|>");
    writer.words(`${name}.call(${list.join(", ")})`);
  } else {
    writer.template('{"name": "');
    writer.words(textOperand(name));
    writer.template('", "parameters": ');
    writer.words(toJson(callArguments));
    writer.template("}");
  }
  writer.template(builtinTools === undefined ? endOfTurn : "<|eom_id|>");
}
