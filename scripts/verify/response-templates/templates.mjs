// Answers that TRL's templates read, and our own templates for features that TRL's do not use:
// every content parser, joined and repeated fields, transforms of each element, literals that are
// prefixes of one another, ends of the text, required fields.

/** Whole answers, by the name of the template in TRL. @type {Readonly<Record<string, readonly string[]>>} */
export const answers = {
  qwen3_template: [
    '<think>\nLet me see.\n</think>\n\nOne moment.<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}\n</tool_call>\n<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call><|im_end|>\n',
    "A short answer.<|im_end|>",
    "<think>cut off",
  ],
  qwen3_5_template: [
    "<think>\nWell.\n</think>\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call><|im_end|>",
    "<tool_call><function=ping></function></tool_call>Done.",
  ],
  glm4moe_template: [
    "<think>Well.</think>\nOne moment.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call><|user|>",
    "<tool_call>ping\n</tool_call>",
  ],
  llama3_template: [
    '{"name": "get_weather", "parameters": {"city": "Rome", "days": "3"}}<|eot_id|>',
    "An answer.<|eot_id|>\n",
  ],
  gptoss_template: [
    '<|channel|>analysis<|message|>Well.<|end|><|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Rome"}<|call|>',
    "<|channel|>final<|message|>An answer.<|return|>",
  ],
  lfm2_2_5_template: [
    "<think>Well.</think><|tool_call_start|>[get_weather(city='Rome', days=3), ping()]<|tool_call_end|>One moment.<|im_end|>",
    "An answer.<|im_end|>",
  ],
  nemotron_3_template: [
    "Well.\n</think>\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>\n<|im_end|>",
    "An answer.<|im_end|>\n",
  ],
  gemma4_template: [
    '<|channel>thought\nWell.<channel|><|tool_call>call:get_weather{city:<|"|>Rome<|"|>,days:3}<tool_call|><|tool_response>',
    "An answer.<turn|>",
  ],
  deepseek_r1_distill_template: ["Well.\n</think>\n\nAn answer.<｜end▁of▁sentence｜>", "No thought."],
};

const call = { type: "function", function: { name: "{name}", arguments: "{content}" } };

/** @type {Readonly<Record<string, { readonly template: object, readonly answers: readonly string[] }>>} */
export const ownTemplates = {
  "python-call-list, each": {
    template: {
      start_anchor: "<a>",
      defaults: { role: "assistant", tool_calls: [] },
      fields: {
        tool_calls: {
          open: "<calls>",
          close: "</calls>",
          content: "python-call-list",
          transform: { type: "function", function: { name: "{name}", arguments: "{arguments}" } },
          transform_each: true,
        },
        content: {},
      },
    },
    answers: [
      `Now.<calls>[get_weather(city="Rome", days=3), a.b-c(x=[1, 2.5, -0, {'k': None}], y=True)]</calls>`,
      `<calls>[ping(text='a\\n\\u00e9\\ud83d\\ude00', n=9007199254740991)]</calls>after`,
      "<calls>[]</calls>",
    ],
  },
  "kv-lines, joined": {
    template: {
      start_anchor: ["<a>", "<assistant>"],
      fields: {
        note: { open: ["<note>", "<note>>"], close: ["</note>", "</note>\n"], repeats: true, join: "\n" },
        facts: {
          open: "<facts>",
          close: "</facts>",
          content: "kv-lines",
          content_args: { kv_sep: "=", value_parser: { name: "json", args: { allow_non_json: true } } },
        },
        content: { close_pattern: "<end>\\s*|$" },
      },
    },
    answers: [
      "<note>one</note>text<note>>two</note>\nmore<end>\n",
      "<facts>a=1\nb = [1, 2.0]\nc=x=y\nnone\n =3</facts>rest\n",
    ],
  },
  "numbers, required": {
    template: {
      start_anchor_pattern: "<a\\d?>",
      defaults: { score: null },
      fields: {
        score: { open: "<score>", close: "</score>", content: "float" },
        count: { open: "<count>", close: "</count>", content: "int", optional: false },
        sure: { open: "<sure>", close: "</sure>", content: "bool", repeats: true },
        raw: { open: "<raw>", close: "</raw>", content: "text", content_args: { strip: false } },
      },
    },
    answers: [
      "<score> 0.50 </score><count> 1_000 </count><sure>TRUE</sure><sure>no</sure><raw> a </raw>lost",
      "<score>1e400</score><count>x</count>",
    ],
  },
  "captures of both ends": {
    template: {
      start_anchor: "<a>",
      fields: {
        tool_calls: {
          open_pattern: "\\[(?P<name>[\\w.]+)(?:#(?P<id>\\d+))?\\]",
          close_pattern: "\\[/(?P<name>\\w+)\\]|\\Z",
          repeats: true,
          content: "json",
          content_args: {
            unquoted_keys: true,
            string_delims: [
              ["«", "»"],
              ["'", "'"],
            ],
          },
          transform: call,
        },
        content: { content: "text", close_pattern: "(?<=\\.)\\s*(?=STOP)" },
      },
    },
    answers: [
      "[ping#3]{a: 1, b: 'x', \"c\": «y»}[/pong]",
      "[ping]{a: {b: [1, 2]}}",
      "One. STOP two.  STOP",
      '[get.weather]{"city": "Rome"}[/w] and more',
    ],
  },
  "tags merged": {
    template: {
      start_anchor: "<a>",
      fields: {
        tool_calls: {
          open_pattern: "<f=(?P<name>[^>]*)>",
          close: "</f>",
          repeats: true,
          content: "xml-inline",
          transform: call,
          content_args: {
            tag_pattern: "<(?P<key>\\w+)>(?P<value>.*?)</\\1>".replace("\\1", "\\w+"),
            merge_duplicates: true,
          },
        },
        thinking: { open_pattern: "(?=[\\s\\S]*?</t>)", close_pattern: "</t>\\s*" },
        content: {},
      },
    },
    answers: [
      "Well.</t>\n<f=get_weather><city>Rome</city><days>1</days><days>2</days></f>",
      "<f=get_weather><days>7</days><days>x</days><days>9</days></f>text",
    ],
  },
};

/** Prompts before an answer, in which the templates search for their anchors. */
export const prefixes = ["", "<a>", "<a><a1>", "<assistant>", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n", "<|assistant|>", "<|assistant|><think>", "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|start|>assistant", "<|turn>model\n", "<｜Assistant｜><think>\n", "no anchor <think>"]; // prettier-ignore

/** Tools whose schemas determine the types of text arguments. */
export const tools = [
  {
    type: "function",
    function: {
      name: "get_weather",
      parameters: {
        type: "object",
        properties: {
          city: { type: "string" },
          days: { type: ["integer", "null"] },
          limit: { anyOf: [{ type: "number" }, { type: "boolean" }], nullable: true },
          where: { type: "object" },
          list: { type: "array" },
        },
      },
    },
  },
  { type: "function", function: { name: "ping" } },
];
