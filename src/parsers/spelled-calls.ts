// One call of a tool in each format, as its models write it: to find out which tool names a format
// can write at all (a name is written unchanged; the parser's reading of it is the answer), and as
// the example for a model whose call could not be read. A model that reads only what was wrong
// repeats its mistake; one that sees the right form copies it.

import { type ParseProblem, type Tool, toolFromDefinition } from "../core/index.ts";
import { dumpJson, fromPlain, type JsonObject, type JsonValue } from "../python-semantics/json/index.ts";
import { responseTemplateName } from "./parser-table.ts";
import { firstToolCallParserName, toolCallParser, toolCallParserNames } from "./tool-call-parsers.ts";
import { declaredParameters, toolProperties } from "./tool-call-scan.ts";

/** The only argument of a spelled call, as formats with JSON write it. */
export const onlyArgument = '{"city": "Rome"}';

const json = (name: string, key = "arguments"): string =>
  `{"name": ${JSON.stringify(name)}, "${key}": {"city": "Rome"}}`;
const tags = (name: string, value = "\nRome\n"): string =>
  `<function=${name}>\n<parameter=city>${value}</parameter>\n</function>`;

const spellings: Readonly<Record<string, (name: string) => string>> = {
  beam: (name) =>
    ` to=${name}<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name="city">\nRome\n</rfl:parameter><|call|>`,
  cohere_command3: (name) =>
    `<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": ${JSON.stringify(name)}, "parameters": ${onlyArgument}}\n]<|END_ACTION|>`,
  cohere_command4: (name) =>
    `<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": ${JSON.stringify(name)}, "parameters": ${onlyArgument}}\n]<|END_ACTION|>`,
  deepseekv3: (name) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${onlyArgument}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  deepseekv31: (name) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${onlyArgument}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  deepseekv32: (name) =>
    `<｜DSML｜function_calls>\n<｜DSML｜invoke name="${name}">\n<｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>`,
  deepseekv4: (name) =>
    `<｜DSML｜tool_calls>\n<｜DSML｜invoke name="${name}">\n<｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>`,
  deepseekv41: (name) =>
    `<｜DSML｜ calls>\n<｜DSML｜ invoke name="${name}">\n<｜DSML｜ parameter name="city" string="true">Rome</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>`,
  gemma4: (name) => `<|tool_call>call:${name}{city:<|"|>Rome<|"|>}<tool_call|>`,
  gigachat35: (name) =>
    `<｜GCML｜tool_calls>\n<｜GCML｜invoke name="${name}">\n<｜GCML｜parameter name="city" string="true">Rome</｜GCML｜parameter>\n</｜GCML｜invoke>\n</｜GCML｜tool_calls>`,
  hunyuan: (name) =>
    `<tool_calls>\n<tool_call>${name}<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>\n</tool_calls>`,
  iquest_q1: (name) => `<iquest_tool_call>${name}<arg_key>city</arg_key><arg_value>Rome</arg_value></iquest_tool_call>`,
  ling3: (name) => `<tool_call>${name}\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>`,
  gigachat3: (name) => `function call<|role_sep|>\n${json(name)}`,
  glm45: (name) => `<tool_call>${name}\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>`,
  glm47: (name) => `<tool_call>${name}<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call>`,
  "gpt-oss": (name) =>
    `<|start|>assistant<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${onlyArgument}<|call|>`,
  hermes: (name) => `<tool_call>\n${json(name)}\n</tool_call>`,
  interns1: (name) => `<|action_start|> <|plugin|>\n${json(name, "parameters")}<|action_end|>`,
  kimi_k2: (name) =>
    `<|tool_calls_section_begin|><|tool_call_begin|>functions.${name}:0<|tool_call_argument_begin|>${onlyArgument}<|tool_call_end|><|tool_calls_section_end|>`,
  lfm2: (name) => `<|tool_call_start|>[${name}(city="Rome")]<|tool_call_end|>`,
  llama3: (name) => `<|python_tag|>${json(name, "parameters")}`,
  mimo: (name) => `<tool_call>\n<function=${name}>\n<parameter=city>Rome</parameter>\n</function>\n</tool_call>`,
  minicpm5: (name) => `<function name="${name}"><param name="city">Rome</param></function>`,
  "minimax-m2": (name) =>
    `<minimax:tool_call>\n<invoke name="${name}">\n<parameter name="city">Rome</parameter>\n</invoke>\n</minimax:tool_call>`,
  "minimax-m3": (name) =>
    `]<]minimax[>[<tool_call>]<]minimax[>[<invoke name="${name}">]<]minimax[>[<city>Rome]<]minimax[>[</city>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>`,
  mistral: (name) => `[TOOL_CALLS] [${json(name)}]`,
  mistral_ids: (name) => `[TOOL_CALLS]${name}[CALL_ID]a1B2c3D4e[ARGS]${onlyArgument}`,
  pythonic: (name) => `[${name}(city="Rome")]`,
  qwen25: (name) => `<tool_call>\n${json(name)}\n</tool_call>`,
  qwen3_coder: (name) => `<tool_call>\n${tags(name)}\n</tool_call>`,
  seed_oss: (name) => `<seed:tool_call>\n${tags(name, "Rome")}\n</seed:tool_call>`,
  step3: (name) =>
    `<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="${name}"><steptml:parameter name="city">Rome</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>`,
  apertus2509: (name) => `<|tools_prefix|>[{${JSON.stringify(name)}: ${onlyArgument}}]<|tools_suffix|>`,
  dots: (name) =>
    `<dots_function_call>\n<invoke name="${name}">\n<parameter name="city">Rome</parameter>\n</invoke>\n</dots_function_call>`,
  inkling: (name) =>
    `<|message_model|>${name}<|content_invoke_tool_json|>{"name": ${JSON.stringify(name)}, "args": ${onlyArgument}}<|end_message|>`,
  k2_horizon: (name) =>
    `<ifm|tool_calls>\n<ifm|tool_call>${name}\n<ifm|arg_key>city</ifm|arg_key>\n<ifm|arg_value>Rome</ifm|arg_value>\n</ifm|tool_call>\n</ifm|tool_calls>`,
  kimi_k3: (name) =>
    `<|open|>tools<|sep|><|open|>call tool="${name}" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>Rome<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>`,
  muse: (name) =>
    ` to=functions<|message|><atem:function_calls>\n<atem:invoke name="${name}">\n<atem:parameter name="city">Rome</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eot|>`,
  poolside_v1: (name) => `<tool_call>${name}\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>`,
  spark25: (name) => `<tool_call>${name}\n<arg_key>city</arg_key><arg_value>Rome</arg_value>\n</tool_call>`,
  ernie45: (name) => `<tool_call>\n${json(name)}\n</tool_call>`,
  "granite-20b-fc": (name) => `<function_call> ${json(name)}`,
  granite: (name) => `<|tool_call|>[${json(name)}]`,
  hy_v3: (name) =>
    `<tool_calls>\n<tool_call>${name}<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>\n</tool_calls>`,
  hy_v4: (name) =>
    `<tool_calls><tool_call>${name}<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call></tool_calls>`,
  olmo3: (name) => `<function_calls>\n${name}(city="Rome")\n</function_calls>`,
  plamo3: (name) =>
    `<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>${name}<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>${onlyArgument}<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>`,
  granite4: (name) => `<tool_call>\n${json(name)}\n</tool_call>`,
  internlm: (name) => `<|action_start|><|plugin|>\n${json(name, "parameters")}<|action_end|>`,
  jamba: (name) => `<tool_calls>[${json(name)}]</tool_calls>`,
  longcat: (name) => `<longcat_tool_call>\n${json(name)}\n</longcat_tool_call>`,
  phi4_mini_json: (name) => `functools[${json(name)}]`,
  qwen3_json: (name) => `<tool_call>\n${json(name)}\n</tool_call>`,
  functiongemma: (name) => `<start_function_call>call:${name}{city:<escape>Rome<escape>}<end_function_call>`,
  hunyuan_a13b: (name) => `<tool_calls>[${json(name)}]</tool_calls>`,
  xlam: (name) => `[${json(name)}]`,
  trinity: (name) => `<tool_call>\n${json(name)}\n</tool_call>`,
};

/** Names of the formats for which the spelling of a call is known. */
export const spelledFormats: readonly string[] = Object.keys(spellings);

/**
 * A call of `name` with the argument "city"; `null` if the spelling of the format is unknown.
 * `parser`: a name that `toolCallParser` accepts.
 */
export function spelledCall(parser: string, name: string): string | null {
  if (parser === responseTemplateName) return null;
  const format = firstToolCallParserName(parser);
  return Object.hasOwn(spellings, format) ? spellings[format]!(name) : null;
}

/** The tool of that name, for such a call. */
export const calledTool = (name: string) =>
  toolFromDefinition(
    fromPlain({
      type: "function",
      function: {
        name,
        description: "Finds a city.",
        parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
      },
    }) as JsonObject,
  );

/**
 * Formats whose parsers do not read back a call of a tool of this name, among those whose calls can
 * be spelled.
 */
export function formatsWithout(name: string): readonly string[] {
  const formats = [...new Set(toolCallParserNames.map((parser) => toolCallParser(parser)))];
  return formats
    .filter((parser) => {
      const text = spelledCall(parser.name, name);
      if (text === null) return false;
      const { calls } = parser.parse(text, { tools: [calledTool(name)] });
      return calls.length !== 1 || calls[0]!.name !== name;
    })
    .map((parser) => parser.name);
}

// The example that the model reads.

/** Stands for the name of the tool in an example; no format changes it. */
export const calledName = "called_tool";

/** Values that are written the same way in every format. */
const plainValue = /^[\w #.,@+-]{1,60}$/;

/** Names of arguments that an example shows at most. */
const mostArguments = 8;

/** The tool that the model called, and the arguments that it gave. */
export type CalledTool = { readonly toolName: string; readonly arguments: JsonObject | null };

/**
 * A sentence with an example call in the format of `parser`: the tool with its required arguments,
 * those that the model gave with its own values. Some formats show only one argument.
 */
export function callExample(
  parser: string,
  { toolName, arguments: written }: CalledTool,
  tools: readonly Tool[],
): string {
  const spelled = spelledCall(parser, calledName);
  if (spelled === null) return "Write it in the format that the tools section shows.";
  const required = exampleArguments(toolName, written, tools);
  const parameters: typeof required = required.length > 0 ? required : [["argument", "..."]];
  const fill = (text: string, [name, value] = parameters[0]!): string => {
    const isText = typeof value === "string";
    const parts: Readonly<Record<string, string>> = {
      [calledName]: toolName,
      [onlyArgument]: dumpJson(new Map(required)),
      city: name,
      Rome: isText ? value : dumpJson(value),
    };
    const typed = isText ? text : text.replace('string="true"', 'string="false"');
    return typed.replace(/called_tool|\{"city": "Rome"\}|city|Rome/g, (part) => parts[part]!);
  };
  // A unit of tags for each argument; other formats that are not JSON show the first one only.
  const [unit = ""] = tagUnit.exec(spelled) ?? [];
  const [before = "", after = ""] = unit === "" ? [spelled] : spelled.split(unit);
  const units = unit === "" ? [] : parameters.map((parameter) => fill(unit, parameter));
  return `Write a call like this:\n${fill(before)}${units.join("")}${fill(after)}`;
}

/** The place of the argument in formats that write arguments as tags. */
export const tagUnit = /<[^<>]{0,80}>?city[^{}]{0,80}?Rome\s{0,2}<[^<>]{0,80}>\n?/;

/** Formats whose parsers report a call that does not tell which tool is meant. */
const formErrors: ReadonlySet<ParseProblem["code"]> = new Set([
  "not-json",
  "not-an-object",
  "no-name",
  "unterminated-call",
]);

/** The same problem with an example in its detail, if the form of the call was wrong. */
export function withExample(problem: ParseProblem, parser: string, tools: readonly Tool[]): ParseProblem {
  const { code, text, toolName, detail } = problem;
  if (!formErrors.has(code) || tools.length === 0) return problem;
  const meant =
    tools.find(({ name }) => name === toolName) ?? tools.find(({ name }) => text.includes(name)) ?? tools[0]!;
  return { ...problem, detail: `${detail} ${callExample(parser, { toolName: meant.name, arguments: null }, tools)}` };
}

function exampleArguments(
  toolName: string,
  written: JsonObject | null,
  tools: readonly Tool[],
): readonly (readonly [string, JsonValue])[] {
  const tool = tools.find(({ name }) => name === toolName);
  const properties = toolProperties(tool);
  const parameters = declaredParameters(tool);
  const required = parameters instanceof Map ? parameters.get("required") : null;
  const declared = properties.size > 0 ? [...properties.keys()] : [...(written?.keys() ?? [])];
  const names = Array.isArray(required) ? declared.filter((name) => required.includes(name)) : [];
  const shown = (names.length > 0 ? names : declared.slice(0, 1)).slice(0, mostArguments);
  const ownValue = (name: string): string | null => {
    const own = written?.get(name);
    return typeof own === "string" && plainValue.test(own) ? own : null;
  };
  // Formats that are not JSON show the first argument only: preferably one that the model gave.
  return shown
    .toSorted((one, other) => Number(ownValue(other) !== null) - Number(ownValue(one) !== null))
    .map((name) => [name, ownValue(name) ?? placeholder(properties.get(name))] as const);
}

/** A value of the declared type that is obviously not a real one. */
function placeholder(schema: JsonValue | undefined): JsonValue {
  const type = schema instanceof Map ? schema.get("type") : undefined;
  const values: Readonly<Record<string, unknown>> = {
    integer: 1,
    number: 1,
    boolean: true,
    array: [],
    object: {},
    null: null,
  };
  return typeof type === "string" && Object.hasOwn(values, type) ? fromPlain(values[type]) : "...";
}
