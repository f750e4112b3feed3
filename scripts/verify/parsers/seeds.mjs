// Valid texts of each format, from which random texts are made: calls of the tools of tools.mjs
// with many kinds of values, and inputs from field reports.

/**
 * Arguments as a model writes them: text, or JSON where a format requires JSON.
 *
 * @type {readonly (readonly [tool: string, values: Readonly<Record<string, unknown>>])[]}
 */
const calls = [
  ["get_weather", { city: "Rome" }],
  ["get_weather", { city: " Rome\n", days: 3, units: "metric" }],
  ["search", { query: 'a "b" <c>', top_k: 2.5, filters: { a: null, b: [true] }, tags: ["x", "y"] }],
  ["my-tool", { text: null, count: 42, ratio: 1.5, flag: true }],
  ["my-tool", { text: "null", count: null, either: [1, 2], mixed: "7" }],
  ["my-tool", { text: "5", mixed: 8, all: "1", none: null, open: { a: 1 }, from: 1 }],
  ["my-tool", { text: "true", either: "x", open: "1.50", ratio: "2", flag: "False" }],
  ["ns.lookup", { items: [{ id: 1, label: "a" }, { id: 2, label: "b" }], nested: { deep: { x: 1.5 } }, kind: "exact", pair: [1, "a"] }],
  ["union", { kind: "b", value: "12" }],
  ["union", { kind: "a", value: 12 }],
  ["no_parameters", { a: 1 }],
  ["noop", {}],
  ["missing_tool", { a: "b" }],
]; // prettier-ignore

const json = JSON.stringify;
const raw = (/** @type {unknown} */ value) => (typeof value === "string" ? value : json(value));
const entries = Object.entries;

/** A value in Python's notation. @param {unknown} value @returns {string} */
const python = (value) => {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") return `{${entries(value).map(([key, item]) => `${json(key)}: ${python(item)}`).join(", ")}}`; // prettier-ignore
  return json(value);
};

/** @typedef {(tool: string, values: Readonly<Record<string, unknown>>) => string} Spelling */

/** @param {string} opening @param {string} closing @returns {Spelling} */
const jsonBetween = (opening, closing, key = "arguments") => (tool, values) =>
  `${opening}{"name": ${json(tool)}, "${key}": ${json(values)}}${closing}`; // prettier-ignore

/** @type {Spelling} */
const tags = (tool, values) =>
  `<tool_call>\n<function=${tool}>\n${entries(values)
    .map(([key, value]) => `<parameter=${key}>\n${raw(value)}\n</parameter>\n`)
    .join("")}</function>\n</tool_call>`;

/** @param {string} section @param {string} [blank] @returns {Spelling} */
const dsml =
  (section, blank = "") =>
  (tool, values) =>
    `<｜DSML｜${blank}${section}>\n<｜DSML｜${blank}invoke name="${tool}">\n${entries(values)
      .map(([key, value]) => `<｜DSML｜${blank}parameter name="${key}" string="${typeof value === "string"}">${raw(value)}</｜DSML｜${blank}parameter>\n`)
      .join("")}</｜DSML｜${blank}invoke>\n</｜DSML｜${blank}${section}>`; // prettier-ignore

/** @param {string} line @returns {Spelling} */
const keyTags = (line) => (tool, values) =>
  `<tool_call>${tool}${line}${entries(values)
    .map(([key, value]) => `<arg_key>${key}</arg_key>${line}<arg_value>${raw(value)}</arg_value>${line}`)
    .join("")}</tool_call>`; // prettier-ignore

/** @type {(value: unknown) => string} */
const m3 = (value) => {
  const tag = "]<]minimax[>[";
  if (Array.isArray(value)) return value.map((item) => `${tag}<item>${m3(item)}${tag}</item>`).join("");
  if (typeof value !== "object" || value === null) return raw(value);
  return entries(value)
    .map(([key, item]) => `${tag}<${key}>${m3(item)}${tag}</${key}>`)
    .join("");
};

/** @type {(value: unknown) => string} */
const gemma = (value) => {
  if (typeof value === "string") return `<|"|>${value}<|"|>`;
  if (Array.isArray(value)) return `[${value.map(gemma).join(",")}]`;
  if (typeof value !== "object" || value === null) return json(value);
  return `{${entries(value).map(([key, item]) => `${key}:${gemma(item)}`).join(",")}}`; // prettier-ignore
};

/** @param {(value: unknown) => string} type @returns {Spelling} */
const ifm = (type) => (tool, values) =>
  `<ifm|tool_call>${tool}\n${entries(values)
    .map(([key, value]) => `<ifm|arg_key>${key}</ifm|arg_key>\n${type(value)}<ifm|arg_value>${raw(value)}</ifm|arg_value>\n`)
    .join("")}</ifm|tool_call>`; // prettier-ignore

/** @type {Spelling} */
const xtml = (tool, values) =>
  `<|open|>tools<|sep|><|open|>call tool="${tool}" index="1"<|sep|>${entries(values)
    .map(([key, value]) => `<|open|>argument key="${key}" type="${typeof value}"<|sep|>${raw(value)}<|close|>argument<|sep|>`)
    .join("")}<|close|>call<|sep|><|close|>tools<|sep|>`; // prettier-ignore

/** Adds a suffix to all tags, as some checkpoints have one. @param {string} text @param {string} suffix */
const suffixed = (text, suffix) => text.replace(/<(\/?(?:tool|arg)_\w+)>/g, `<$1${suffix}>`);

/** @type {Spelling} */
const plamo = (tool, values) =>
  `<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>${tool}<|plamo:end_tool_name:plamo|>` +
  `<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>${json(values)}<|plamo:end_tool_arguments:plamo|>` +
  `<|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>`;

/** @param {string} recipient @returns {Spelling} */
const atem = (recipient) => (tool, values) =>
  ` to=${recipient}<|message|><atem:function_calls>\n<atem:invoke name="${tool}">\n${entries(values)
    .map(([key, value]) => `<atem:parameter name="${key}">${raw(value)}</atem:parameter>\n`)
    .join("")}</atem:invoke>\n</atem:function_calls><|eot|>`; // prettier-ignore

/** @param {string} closing @returns {Spelling} */
const rfl = (closing) => (tool, values) =>
  ` to=${tool}<|channel|>analysis <|constrain|>xml<|message|>${entries(values)
    .map(([key, value]) => `<rfl:parameter name="${key}">\n${raw(value)}\n</rfl:parameter>`)
    .join("")}${closing}`; // prettier-ignore

/** @type {Readonly<Record<string, readonly Spelling[]>>} */
const spellings = {
  cohere_command3: [
    (tool, values) => `<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": ${json(tool)}, "parameters": ${json(values)}}\n]<|END_ACTION|>`,
    (tool, values) => `<|START_THINKING|>I should look <co>there</co: 0:[1]>.<|END_THINKING|><|START_ACTION|>[{"tool_call_id": "0", "tool_name": ${json(tool)}, "parameters": ${JSON.stringify(values, null, 12)}},{"tool_call_id": "1", "tool_name": "noop", "parameters": {}}]<|END_ACTION|>`,
    (tool, values) => `<|START_RESPONSE|>It is <co>Rome</co: 0:[1,2],1:[0]> and a < b <co>there</co<|END_RESPONSE|> <|START_ACTION|>[{"tool_call_id":"0","tool_name":${json(tool)},"parameters":${json(values)}`,
    () => "<|START_THINKING|> \n<|END_THINKING|>  <|START_RESPONSE|> Hello <co>there</co: 0:[0]>, <co>you</co: 1:[1]>.\n<|END_RESPONSE|>",
  ],
  granite: [
    jsonBetween("<|tool_call|>[", "]"),
    jsonBetween("<tool_call> [", "]\nDone."),
    (tool, values) => `Well.\n<|tool_call|> [{"name": ${json(tool)}, "arguments": ${json(values)}}, {"arguments": {"a": "1"}, "name": "noop"},\n{"name": "noop"}]`,
    (tool, values) => `<tool_call>[{"n\\u0061me": ${json(tool)}, "parameters": ${json(values)}}] <|tool_call|>[{"name": "noop", "arguments": [1]}]`,
  ],
  hy_v3: [
    (tool, values) => suffixed(`<tool_calls>${keyTags("\n")(tool, values).replace("\n", "<tool_sep>\n")}</tool_calls>`, ":a-1"),
    (tool, values) => `<tool_calls>\n${keyTags("\n")(tool, values).replace("\n", "<tool_sep>\n")}\n</tool_calls>`,
    (tool, values) => `Well.<tool_calls><tool_call>${tool}<tool_sep>${keyTags("")("", values).slice("<tool_call>".length)}</tool_calls>`,
  ],
  hy_v4: [
    (tool, values) => `<tool_calls>${keyTags("")(tool, values)}</tool_calls>`,
    (tool, values) => `Well.<tool_calls>\n${keyTags("")(tool, values)}\n${keyTags("")("noop", {})}\n</tool_calls>`,
    (tool, values) => suffixed(`<tool_calls>${keyTags("")(tool, { ...values, a: "</tool_call>" })}</tool_calls>`, ":6124c78e"),
  ],
  olmo3: [
    (tool, values) => `<function_calls>\n${tool}(${entries(values).map(([key, value]) => `${key}=${python(value)}`).join(", ")})\n</function_calls>`,
    (tool, values) => `<function_calls>${tool}(${entries(values).map(([key, value]) => `${key}=${json(value)}`).join(", ")})\n\n noop()\n</function_calls>`,
    (tool, values) => `${tool}(${entries(values).map(([key, value]) => `${key}=${python(value)}`).join(", ")})\n`,
    (tool) => `<function_calls>${tool}(a=-1, b=(1, 2), c={1: True}, d=f'x', e={"a", "b"}, f=+1.5)\nCalendar.create(x=null)</function_calls>`,
  ],
  plamo3: [
    plamo,
    (tool, values) => `<|plamo:begin_think:plamo|>Well.<|plamo:end_think:plamo|>Hello.${plamo(tool, values)}<|plamo:tag|>`,
    (tool, values) => `${plamo(tool, values).replace("<|plamo:end_tool_requests:plamo|>", "")}${plamo("noop", {})}`,
    (tool, values) => plamo("", { name: tool, arguments: values }),
  ],
  ernie45: [jsonBetween("<tool_call>\n", "\n</tool_call>\n")],
  "granite-20b-fc": [jsonBetween("<function_call> ", ""), jsonBetween("<function_call>", "\n")],
  granite4: [jsonBetween("<tool_call>", "</tool_call>")],
  internlm: [jsonBetween("<|action_start|><|plugin|>\n", "<|action_end|>", "parameters"), jsonBetween("<|action_start|><|plugin|>", "<|action_end|>\n")],
  functiongemma: [
    (tool, values) => `<start_function_call>call:${tool}{${entries(values).map(([key, value]) => `${key}:<escape>${raw(value)}<escape>`).join(",")}}<end_function_call>`,
    (tool, values) => `Well. <start_function_call>call:${tool}{${entries(values).map(([key, value]) => `${key}:<escape>${raw(value)}<escape>`).join(", ")}`,
  ],
  hunyuan_a13b: [
    jsonBetween("<tool_calls>[", "]</tool_calls>"),
    jsonBetween("<think>I call <tool_calls>[]</tool_calls>.</think>\n<tool_calls> [", "]\n</tool_calls>"),
    jsonBetween("<tool_calls>", "</tool_calls>"),
    () => "助手：Hello. 助手：",
  ],
  xlam: [
    jsonBetween("[", "]"),
    jsonBetween("Well.\n```json\n[", "]\n```\n"),
    jsonBetween("I think.</think>\n[", "]"),
    jsonBetween("I think.</think> So: <tool_call>[", "]</tool_call>"),
    jsonBetween("[TOOL_CALLS][", "]\nDone."),
    jsonBetween("```", "```"),
  ],
  jamba: [jsonBetween("<tool_calls>[", "]</tool_calls>"), jsonBetween(" <tool_calls>\n[", "\n]</tool_calls>")],
  longcat: [jsonBetween("<longcat_tool_call>", "</longcat_tool_call>\n")],
  phi4_mini_json: [jsonBetween("functools[", "]"), jsonBetween("functools[", "]", "parameters")],
  qwen3_json: [jsonBetween("<tool_call>\n", "\n</tool_call>")],
  beam: [
    rfl("<|call|>"),
    rfl("<|end|><|start|>assistant"),
    rfl("<|end|>"),
    (tool, values) => `<|channel|>analysis<|message|>Well.<|end|><|start|>assistant${rfl("<|end|><|start|>assistant")(tool, values)}<|channel|>final<|message|>Hello.<|return|>`,
  ],
  cohere_command4: [
    (tool, values) => `<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": ${json(tool)}, "parameters": ${json(values)}}\n]<|END_ACTION|>`,
    (tool, values) => `Well.<|END_THINKING|><|START_ACTION|>[{"tool_name": ${json(tool)}, "parameters": ${json(values)}}, {"tool_name": "noop", "arguments": ${json(values)}}]<|END_ACTION|>`,
    (tool, values) => `<|START_ACTION|>{"name": ${json(tool)}, "parameters": ${json(values)}`,
  ],
  deepseekv3: [(tool, values) => `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>${tool}\n\`\`\`json\n${json(values)}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`],
  deepseekv31: [(tool, values) => `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>${tool}<｜tool▁sep｜>${json(values)}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`],
  deepseekv32: [dsml("function_calls"), dsml("tool_calls"), (tool, values) => `<｜DSML｜function_calls>\n<｜DSML｜invoke name="${tool}">\n${json(values)}\n</｜DSML｜invoke>\n</｜DSML｜function_calls>`],
  deepseekv4: [dsml("tool_calls"), dsml("function_calls"), (tool, values) => `<｜DSML｜invoke name="${tool}">${json(values)}</｜DSML｜invoke><｜DSML｜invoke name="${tool}"/>`],
  deepseekv41: [dsml("calls", " "), dsml("tool_calls")],
  gemma4: [(tool, values) => `<|tool_call>call:${tool}${gemma(values)}<tool_call|>`],
  gigachat35: [(tool, values) => dsml("tool_calls")(tool, values).replaceAll("DSML", "GCML"), (tool, values) => `${dsml("tool_calls")(tool, values).replaceAll("DSML", "GCML")}<|message_sep|></s>\n`],
  hunyuan: [
    (tool, values) => `<tool_calls>\n${keyTags("\n")(tool, values).replace("\n", "<tool_sep>\n")}\n</tool_calls>`,
    (tool, values) => `<tool_calls>${keyTags("")(tool, values)}</tool_calls>`,
  ],
  iquest_q1: [(tool, values) => keyTags("")(tool, values).replaceAll("tool_call>", "iquest_tool_call>")],
  ling3: [keyTags("\n"), keyTags(""), keyTags("\\n"), (tool, values) => keyTags("\n ")(`\n ${tool}`, values)],
  gigachat3: [jsonBetween("function call<|role_sep|>\n", "<|message_sep|>")],
  glm45: [keyTags("\n"), keyTags("\\n")],
  glm47: [keyTags(""), keyTags("\n")],
  "gpt-oss": [(tool, values) => `<|start|>assistant<|channel|>commentary to=functions.${tool} <|constrain|>json<|message|>${json(values)}<|call|>`, (tool, values) => `<|channel|>analysis<|message|>Well.<|end|><|start|>assistant<|channel|>commentary to=functions.${tool}<|constrain|>json<|message|>${json(values)}<|call|>`],
  hermes: [jsonBetween("<tool_call>\n", "\n</tool_call>"), jsonBetween("<tool_call>", "</tool_call>")],
  interns1: [jsonBetween("<|action_start|> <|plugin|>\n", "<|action_end|>", "parameters")],
  kimi_k2: [
    (tool, values) => `<|tool_calls_section_begin|><|tool_call_begin|>functions.${tool}:0<|tool_call_argument_begin|>${json(values)}<|tool_call_end|><|tool_calls_section_end|>`,
    (_tool, values) => `<|tool_calls_section_begin|><|tool_call_begin|>3<|tool_call_argument_begin|>${json(values)}<|tool_call_end|><|tool_calls_section_end|>`,
  ],
  lfm2: [
    (tool, values) => `<|tool_call_start|>[${tool}(${entries(values).map(([key, value]) => `${key}=${python(value)}`).join(", ")})]<|tool_call_end|>`,
    (tool, values) => `<|tool_call_start|>[${tool}(${entries(values).map(([key, value]) => `${key}=${json(value)}`).join(", ")})]<|tool_call_end|>`,
    jsonBetween("<|tool_call_start|>[", "]<|tool_call_end|>"),
    (tool) => `<|tool_call_start|>[${tool}(city='sed -n '3,4p' f', days=07), ${tool}(from=1, in = 2)]<|tool_call_end|>`,
    (tool) => `<|tool_call_start|>[${tool}(city='a'), ${tool}(days=1 2), get_weather(city=f'x', **{"days": 3})]<|tool_call_end|>`,
    (tool, values) => `<|tool_call_start|>[Calendar.create(title="a\nb", at='x'), ${tool}(${entries(values).map(([key, value]) => `${key}=${python(value)}`).join(", ")})]<|tool_call_end|>`,
  ],
  apertus2509: [
    (tool, values) => `<|tools_prefix|>[{${json(tool)}: ${json(values)}}]<|tools_suffix|>`,
    (tool, values) => `<|inner_prefix|>Well.<|inner_suffix|><|tools_prefix|>[{${json(tool)}: ${json(values)}}, {"noop": null}]<|tools_suffix|>`,
  ],
  dots: [
    (tool, values) => `<dots_function_call>\n<invoke name="${tool}">\n${entries(values).map(([key, value]) => `<parameter name="${key}">${raw(value)}</parameter>\n`).join("")}</invoke>\n</dots_function_call>`,
    (tool, values) => `<dots_function_call><invoke name = ${tool}>${entries(values).map(([key, value]) => `<parameter name='${key}'>${raw(value)}</parameter>`).join("")}</invoke></dots_function_call>`,
    jsonBetween("<dots_function_call>", "</dots_function_call>"),
  ],
  inkling: [
    (tool, values) => `<|message_model|>${tool}<|content_invoke_tool_json|>${json({ name: tool, args: values })}<|end_message|>`,
    (tool, values) => `<|message_model|><|content_text|>Well.<|end_message|><|content_invoke_tool_json|>${json({ name: tool, args: values })}<|end_message|><|content_model_end_sampling|>`,
    (tool) => `<|content_invoke_tool_text|>${tool} Rome<|end_message|>`,
  ],
  k2_horizon: [
    ifm(() => ""),
    ifm((value) => `<ifm|arg_type>${value === null ? "null" : Array.isArray(value) ? "array" : typeof value}</ifm|arg_type>`),
    (tool, values) => `<ifm|tool_calls>\n${ifm(() => "")(tool, values)}\n</ifm|tool_calls>`,
    jsonBetween("<ifm|tool_call>", "</ifm|tool_call>"),
    (tool, values) => `<ifm|think>Well.</ifm|think>\n<ifm|tool_calls><ifm|tool_call>${json([{ function: { name: tool, arguments: json(values) } }])}</ifm|tool_call></ifm|tool_calls>`,
  ],
  kimi_k3: [
    xtml,
    (tool, values) => `<|open|>response<|sep|>Well.<|close|>response<|sep|>${xtml(tool, values)}<|close|>message<|sep|>`,
  ],
  muse: [
    (tool, values) => atem(`functions.${tool}`)(tool, values),
    (tool, values) => ` to=self<|message|>Well.<|eom|><|start|>assistant${atem(tool)(`${tool}.${tool}`, values)}`,
    (tool, values) => ` to=user<|message|>Well.<|eot|><|start|>assistant${atem("functions")(tool, values)}<|start|>assistant${atem("x")(tool, values)}`,
  ],
  poolside_v1: [keyTags("\n"), keyTags(""), (tool) => `<tool_call>${tool}</tool_call>`],
  spark25: [keyTags(""), (tool, values) => `<tool_call>${tool}\n${keyTags("")("", values).slice("<tool_call>".length)}`],
  llama3: [jsonBetween("<|python_tag|>", "", "parameters"), jsonBetween("", "", "parameters"), jsonBetween("", "; ", "arguments")],
  mimo: [tags],
  minicpm5: [
    (tool, values) => `<function name="${tool}">${entries(values).map(([key, value]) => `<param name="${key}">${raw(value)}</param>`).join("")}</function>`,
    (tool, values) => `<function name='${tool}'>\n${entries(values).map(([key, value]) => `<param name='${key}'><![CDATA[${raw(value)}]]></param>`).join("\n")}\n</function>`,
    (tool, values) => `<function name="${tool}"><arguments><!-- a -->${entries(values).map(([key, value]) => `<param name="${key}">${python(value).replaceAll("<", "&lt;")}</param>`).join("")}<?a b?></arguments></function>`,
  ],
  "minimax-m2": [(tool, values) => `<minimax:tool_call>\n<invoke name="${tool}">\n${entries(values).map(([key, value]) => `<parameter name="${key}">${raw(value)}</parameter>\n`).join("")}</invoke>\n</minimax:tool_call>`],
  "minimax-m3": [(tool, values) => `]<]minimax[>[<tool_call>]<]minimax[>[<invoke name="${tool}">${m3(values)}]<]minimax[>[</invoke>]<]minimax[>[</tool_call>`],
  mistral: [jsonBetween("[TOOL_CALLS] [", "]"), (tool, values) => `[TOOL_CALLS]${tool}[ARGS]${json(values)}`],
  pythonic: [(tool, values) => `[${tool}(${entries(values).map(([key, value]) => `${key}=${python(value)}`).join(", ")})]`],
  qwen25: [jsonBetween("<tool_call>\n", "\n</tool_call>")],
  qwen3_coder: [tags],
  step3: [(tool, values) => `<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="${tool}">${entries(values).map(([key, value]) => `<steptml:parameter name="${key}">${raw(value)}</steptml:parameter>`).join("")}</steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>`],
  trinity: [jsonBetween("<tool_call>\n", "\n</tool_call>")],
}; // prettier-ignore

/**
 * Valid texts by the name of a tool-call parser.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const seeds = Object.fromEntries(
  entries(spellings).map(([name, ways]) => [
    name,
    ways.flatMap((spell) => calls.map(([tool, values]) => spell(tool, values))),
  ]),
);

/** Answers that only the reasoning parser of that name knows. @type {Readonly<Record<string, readonly string[]>>} */
export const ownAnswers = {
  cohere_command4: [
    "Well.<|END_THINKING|><|START_TEXT|>Hello.<|END_TEXT|>",
    "<|START_THINKING|>Well.<|END_THINKING|>\n<|START_ACTION|>[]<|END_ACTION|>",
    "<|START_TEXT|>Hello.<|END_TEXT|>",
    "Well.<|START_ACTION|>[]<|END_ACTION|>",
  ],
  ernie45: [
    "Well.\n</think>\n\n<response>\nHello.\n</response>\n",
    "<think>Well.</think>\n<response>a<response>b</response></response> c",
    "Well.</think></response>Hello.<response>",
  ],
  granite: [
    "Here is my thought process: Well. Here is my response: Hello.",
    "Hm. Here's my thought process:\nWell.\nHere's my response:\nHello. Here is my response: no",
    "Here is my thought process: Here's my thought process: Well. Here is my response:",
    "Here is my response: Hello. Here is my thought process: Well.",
  ],
  hunyuan_a13b: [
    "<think>\nWell.\n</think>\n<answer>\nHello.\n</answer>",
    "Hm.<think>\nWell.\n</think>\n<answer>\nHello.\\n</answer>",
    "<think>\nWell.\n</think>\n<answer>\nHello.",
    "<think>\n\n</think>\n<answer>\n\n</answer>\n<think>\na\n</think>\n<answer>\nb\n</answer>",
    "Hello.\n</answer>",
  ],
  hy_v3: ["<think:a-1>Well.</think:a-1>Hello.", "Well.</think:a-1>Hello.", "<think>Well.</think:a>Hello.</think>"],
  hy_v4: [
    "<think:6124c78e>Well.</think:6124c78e>Hello.",
    "Well.</think:a-1>Hello.</think>",
    "Well.</think>Hello.<think:a>",
  ],
  minicpmv: [
    "Well.</think>a <think>b</think>c<|im_end|>",
    "Well.<tool_call>\n<function=f>\n<parameter=a>\n</think>\n</parameter>\n</function>\n</tool_call><|im_end|>",
    "<reserved_12>Well.<|reserved_15|><|reserved_16|></think><reserved_13>Hello.",
  ],
  plamo3: [
    "Well.<|plamo:end_think:plamo|>Hello.<|plamo:tag|>Go on.",
    "<|plamo:begin_think:plamo|>Well.<|plamo:tag|>Hello.<|plamo:begin_think:plamo|>Hm.<|plamo:end_th",
    "Well.<|plamo:<|plamo:end_think:plamo|>Hello.<|plamo:",
    "Well.<|plamo:begin_tool_requests:plamo|>a<|plamo:begin_think:plamo|>b<|plamo:tag|>c<|plamo:tag|>d",
  ],
};

/**
 * Valid texts of a reasoning parser, by the strings that open and close reasoning.
 *
 * @param {readonly string[]} markers
 */
export function reasoningSeeds(markers) {
  const [open = "<think>", close = "</think>"] = markers;
  const thoughts = ["Well.", "\nI should look.\n", " a < b ", "thought\nWell.", ""];
  const said = [
    "Hello.",
    "\n\nHello.",
    "",
    '<tool_call>\n{"name": "f"}\n</tool_call>',
    "<|tool_calls_section_begin|>",
    "<tool_calls>",
  ];
  return thoughts.flatMap((thought) =>
    said.flatMap((words) => [
      `${open}${thought}${close}${words}`,
      `${thought}${close}${words}`,
      `${open}${thought}${words}`,
      `${open}${open}${thought}${close}`,
      `${close}${words}`,
      `${words}${open}${thought}`,
    ]),
  );
}
