// The chat template of Qwen3.5: tools as JSON, calls as tags, contents trimmed, the generation prompt opens the thinking, and
// a new user message strips the thinking of every turn before it.

import { pythonStrip } from "../../python-semantics/index.ts";
import type { JsonValue } from "../../python-semantics/json/index.ts";
import { type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import { attribute, contains, isTruthy, iterate, printed, raised, type TemplateValue } from "../template-values.ts";
import { endToken, startToken, toolJson, writeGenerationPrompt, writeTurn } from "./parts.ts";
import { splitThinking } from "../split-thinking.ts";
import { writeXmlCalls } from "./xml-calls.ts";

const toolsFooter = `
</tools>

If you choose to call a function ONLY reply in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
This is the value for the second parameter
that can span
multiple lines
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags
- Required parameters MUST be specified
- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after
- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls
</IMPORTANT>`;

export const qwen35: ChatTemplate = ({ messages, tools, addGenerationPrompt, kwargs }) => {
  if (messages.length === 0) throw raised("No messages provided.");
  const writer = new SegmentWriter();
  const vision: Vision = { images: 0, videos: 0, isNumbered: isTruthy(kwargs.get("add_vision_id")) };
  writeSystem(writer, messages[0], tools, vision);
  const lastQuery = lastQueryIndex(messages, vision);
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    const content = pythonStrip(visibleText(attribute(message, "content"), vision, "counts"));
    if (role === "system") {
      if (index > 0) throw raised("System message must be at the beginning.");
    } else if (role === "user") {
      writeTurn(writer, role, content);
    } else if (role === "assistant") {
      writeAssistant(writer, message, { content, isAfterLastQuery: index > lastQuery });
    } else if (role === "tool") {
      if (isTruthy(messages[index - 1]) && attribute(messages[index - 1], "role") !== "tool") {
        writer.template(`${startToken}user`);
      }
      writer.template("\n<tool_response>\n");
      writer.words(content);
      writer.template("\n</tool_response>");
      const isLast = index === messages.length - 1;
      if (isLast || attribute(messages[index + 1], "role") !== "tool") writer.template(`${endToken}\n`);
    } else {
      throw raised("Unexpected message role.");
    }
  });
  if (addGenerationPrompt) {
    writeGenerationPrompt(writer);
    writer.template(kwargs.get("enable_thinking") === false ? "<think>\n\n</think>\n\n" : "<think>\n");
  }
  return writer.finish();
};

function writeSystem(writer: SegmentWriter, first: TemplateValue, tools: TemplateValue, vision: Vision): void {
  const isSystem = attribute(first, "role") === "system";
  const hasTools = Array.isArray(tools) ? tools.length > 0 : typeof tools === "string" && tools !== "";
  if (!isSystem && !hasTools) return;
  writer.begin(isSystem ? 0 : null);
  writer.template(`${startToken}system\n`);
  if (hasTools) {
    writer.template("# Tools\n\nYou have access to the following functions:\n\n<tools>");
    for (const tool of iterate(tools)) {
      writer.template("\n");
      writer.tools(toolJson(tool));
    }
    writer.template(toolsFooter);
  }
  const words = isSystem ? pythonStrip(visibleText(attribute(first, "content"), vision, "system")) : "";
  if (hasTools && words !== "") writer.template("\n\n");
  writer.words(words);
  writer.template(`${endToken}\n`);
}

function lastQueryIndex(messages: readonly JsonValue[], vision: Vision): number {
  for (let index = messages.length - 1; index >= 0; index--) {
    if (attribute(messages[index], "role") !== "user") continue;
    const content = pythonStrip(visibleText(attribute(messages[index], "content"), vision, "plain"));
    if (!(content.startsWith("<tool_response>") && content.endsWith("</tool_response>"))) return index;
  }
  throw raised("No user query found in messages.");
}

function writeAssistant(
  writer: SegmentWriter,
  message: JsonValue,
  turn: { readonly content: string; readonly isAfterLastQuery: boolean },
): void {
  const given = attribute(message, "reasoning_content");
  const isSplit = typeof given !== "string" && turn.content.includes("</think>");
  const { reasoning, content } = isSplit
    ? splitThinking(turn.content)
    : { reasoning: typeof given === "string" ? given : "", content: turn.content };
  writer.template(`${startToken}assistant\n`);
  if (turn.isAfterLastQuery) {
    writer.template("<think>\n");
    writer.words(pythonStrip(reasoning));
    writer.template("\n</think>\n\n");
  }
  writer.words(content);
  const calls = attribute(message, "tool_calls");
  if (isTruthy(calls) && (Array.isArray(calls) || typeof calls === "string")) {
    writeXmlCalls(writer, calls, (index) => (index > 0 ? "\n" : pythonStrip(content) === "" ? "" : "\n\n"));
  }
  writer.template(`${endToken}\n`);
}

type Vision = { images: number; videos: number; readonly isNumbered: boolean };

/** The text of a content that may be a list of parts; pictures and films become place holders. */
function visibleText(content: TemplateValue, vision: Vision, use: "system" | "plain" | "counts"): string {
  if (typeof content === "string") return content;
  if (content === undefined || content === null) return "";
  if (!Array.isArray(content)) throw raised("Unexpected content type.");
  return content.map((item) => partText(item, vision, use)).join("");
}

function partText(item: JsonValue, vision: Vision, use: "system" | "plain" | "counts"): string {
  const type = attribute(item, "type");
  if (contains(item, "image") || contains(item, "image_url") || type === "image") {
    if (use === "system") throw raised("System message cannot contain images.");
    if (use === "counts") vision.images++;
    return `${vision.isNumbered ? `Picture ${vision.images}: ` : ""}<|vision_start|><|image_pad|><|vision_end|>`;
  }
  if (contains(item, "video") || type === "video") {
    if (use === "system") throw raised("System message cannot contain videos.");
    if (use === "counts") vision.videos++;
    return `${vision.isNumbered ? `Video ${vision.videos}: ` : ""}<|vision_start|><|video_pad|><|vision_end|>`;
  }
  if (contains(item, "text")) return printed(attribute(item, "text"));
  throw raised("Unexpected item type in content.");
}
