// One call of a tool in each format, as its models write it, to find out which tool names a format
// can write at all. A name is written unchanged; the parser's reading of it is the answer.

import { toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { responseTemplateName } from "./response-template/name.ts";
import { firstToolCallParserName, toolCallParser, toolCallParserNames } from "./tool-call-parsers.ts";

const json = (name: string, key = "arguments"): string =>
  `{"name": ${JSON.stringify(name)}, "${key}": {"city": "Rome"}}`;
const tags = (name: string, value = "\nRome\n"): string =>
  `<function=${name}>\n<parameter=city>${value}</parameter>\n</function>`;
const given = '{"city": "Rome"}';

const spellings: Readonly<Record<string, (name: string) => string>> = {
  beam: (name) =>
    ` to=${name}<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name="city">\nRome\n</rfl:parameter><|call|>`,
  cohere_command4: (name) =>
    `<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": ${JSON.stringify(name)}, "parameters": ${given}}\n]<|END_ACTION|>`,
  deepseekv3: (name) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${given}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  deepseekv31: (name) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${given}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
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
    `<|start|>assistant<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${given}<|call|>`,
  hermes: (name) => `<tool_call>\n${json(name)}\n</tool_call>`,
  interns1: (name) => `<|action_start|> <|plugin|>\n${json(name, "parameters")}<|action_end|>`,
  kimi_k2: (name) =>
    `<|tool_calls_section_begin|><|tool_call_begin|>functions.${name}:0<|tool_call_argument_begin|>${given}<|tool_call_end|><|tool_calls_section_end|>`,
  lfm2: (name) => `<|tool_call_start|>[${name}(city="Rome")]<|tool_call_end|>`,
  llama3: (name) => `<|python_tag|>${json(name, "parameters")}`,
  mimo: (name) => `<tool_call>\n<function=${name}>\n<parameter=city>Rome</parameter>\n</function>\n</tool_call>`,
  minicpm5: (name) => `<function name="${name}"><param name="city">Rome</param></function>`,
  "minimax-m2": (name) =>
    `<minimax:tool_call>\n<invoke name="${name}">\n<parameter name="city">Rome</parameter>\n</invoke>\n</minimax:tool_call>`,
  "minimax-m3": (name) =>
    `]<]minimax[>[<tool_call>]<]minimax[>[<invoke name="${name}">]<]minimax[>[<city>Rome]<]minimax[>[</city>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>`,
  mistral: (name) => `[TOOL_CALLS] [${json(name)}]`,
  mistral_ids: (name) => `[TOOL_CALLS]${name}[CALL_ID]a1B2c3D4e[ARGS]${given}`,
  pythonic: (name) => `[${name}(city="Rome")]`,
  qwen25: (name) => `<tool_call>\n${json(name)}\n</tool_call>`,
  qwen3_coder: (name) => `<tool_call>\n${tags(name)}\n</tool_call>`,
  seed_oss: (name) => `<seed:tool_call>\n${tags(name, "Rome")}\n</seed:tool_call>`,
  step3: (name) =>
    `<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="${name}"><steptml:parameter name="city">Rome</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>`,
  apertus2509: (name) => `<|tools_prefix|>[{${JSON.stringify(name)}: ${given}}]<|tools_suffix|>`,
  dots: (name) =>
    `<dots_function_call>\n<invoke name="${name}">\n<parameter name="city">Rome</parameter>\n</invoke>\n</dots_function_call>`,
  inkling: (name) =>
    `<|message_model|>${name}<|content_invoke_tool_json|>{"name": ${JSON.stringify(name)}, "args": ${given}}<|end_message|>`,
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
