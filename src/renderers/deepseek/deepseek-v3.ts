// SGLang's tool template of DeepSeek-V3, and the template of DeepSeek-R1: calls as fenced JSON, tool results in a section that is
// opened once and closed by what follows it.

import type { JsonValue } from "../../python-semantics/json/index.ts";
import { type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import {
  attribute,
  contains,
  iterate,
  methodReceiver,
  printed,
  type TemplateValue,
  textOperand,
  toJson,
} from "../template-values.ts";
import {
  argumentsText,
  assistantToken,
  callBegin,
  callEnd,
  callsBegin,
  callSeparator,
  callsEnd,
  endToken,
  outputBegin,
  outputEnd,
  outputsBegin,
  outputsEnd,
  userToken,
  writeSystem,
} from "./parts.ts";

const toolsHeader =
  "\n\nYou are a helpful assistant with tool calling capabilities. When a tool call is needed, you MUST use the following " +
  `format to issue the call:\n${callsBegin}${callBegin}function${callSeparator}FUNCTION_NAME\n` +
  `\`\`\`json\n{"param1": "value1", "param2": "value2"}\n\`\`\`${callEnd}${callsEnd}\n\n` +
  "Make sure the JSON is valid.## Tools\n\n### Function\n\nYou have the following functions available:\n\n";

export const deepseekV3SglangTools: ChatTemplate = ({ messages, tools, addGenerationPrompt, context }) => {
  const writer = new SegmentWriter();
  writer.template(`\n${printed(context.specialTokens.get("bos_token"))}`);
  writeSystem(writer, messages);
  if (tools !== null) {
    writer.template(toolsHeader);
    for (const tool of iterate(tools)) {
      writer.template("\n```json\n");
      writer.tools(toJson(tool));
      writer.template("\n```\n");
    }
  }
  let isTool = false;
  let isOutputFirst = true;
  let isLastUser = false;
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    const content = attribute(message, "content");
    if (role === "user") {
      isTool = false;
      isLastUser = true;
      writer.template(userToken);
      writer.words(textOperand(content));
      writer.template(assistantToken);
    } else if (role === "assistant") {
      isLastUser = false;
      if (isTool) writer.template(outputsEnd);
      isTool = false;
      const calls = attribute(message, "tool_calls");
      if (calls === undefined || calls === null) {
        writer.words(textOperand(content));
        writer.template(endToken);
      } else {
        isOutputFirst = true;
        for (const [place, call] of iterate(calls).entries()) {
          if (place === 0 && content !== null) writer.words(textOperand(content));
          writeCall(writer, call, { before: place === 0 ? callsBegin : "\n", writeArguments: argumentsText });
        }
        writer.template(`${callsEnd}${endToken}`);
      }
    } else if (role === "tool") {
      isLastUser = false;
      isTool = true;
      const opening = `Use the results below to formulate an answer to the user question unless additional information is needed.${outputsBegin}`;
      writer.template(`${isOutputFirst ? opening : "\n"}${outputBegin}`);
      writer.words(textOperand(content));
      writer.template(outputEnd);
      isOutputFirst = false;
    }
  });
  writer.begin(null);
  if (isTool) writer.template(`${outputsEnd}\n`);
  if (addGenerationPrompt && !isLastUser && !isTool) writer.template(`${assistantToken}\n`);
  return writer.finish();
};

export const deepseekR1: ChatTemplate = ({ messages, addGenerationPrompt, context }) => {
  const writer = new SegmentWriter();
  writer.template(printed(context.specialTokens.get("bos_token")));
  writeSystem(writer, messages);
  let isTool = false;
  let isOutputFirst = true;
  let isFirstCall = true;
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    const content = attribute(message, "content");
    if (role === "user") {
      isTool = false;
      writer.template(userToken);
      writer.words(textOperand(content));
    } else if (role === "assistant" && contains(message, "tool_calls")) {
      isTool = false;
      for (const call of iterate(attribute(message, "tool_calls"))) {
        if (isFirstCall) {
          writer.template(assistantToken);
          if (content !== null) writer.words(textOperand(content));
        }
        writeCall(writer, call, { before: isFirstCall ? callsBegin : "\n", writeArguments: textOperand });
        isFirstCall = false;
      }
      writer.template(`${callsEnd}${endToken}`);
    } else if (role === "assistant") {
      writer.template(isTool ? outputsEnd : assistantToken);
      writer.words(!isTool && contains(content, "</think>") ? afterLastThinking(content) : textOperand(content));
      writer.template(endToken);
      isTool = false;
    } else if (role === "tool") {
      isTool = true;
      writer.template(`${isOutputFirst ? outputsBegin : ""}${outputBegin}`);
      writer.words(textOperand(content));
      writer.template(outputEnd);
      isOutputFirst = false;
    }
  });
  writer.begin(null);
  if (isTool) writer.template(outputsEnd);
  else if (addGenerationPrompt) writer.template(`${assistantToken}<think>\n`);
  return writer.finish();
};

function afterLastThinking(content: TemplateValue): string {
  return methodReceiver(content, "split").split("</think>").at(-1) ?? "";
}

function writeCall(
  writer: SegmentWriter,
  call: JsonValue,
  { before, writeArguments }: { readonly before: string; readonly writeArguments: (value: TemplateValue) => string },
): void {
  const body = attribute(call, "function");
  writer.template(before + callBegin);
  writer.words(textOperand(attribute(call, "type")));
  writer.template(callSeparator);
  writer.words(textOperand(attribute(body, "name")));
  writer.template("\n```json\n");
  writer.words(writeArguments(attribute(body, "arguments")));
  writer.template(`\n\`\`\`${callEnd}`);
}
