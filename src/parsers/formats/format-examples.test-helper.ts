// One valid call of each syntax, and a truncated one; examples for tests of all formats.

import { type Tool, toolFromDefinition } from "../../core/index.ts";
import { fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";

const properties = { city: { type: "string" }, days: { type: "integer" }, tags: { type: "array" }, extra: {} };
export const exampleTools: readonly Tool[] = ["get_weather", "noop"].map((name) =>
  toolFromDefinition(fromPlain({ type: "function", function: { name, parameters: { properties } } }) as JsonObject),
);

/** Calls of `get_weather`. */
export const formatExamples: Readonly<Record<string, readonly [whole: string, cut: string]>> = {
  beam: [' to=get_weather<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name="city">\nRome\n</rfl:parameter><|call|>', " to=get_weather<|channel|>analysis <|constrain|>xml<|message|><rfl:param"],
  cohere_command4: ['<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Rome"}}\n]<|END_ACTION|>', '<|START_ACTION|>[{"tool_na'],
  deepseekv3: ['<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Rome"}\n```<｜tool▁call▁end｜>', '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"ci'],
  deepseekv31: ['<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Rome"}<｜tool▁call▁end｜>', '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"ci'],
  deepseekv32: ['<｜DSML｜function_calls><｜DSML｜invoke name="get_weather"><｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>', '<｜DSML｜function_calls><｜DSML｜invoke name="get_wea'],
  deepseekv4: ['<｜DSML｜tool_calls><｜DSML｜invoke name="get_weather">{"city": "Rome"}</｜DSML｜invoke></｜DSML｜tool_calls>', '<｜DSML｜tool_calls><｜DSML｜invoke'],
  deepseekv41: ['<｜DSML｜ calls><｜DSML｜ invoke name="get_weather">{"city": "Rome"}</｜DSML｜ invoke></｜DSML｜ calls>', '<｜DSML｜ calls><｜DSML｜ invoke'],
  gemma4: ['<|tool_call>call:get_weather{city:<|"|>Rome<|"|>}<tool_call|>', '<|tool_call>call:get_wea'],
  gigachat3: ['function call<|role_sep|>\n{"name": "get_weather", "arguments": {"city": "Rome"}}', 'function call<|role_sep|>\n{"name": "get_wea'],
  gigachat35: ['<｜GCML｜tool_calls><｜GCML｜invoke name="get_weather"><｜GCML｜parameter name="city" string="true">Rome</｜GCML｜parameter></｜GCML｜invoke></｜GCML｜tool_calls>', '<｜GCML｜tool_calls><｜GCML｜invoke name="get_wea'],
  glm45: ["<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>", "<tool_call>get_weather\n<arg_key>ci"],
  glm47: ["<tool_call>get_weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call>", "<tool_call>get_weather<arg_key>ci"],
  "gpt-oss": ['<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Rome"}<|call|>', ""],
  hermes: ['<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>', '<tool_call>{"name": "get_weather", "arg'],
  hunyuan: ["<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>\n</tool_calls>", "<tool_calls>\n<tool_call>get_wea"],
  interns1: ['<|action_start|> <|plugin|>\n{"name": "get_weather", "parameters": {"city": "Rome"}}<|action_end|>', '<|action_start|> <|plugin|>\n{"name": "get_wea'],
  iquest_q1: ["<iquest_tool_call>get_weather<arg_key>city</arg_key><arg_value>Rome</arg_value></iquest_tool_call>", "<iquest_tool_call>get_weather<arg_key>ci"],
  kimi_k2: ['<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Rome"}<|tool_call_end|>', '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"ci'],
  lfm2: ['<|tool_call_start|>[get_weather(city="Rome")]<|tool_call_end|>', '<|tool_call_start|>[get_weather(ci'],
  ling3: ["<tool_call>get_weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call>", "<tool_call>get_weather<arg_key>ci"],
  llama3: ['<|python_tag|>{"name": "get_weather", "parameters": {"city": "Rome"}}', '<|python_tag|>{"name": "get_weather", "par'],
  mimo: ["<tool_call><function=get_weather><parameter=city>Rome</parameter></function></tool_call>", "<tool_call><function=get_wea"],
  minicpm5: ['<function name="get_weather"><param name="city">Rome</param></function>', '<function name="get_wea'],
  "minimax-m2": ['<minimax:tool_call><invoke name="get_weather"><parameter name="city">Rome</parameter></invoke></minimax:tool_call>', '<minimax:tool_call><invoke name="get_wea'],
  "minimax-m3": [']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>Rome]<]minimax[>[</city>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>', ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="get_wea'],
  mistral: ['[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Rome"}}]', '[TOOL_CALLS] [{"name": "get_weather", "arg'],
  mistral_ids: ['[TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4e[ARGS]{"city": "Rome"}', '[TOOL_CALLS]get_weather[CALL_ID]a1B2'],
  pythonic: ['[get_weather(city="Rome")]', ""],
  qwen25: ['<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>', '<tool_call>\n{"name": "get_weather", "arg'],
  qwen3_coder: ["<tool_call><function=get_weather><parameter=city>Rome</parameter></function></tool_call>", "<tool_call><func"],
  seed_oss: ["<seed:tool_call>\n<function=get_weather>\n<parameter=city>Rome</parameter>\n</function>\n</seed:tool_call>", "<seed:tool_call>\n<func"],
  step3: ['<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather"><steptml:parameter name="city">Rome</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>', '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke'],
  apertus2509: ['<|tools_prefix|>[{"get_weather": {"city": "Rome"}}]<|tools_suffix|>', '<|tools_prefix|>[{"get_wea'],
  dots: ['<dots_function_call><invoke name="get_weather"><parameter name="city">Rome</parameter></invoke></dots_function_call>', '<dots_function_call><invoke name="get_wea'],
  inkling: ['<|message_model|><|content_invoke_tool_json|>{"name": "get_weather", "args": {"city": "Rome"}}<|end_message|>', '<|message_model|><|content_invoke_tool_json|>{"name": "get_wea'],
  k2_horizon: ["<ifm|tool_calls>\n<ifm|tool_call>get_weather\n<ifm|arg_key>city</ifm|arg_key>\n<ifm|arg_value>Rome</ifm|arg_value>\n</ifm|tool_call>\n</ifm|tool_calls>", "<ifm|tool_calls>\n<ifm|tool_call>get_wea"],
  kimi_k3: ['<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>Rome<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>', '<|open|>tools<|sep|><|open|>call tool="get_wea'],
  muse: [' to=functions<|message|><atem:function_calls>\n<atem:invoke name="get_weather">\n<atem:parameter name="city">Rome</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eot|>', ' to=functions<|message|><atem:function_calls>\n<atem:invoke name="get_wea'],
  poolside_v1: ["<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>", "<tool_call>get_weather\n<arg_key>ci"],
  spark25: ["<tool_call>get_weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call>", "<tool_call>get_weather<arg_key>ci"],
  trinity: ['<think>\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call></think>', '<tool_call>\n{"name": "get_weather", "arg'],
  ernie45: ['<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>', '<tool_call>\n{"name": "get_wea'],
  "granite-20b-fc": ['<function_call> {"name": "get_weather", "arguments": {"city": "Rome"}}', '<function_call> {"name": "get_wea'],
  granite4: ['<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>', '<tool_call>\n{"name": "get_wea'],
  internlm: ['<|action_start|><|plugin|>\n{"name": "get_weather", "arguments": {"city": "Rome"}}<|action_end|>', '<|action_start|><|plugin|>\n{"name": "get_wea'],
  jamba: ['<tool_calls>[{"name": "get_weather", "arguments": {"city": "Rome"}}]</tool_calls>', '<tool_calls>[{"name": "get_wea'],
  longcat: ['<longcat_tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</longcat_tool_call>', '<longcat_tool_call>\n{"name": "get_wea'],
  phi4_mini_json: ['functools[{"name": "get_weather", "arguments": {"city": "Rome"}}]', 'functools[{"name": "get_wea'],
  qwen3_json: ['<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>', '<tool_call>\n{"name": "get_wea'],
}; // prettier-ignore
