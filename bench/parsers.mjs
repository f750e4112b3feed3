// Every parser on hostile text of 100 kB and of 200 kB: CPU time must grow with the length, not
// with its square. Read strictly and in repair mode, as text and as sampled tokens. The two sizes
// alternate and the minimum of each counts, because other load on the machine only adds time; a
// ratio of more than 2.5 fails the run.
// Run: npm run bench -- parsers [name ...]

import { toolFromDefinition } from "../dist/core/index.js";
import { fromPlain } from "../dist/python-semantics/json/index.js";
import { reasoningParser, reasoningParserNames, toolCallParser, toolCallParserNames } from "../dist/parsers/index.js";
import { createActionReader } from "../dist/renderers/action-reader.js";
import { machine } from "./lib/measure.mjs";
import { byteTokenizer } from "./lib/byte-tokenizer.mjs";

const size = 100_000;
const limit = 2.5;
/** Maximum rounds of a suspect; a ratio that is clearly within the limit at once needs no more. */
const rounds = 5;
const clear = 2.35;
/**
 * A measurement shorter than this is repeated until it is this long: the clock and the garbage
 * collector are not more precise.
 */
const shortestMs = 2;
/**
 * Factor by which the sizes are multiplied for a suspect: steps of the heap and of the caches do
 * not repeat there, quadratic time does.
 */
const larger = 4;

const properties = { city: { type: "string" }, days: { type: "integer" }, tags: { type: "array" }, extra: {} };
const tools = [
  toolFromDefinition(fromPlain({ type: "function", function: { name: "f", parameters: { properties } } })),
];

/** Components of a parser's calls: `call` is a valid one, `open` begins one, `parts` occur inside. */
const json = '{"name": "f", "arguments": {"city": "R"}}';
const tagged = {
  open: "<tool_call><function=f><parameter=city>",
  parts: ["<function=", "<parameter=", "</parameter>", "<function=f>", "<parameter=city>1", "</function>"],
  call: "<tool_call><function=f><parameter=city>R</parameter></function></tool_call>",
};
const glm = {
  open: "<tool_call>f\n<arg_key>city",
  parts: ["<arg_key>", "<arg_key>a</arg_key>", "</arg_key>\\n", "</arg_key>   ", "<arg_value>", "</arg_value>", "\\n"],
  call: "<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>R</arg_value>\n</tool_call>",
};
const dsml = (section) => ({
  open: `<｜DSML｜${section}><｜DSML｜invoke name="f"><｜DSML｜parameter name="city" string="false">`,
  parts: [
    "<｜DSML｜invoke",
    '<｜DSML｜invoke name="',
    '<｜DSML｜parameter name="a',
    '" string="',
    "</｜DSML｜parameter>",
  ],
  call: `<｜DSML｜${section}><｜DSML｜invoke name="f">{"city": "R"}</｜DSML｜invoke></｜DSML｜${section}>`,
});
const jsonTags = { open: "<tool_call>\n", parts: ["</tool_call>\n"], call: `<tool_call>\n${json}\n</tool_call>` };
const plamo = (name) => `<|plamo:${name}:plamo|>`;
const plamoName = `${plamo("begin_tool_requests")}${plamo("begin_tool_request")}${plamo("begin_tool_name")}f${plamo("end_tool_name")}`;
const plamoBody = `${plamo("begin_tool_arguments")}<|plamo:constrain|>json<|plamo:msg|>`;
const hy = (separator) => ({
  open: `<tool_calls><tool_call>f${separator}<arg_key>city`,
  parts: [...glm.parts, "<tool_call>f", "<tool_sep>", "</tool_call>", "<tool_calls:a>"],
  call: `<tool_calls><tool_call>f${separator}<arg_key>city</arg_key><arg_value>R</arg_value></tool_call></tool_calls>`,
});
const syntaxes = {
  cohere_command3: {
    open: '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"city": "',
    parts: ['"tool_call_id": "', '"tool_name": "', '"parameters": {"', '"parameters": "', "<co>", "</co: 0:[1]>", "<|END_ACTION|><|START_ACTION|>{"],
    call: '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"city": "R"}}]<|END_ACTION|>',
  },
  granite: { open: '<|tool_call|>[{"name": "f"', parts: ["<tool_call>", "<|tool_call|>[", '{"name": "f"},', '"arguments":', '"arguments": {'], call: `<|tool_call|>[${json}]` },
  hy_v3: hy("<tool_sep>"),
  hy_v4: hy(""),
  olmo3: { open: "<function_calls>\nf(city=", parts: ["f(", "f(a=", "f(a=1)\n", "</function_calls>", "a=b,", "<function_calls>"], call: '<function_calls>\nf(city="R")\n</function_calls>' },
  plamo3: {
    open: plamoName + plamoBody,
    parts: [plamoName, plamoBody, "<|plamo:", plamo("end_tool_arguments")],
    call: `${plamoName}${plamoBody}{"city": "R"}${plamo("end_tool_arguments")}${plamo("end_tool_request")}${plamo("end_tool_requests")}`,
  },
  ernie45: { open: "<tool_call>\n{", parts: ["<tool_call>{", "}\n", "}</tool_call>"], call: `<tool_call>\n${json}\n</tool_call>` },
  "granite-20b-fc": { open: "<function_call> {", parts: ["<function_call>", "<function_call> 1"], call: `<function_call> ${json}` },
  granite4: jsonTags,
  internlm: { open: "<|action_start|><|plugin|>{", parts: ["<|action_end|>"], call: `<|action_start|><|plugin|>${json}<|action_end|>` },
  functiongemma: {
    open: "<start_function_call>call:f{a:<escape>",
    parts: ["<start_function_call>", "<start_function_call>call:f{", "a:<escape>", "<escape>", "}<end_function_call>", "w"],
    call: "<start_function_call>call:get_weather{city:<escape>Rome<escape>}<end_function_call>",
  },
  hunyuan_a13b: { open: "<tool_calls>[", parts: ["</tool_calls>", "<think>", "</think>", "<tool_calls>"], call: `<tool_calls>[${json}]</tool_calls>` },
  xlam: { open: "<tool_call>[", parts: ["```", "[TOOL_CALLS]", "</think>", "</tool_call>", "\n", "["], call: `[${json}]` },
  jamba: { open: "<tool_calls>[", parts: ["</tool_calls>"], call: `<tool_calls>[${json}]</tool_calls>` },
  longcat: { open: "<longcat_tool_call>", parts: ["</longcat_tool_call>"], call: `<longcat_tool_call>${json}</longcat_tool_call>` },
  phi4_mini_json: { open: "functools[", parts: ["functools", "]"], call: `functools[${json}]` },
  qwen3_json: jsonTags,
  beam: {
    open: ' to=f<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name="city">\n',
    parts: [" to=", " to=f<|channel|>", '<rfl:parameter name="', '<rfl:parameter name="a">\n', "\n</rfl:parameter>", "<|end|>", "<|start|>"],
    call: ' to=f<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name="city">\nR\n</rfl:parameter><|call|>',
  },
  cohere_command4: {
    open: '<|START_ACTION|>[{"tool_name": "f"',
    parts: ['"', '\\"', "[[", '{"a":', ",", "- ", "1,", '"\\u', "<|START_TEXT|>"],
    call: '<|START_ACTION|>[{"tool_name": "f", "parameters": {"city": "R"}}]<|END_ACTION|>',
  },
  minicpm5: {
    open: '<function name="f"><param name="city">',
    parts: ["<param", '<param name="', '<param name="a">', "<param name=", "<a>", "<a ", "&lt;", "<![CDATA[", "<!--", "<?a", "<function name=", "</function>"],
    call: '<function name="f"><param name="city">R</param></function>',
  },
  deepseekv3: {
    open: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n",
    parts: ["\n```json\n", "\n```", "<｜tool▁call▁begin｜>f"],
    call: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"city": "R"}\n```<｜tool▁call▁end｜>',
  },
  deepseekv31: {
    open: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>",
    parts: [],
    call: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"city": "R"}<｜tool▁call▁end｜>',
  },
  deepseekv32: dsml("function_calls"),
  deepseekv4: dsml("tool_calls"),
  deepseekv41: {
    open: '<｜DSML｜ calls><｜DSML｜ invoke name="f"><｜DSML｜ parameter name="city" string="false">',
    parts: ["<｜DSML｜ invoke", '<｜DSML｜ invoke name="', '<｜DSML｜ parameter name="a', '" string="', "</｜DSML｜ parameter>"],
    call: '<｜DSML｜ calls><｜DSML｜ invoke name="f">{"city": "R"}</｜DSML｜ invoke></｜DSML｜ calls>',
  },
  gemma4: {
    open: "<|tool_call>call:f{city:",
    parts: ['<|"|>', "a:", "a:{", "a:[", "call:f{"],
    call: '<|tool_call>call:f{city:<|"|>R<|"|>}<tool_call|>',
  },
  gigachat35: {
    open: '<｜GCML｜tool_calls><｜GCML｜invoke name="f"><｜GCML｜parameter name="city" string="false">',
    parts: ["<｜GCML｜invoke", '<｜GCML｜invoke name="', '<｜GCML｜parameter name="a', '" string="', "</｜GCML｜parameter>", "</s>"],
    call: '<｜GCML｜tool_calls><｜GCML｜invoke name="f"><｜GCML｜parameter name="city" string="true">R</｜GCML｜parameter></｜GCML｜invoke></｜GCML｜tool_calls>',
  },
  hunyuan: {
    open: "<tool_calls><tool_call>f<tool_sep><arg_key>city",
    parts: [...glm.parts, "<tool_call>f", "<tool_sep>"],
    call: "<tool_calls><tool_call>f<tool_sep><arg_key>city</arg_key><arg_value>R</arg_value></tool_call></tool_calls>",
  },
  iquest_q1: {
    open: "<iquest_tool_call>f<arg_key>city",
    parts: glm.parts,
    call: "<iquest_tool_call>f<arg_key>city</arg_key><arg_value>R</arg_value></iquest_tool_call>",
  },
  ling3: glm,
  apertus2509: {
    open: '<|tools_prefix|>[{"f": {',
    parts: ["<|tools_prefix|>[", '<|tools_prefix|>[{"f": {}}]', "<|inner_prefix|>"],
    call: '<|tools_prefix|>[{"f": {"city": "R"}}]<|tools_suffix|>',
  },
  dots: {
    open: '<dots_function_call><invoke name="f"><parameter name="city">',
    parts: ["<invoke name", "<invoke name=", "<invoke name=f>", "<parameter name=", "<parameter name=a>", "</parameter>", "</invoke>"],
    call: '<dots_function_call><invoke name="f"><parameter name="city">R</parameter></invoke></dots_function_call>',
  },
  inkling: {
    open: '<|content_invoke_tool_json|>{"name": "f"',
    parts: ["<|content_text|>", "<|content_thinking|>", '{"', "NaN", '"\\'],
    call: '<|message_model|>f<|content_invoke_tool_json|>{"name": "f", "args": {"city": "R"}}<|end_message|>',
  },
  k2_horizon: {
    open: "<ifm|tool_call>f<ifm|arg_key>city",
    parts: [
      "<ifm|think>",
      "</ifm|think>",
      "<ifm|arg_type>",
      "</ifm|arg_type>",
      "</ifm|arg_key><ifm|arg_type>",
      "</ifm|arg_type><ifm|arg_value>",
      "</ifm|arg_key><ifm|arg_value>",
    ],
    call: "<ifm|tool_calls><ifm|tool_call>f<ifm|arg_key>city</ifm|arg_key><ifm|arg_value>R</ifm|arg_value></ifm|tool_call></ifm|tool_calls>",
  },
  kimi_k3: {
    open: '<|open|>tools<|sep|><|open|>call tool="f"<|sep|><|open|>argument key="city"<|sep|>',
    parts: ["<|open|>call ", "<|open|>argument ", "a", 'a="', 'a=""', "<|close|>call<|sep|>", "<|close|>message<|sep|>"],
    call: '<|open|>tools<|sep|><|open|>call tool="f"<|sep|><|open|>argument key="city"<|sep|>R<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
  },
  muse: {
    open: ' to=f<|message|><atem:invoke name="f"><atem:parameter name="city">',
    parts: ["<atem:invoke ", '<atem:invoke name="', 'name=""', "<atem:parameter ", '<atem:parameter name="a">', "<|start|> to=f<|message|>", "to="],
    call: ' to=f<|message|><atem:function_calls><atem:invoke name="f"><atem:parameter name="city">R</atem:parameter></atem:invoke></atem:function_calls><|eot|>',
  },
  poolside_v1: { ...glm, parts: [...glm.parts, "<tool_call>f"] },
  spark25: { ...glm, parts: [...glm.parts, "<tool_call>", "</arg_key><arg_value>"] },
  gigachat3: { open: "function call<|role_sep|>\n", parts: [], call: `function call<|role_sep|>\n${json}` },
  glm45: glm,
  glm47: glm,
  "gpt-oss": {
    open: "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
    parts: ["<|start|>assistant<|channel|>", "<|x|>", "to=f ", "commentary", "analysis", "assistant", "<|channel|>final<|message|>"],
    call: '<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"city": "R"}<|call|>',
  },
  hermes: { ...jsonTags, open: "<tool_call>" },
  interns1: {
    open: "<|action_start|> <|plugin|>",
    parts: [],
    call: `<|action_start|> <|plugin|>${json}<|action_end|>`,
  },
  kimi_k2: {
    open: "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{",
    parts: ["<|tool_call_begin|>f:0 ", "<|tool_call_begin|>aaaa", "} ", "}<|tool_call_end|>", "0"],
    call: '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"city": "R"}<|tool_call_end|>',
  },
  lfm2: { open: "<|tool_call_start|>[f(city=", parts: ["f(a=", "f()", "),"], call: '<|tool_call_start|>[f(city="R")]<|tool_call_end|>' },
  llama3: { open: "<|python_tag|>", parts: ['{"name":', '{"name": "f"};', '{"name":"', "{'a': "], call: `<|python_tag|>${json}` },
  mimo: tagged,
  "minimax-m2": {
    open: '<minimax:tool_call><invoke name="f"><parameter name="city">',
    parts: ['<invoke name="', '<parameter name="', "</parameter>", "</invoke>"],
    call: '<minimax:tool_call><invoke name="f"><parameter name="city">R</parameter></invoke></minimax:tool_call>',
  },
  "minimax-m3": {
    open: ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">',
    parts: ["]<]minimax[>[<a>", "]<]minimax[>[</a>", "]<]minimax[>[  ", "]<]minimax[>[<item>"],
    call: ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">]<]minimax[>[<city>R]<]minimax[>[</city>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>',
  },
  mistral: { open: "[TOOL_CALLS] [", parts: ["[TOOL_CALLS]f[ARGS]", "[TOOL_CALLS", "[ARGS]{"], call: `[TOOL_CALLS] [${json}]` },
  mistral_ids: { open: "[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{", parts: ["[TOOL_CALLS]f[ARGS]", "[TOOL_CALLS]f", "[TOOL_CALLS][{", '[TOOL_CALLS]f[ARGS]{"a":', "[CALL_ID]"], call: '[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{"city": "R"}' },
  pythonic: { open: "[f(city=", parts: ["[f(", "f(a=", "f(a=1),", "f(a=1)", ", ", "[a(b=c,", "1, a="], call: '[f(city="R")]' },
  qwen25: jsonTags,
  qwen3_coder: tagged,
  seed_oss: { open: "<seed:tool_call><function=f><parameter=city>", parts: tagged.parts, call: "<seed:tool_call><function=f><parameter=city>R</parameter></function></seed:tool_call>" },
  step3: {
    open: '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f">',
    parts: ['<steptml:invoke name="', '<steptml:parameter name="', '<steptml:parameter name="a">', "</steptml:parameter>"],
    call: '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f"><steptml:parameter name="city">R</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>',
  },
  trinity: { ...jsonTags, parts: ["<think>", "</think>", "<tool<think>_call>\n"] },
}; // prettier-ignore

/**
 * Input that is hard for any reader: nesting, strings that do not end, escapes, blanks, digits,
 * markup.
 */
const common = ["{", "[", "[[],", '{"a":', "(", '"', '"a', "\\", '\\"', " ", "\n", "1", "1,", "-", "a", "<", ">", "&", "&amp;", "'", "\\n", "é", "}", "]", ")"]; // prettier-ignore

/** `make(length)` returns the text of a shape at that length. */
function shapesOf({ open, parts, call }, markers) {
  const pieces = [...new Set([...markers, ...parts, open, call, ...common])];
  const [first] = markers;
  // Sections that end and begin again, with a piece of content in each.
  const sections = markers.flatMap((marker, at) =>
    [markers[at + 1], markers[at - 1]]
      .filter((other) => other !== undefined)
      .flatMap((other) => [`${marker}${other}`, `${marker}1${other}{"a`]),
  );
  const wrapped = [...markers, ...parts].map((piece) => ({
    shape: `${piece} between ${first} and ${call.slice(-20)}`,
    make: (length) => first + piece.repeat(Math.ceil(length / piece.length)) + call.slice(call.lastIndexOf("<")),
  }));
  const ending = call.slice(call.lastIndexOf("R") + 1);
  const filledShapes = [...pieces, ...sections].flatMap((piece) => {
    const filled = (length) => piece.repeat(Math.ceil(length / piece.length));
    return [
      { piece, shape: `${piece} again and again`, make: filled },
      { piece, shape: `${piece} in an open call`, make: (length) => open + filled(length) },
      { piece, shape: `${piece} in a closed call`, make: (length) => open + filled(length) + ending },
    ];
  });
  return [...filledShapes, ...wrapped];
}

/** Shapes of whole texts that were once slow, or that repeating one piece does not produce. */
const tail = (length) => `"${"a".repeat(Math.floor(length / 2))}",${"1,".repeat(Math.floor(length / 4))}`;
const nests = [8, 64, 300, 900];
const extras = {
  llama3: [
    ...nests.map((depth) => ({ shape: `${depth} nested calls and a tail`, make: (length) => '{"name":['.repeat(depth) + tail(length) })),
    ...nests.map((depth) => ({
      shape: `${depth} nested calls, a tail, and all their ends`,
      make: (length) => '{"name":['.repeat(depth) + tail(length) + "]}".repeat(depth),
    })),
    { shape: "nested calls with long arguments", make: (length) => `{"name":["${"a".repeat(length / 100)}",`.repeat(100) },
    { shape: "nested dicts with long arguments", make: (length) => `{"name":['${"a".repeat(length / 100)}',`.repeat(100) + "x" + "]}".repeat(100) },
    { shape: "calls beside calls that do not end", make: (length) => '{"name":[{"name":1} ,'.repeat(length / 21) },
    { shape: "good calls in one that fails", make: (length) => `{"name":[${'{"name":1},'.repeat(length / 11)}` },
    { shape: "braces in strings", make: (length) => `{"name":['${"{".repeat(length / 2)}'}${"}".repeat(length / 2)}` },
  ],
}; // prettier-ignore

function cpuMs(action, times) {
  const before = process.cpuUsage();
  for (let time = 0; time < times; time++) action();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / times;
}

function measure(make, work) {
  const result = measureAt(size, make, work);
  if (result.ratio <= limit) return result;
  return { ratio: Math.min(result.ratio, measureAt(larger * size, make, work).ratio), ms: result.ms };
}

function measureAt(length, make, work) {
  const [short, long] = [work(make(length)), work(make(2 * length))];
  const once = cpuMs(short, 1);
  const times = Math.max(1, Math.ceil(shortestMs / Math.max(once, 0.02)));
  const least = { short: Infinity, long: Infinity };
  for (let round = 0; round < rounds; round++) {
    least.short = Math.min(least.short, cpuMs(short, times));
    least.long = Math.min(least.long, cpuMs(long, times));
    if (least.long / least.short <= clear) break;
  }
  return { ratio: least.long / least.short, ms: least.long };
}

/** `prepare(text)` returns the function that is measured. */
function toolCallSubjects(name) {
  const parser = toolCallParser(name);
  const syntax = syntaxes[name];
  const all = [...shapesOf(syntax, parser.markers), ...(extras[name] ?? [])];
  const own = new Set([...parser.markers, ...syntax.parts, syntax.open, syntax.call]);
  const ownShapes = all.filter(({ piece }) => piece === undefined || own.has(piece) || !common.includes(piece));
  const textMode = (repair) => (text) => () => [parser.hasToolCall(text), parser.parse(text, { tools, repair })];
  const tokenizer = byteTokenizer(parser.markers);
  const reader = createActionReader({
    tokenizer,
    stopTokenIds: [0],
    toolCallParser: parser,
    reasoningParser: null,
    parseMode: "tokens",
    forwardUnknownTools: false,
    frame: null,
    repair: true,
  });
  /**
   * Sampled tokens of a text: markers in its first 200 characters are special tokens, later ones
   * are spelled out.
   */
  const tokensMode = (text) => {
    const ids = Uint32Array.from([...tokenizer.encode(text.slice(0, 200)), ...tokenizer.spellOut(text.slice(200)), 0]);
    return () => reader(ids, { tools, turn: 0 });
  };
  return [
    { name, mode: "text, strict", shapes: all, prepare: textMode(false) },
    { name, mode: "text, repair", shapes: all, prepare: textMode(true) },
    // Reads every text strictly first, and both as text and as tokens.
    { name, mode: "tokens, repair", shapes: ownShapes, prepare: tokensMode },
  ];
}

function reasoningSubject(name) {
  const parser = reasoningParser(name);
  const [open, close] = parser.markers;
  const syntax =
    name === "gpt-oss" ? syntaxes["gpt-oss"] : { open, parts: reasoningParts[name] ?? [], call: `${open}R${close}` };
  const prepare = (text) => () => parser.split(text);
  return { name: `reasoning ${name}`, mode: "text", shapes: shapesOf(syntax, parser.markers), prepare };
}

/** Further components of reasoning, where the markers are not all. */
const reasoningParts = {
  ernie45: ["<response>", "</response>"],
  hunyuan_a13b: ["<think>\n", "\n</think>\n<answer>\n", "\n</answer>", "\\n</answer>"],
  granite: ["Here's my thought process:", "Here"],
  hy_v3: ["<think:a>", "</think:a>", "<think:", "<think:a"],
  hy_v4: ["<think:a>", "</think:a>", "<think:", "<think:a"],
  minicpmv: ["<tool_call>", "<|im_end|>", "<reserved_12>"],
  plamo3: [plamo("begin_tool_requests"), "<|plamo:tag|>", "<|plamo:"],
};

const wanted = process.argv.slice(2);
const isWanted = (name) => wanted.length === 0 || wanted.includes(name);
const subjects = [
  ...Object.keys(syntaxes).filter(isWanted).flatMap(toolCallSubjects),
  ...reasoningParserNames.filter((name) => isWanted(`reasoning ${name}`)).map(reasoningSubject),
];
const missing = toolCallParserNames.filter((name) => !(toolCallParser(name).name in syntaxes));
if (missing.length > 0) throw new Error(`Cannot measure every parser: there is no text for ${missing.join(", ")}.`);

console.log(machine());
console.log(`CPU at ${(2 * size) / 1000} kB over CPU at ${size / 1000} kB, least of up to ${rounds} rounds in turn\n`);
let count = 0;
let worst = 0;
const failures = [];
for (const { name, mode, shapes, prepare } of subjects) {
  const results = shapes.map(({ shape, make }) => {
    let result = measure(make, prepare);
    // Other load on the machine can spoil one measurement; quadratic time does not go away.
    for (let again = 0; again < 2 && result.ratio > limit; again++) {
      const next = measure(make, prepare);
      if (next.ratio < result.ratio) result = next;
    }
    return { shape, ...result };
  });
  const steepest = results.toSorted((a, b) => b.ratio - a.ratio)[0];
  const slowest = results.toSorted((a, b) => b.ms - a.ms)[0];
  count += results.length;
  worst = Math.max(worst, steepest.ratio);
  failures.push(...results.filter(({ ratio }) => ratio > limit).map((result) => ({ name, mode, ...result })));
  console.log(
    `${name.padEnd(30)} ${mode.padEnd(14)} ${String(shapes.length).padStart(4)} shapes   steepest ${steepest.ratio.toFixed(2)} (${show(steepest.shape)})   slowest ${slowest.ms.toFixed(1).padStart(6)} ms (${show(slowest.shape)})`,
  );
}
console.log(`\n${count} shapes, the steepest ${worst.toFixed(2)}`);
for (const { name, mode, shape, ratio, ms } of failures) {
  console.error(
    `Not linear: ${name}, ${mode}, ${show(shape)}: ratio ${ratio.toFixed(2)}, ${ms.toFixed(0)} ms at 200 kB.`,
  );
}
process.exitCode = failures.length > 0 ? 1 : 0;

function show(shape) {
  const text = JSON.stringify(shape).slice(1, -1);
  return text.length > 60 ? `${text.slice(0, 28)}…${text.slice(-28)}` : text;
}
