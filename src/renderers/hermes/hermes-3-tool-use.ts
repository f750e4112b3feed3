// The tool template of Hermes 3: the system turn is the template's own and describes the tools as Python would; a system message
// follows as a turn of its own. The end of a tool turn is written differently once something follows it.

import { ChatTemplateError, type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import {
  attribute,
  isIterable,
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

const startToken = "<|im_start|>";
const endToken = "<|im_end|>";

const toolsHeader =
  "You are a function calling AI model. You are provided with function signatures within <tools></tools> XML tags. You may " +
  "call one or more functions to assist with the user query. Don't make assumptions about what values to plug into functions. " +
  "Here are the available tools: <tools> ";

const toolsFooter = ` </tools>Use the following pydantic model json schema for each tool call you will make: {"properties": {"name": {"title": "Name", "type": "string"}, "arguments": {"title": "Arguments", "type": "object"}}, "required": ["name", "arguments"], "title": "FunctionCall", "type": "object"}}
For each function call return a json object with function name and arguments within <tool_call></tool_call> XML tags as follows:
<tool_call>
{"name": <function-name>, "arguments": <args-dict>}
</tool_call>${endToken}
`;

export const hermes3ToolUse: ChatTemplate = ({ messages, tools, addGenerationPrompt, context }) => {
  const writer = new SegmentWriter();
  writer.template(`${printed(context.specialTokens.get("bos_token"))}${startToken}system\n${toolsHeader}`);
  for (const [index, tool] of iterate(tools).entries()) {
    if (index > 0) writer.template("\n");
    writer.tools(toolText(attribute(tool, "function") ?? tool));
  }
  writer.template(toolsFooter);
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    const calls = attribute(message, "tool_calls");
    if (role === "user" || role === "system" || (role === "assistant" && calls === undefined)) {
      writer.template(`${startToken}${role}\n`);
      writer.words(textOperand(attribute(message, "content")));
      writer.template(`${endToken}\n`);
    } else if (role === "assistant") {
      writer.template(`${startToken}assistant`);
      for (const call of iterate(calls)) writeCall(writer, attribute(call, "function") ?? call);
      writer.template(`${endToken}\n`);
    } else if (role === "tool") {
      const before = messages[index - 1];
      if (isTruthy(before) && attribute(before, "role") !== "tool") writer.template(`${startToken}tool\n`);
      writer.template("<tool_response>\n");
      writer.words(printed(attribute(message, "content")));
      const isLast = index === messages.length - 1;
      writer.template(isLast ? "\n</tool_response>" : "\n</tool_response>\n");
      if (isLast || attribute(messages[index + 1], "role") !== "tool") writer.template(endToken);
    }
  });
  writer.begin(null);
  if (addGenerationPrompt) writer.template(`${startToken}assistant\n`);
  return writer.finish();
};

function writeCall(writer: SegmentWriter, call: TemplateValue): void {
  writer.template('\n<tool_call>\n{"name": "');
  writer.words(printed(attribute(call, "name")));
  writer.template('", ');
  const callArguments = attribute(call, "arguments");
  if (callArguments !== undefined) {
    writer.template('"arguments": ');
    writer.words(typeof callArguments === "string" ? callArguments : toJson(callArguments));
  }
  writer.template("}\n</tool_call>");
}

function toolText(tool: TemplateValue): string {
  const name = textOperand(attribute(tool, "name"));
  const parameters = attribute(tool, "parameters");
  const properties = attribute(parameters, "properties");
  const fields = itemsOf(properties);
  const result = attribute(tool, "return");
  const signature = fields.map(([field, spec]) => `${field}: ${pythonType(spec)}`).join(", ");
  const returns = result === undefined ? "" : ` -> ${pythonType(result)}`;
  const description = textOperand(attribute(tool, "description"));
  const list = fields.map(
    ([field, spec]) => `        ${field}(${pythonType(spec)}): ${trimmed(attribute(spec, "description"))}`,
  );
  const about = fields.length === 0 ? "" : `    Args:\n${list.join("")}`;
  const resultAbout = result === undefined ? undefined : attribute(result, "description");
  const returnsAbout = resultAbout === undefined ? "" : `\n    Returns:\n        ${textOperand(resultAbout)}`;
  const schema = lengthOf(properties) === 0 ? "{}" : toJson(parameters);
  return (
    `{"type": "function", "function": {"name": "${name}", "description": "${name}(${signature})${returns} - ${description}` +
    `\n\n${about}${returnsAbout}", "parameters": ${schema}}`
  );
}

const pythonTypes: ReadonlyMap<TemplateValue, string> = new Map([
  ["string", "str"],
  ["number", "float"],
  ["integer", "int"],
  ["boolean", "bool"],
]);

/** The template asks what it does not mean to in places (the items of an array); so do we. */
function pythonType(spec: TemplateValue): string {
  const type = attribute(spec, "type");
  const simple = pythonTypes.get(type);
  if (simple !== undefined) return simple;
  if (type === "array") return "list[Union[]]";
  if (type === "object") {
    const values = attribute(spec, "additionalProperties");
    return values === undefined ? "dict" : `dict[str, ${pythonType(values)}]`;
  }
  if (!isIterable(type)) return "Any";
  if (typeof type === "string" && type !== "") {
    throw new ChatTemplateError(
      "RecursionError",
      `Cannot render the tools with this chat template: type "${type}" has no end.`,
    );
  }
  return `Union[${iterate(type)
    .map((one) => pythonType(new Map([["type", one]])))
    .join(",")}]`;
}
