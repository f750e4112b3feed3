// Output of models of each family, for the properties of renderers: their marker tokens, a thought
// and a call. A table.

export type FamilySample = {
  /** Tokens of the family in addition to those in its description. */
  readonly markers: readonly string[];
  /**
   * An action that thinks and then answers, as sampled after the generation prompt; `null` if the
   * family does not think.
   */
  readonly thought: string | null;
  /** A call of `find_order` with `order_id` "#W1". */
  readonly call: string;
  /** Token that ends a call, if it is not the one that ends an answer. */
  readonly callEnd?: string;
  /** True if the template refuses tool results that follow no call. Default false. */
  readonly needsCallBeforeResults?: boolean;
  /** True if the template refuses more tool results than calls. Default false. */
  readonly countsResults?: boolean;
  /**
   * True if the template moves the tools and the system message to the newest question; a stream
   * leaves them where they are.
   */
  readonly movesTools?: boolean;
  /** True if the template does not close an answer of only blanks. */
  readonly leavesBlankOpen?: boolean;
};

const toolMarkers = ["<tool_call>", "</tool_call>"];
const thinkMarkers = ["<think>", "</think>"];
const jsonCall = '<tool_call>\n{"name": "find_order", "arguments": {"order_id": "#W1"}}\n</tool_call>';
const tagCall =
  "<tool_call>\n<function=find_order>\n<parameter=order_id>\n#W1\n</parameter>\n</function>\n</tool_call>";
const thinking = "<think>\nI should look.\n</think>\n\nHello!";
const opened = "I should look.\n</think>\n\nHello!";
const chatMl = { markers: [...toolMarkers, ...thinkMarkers], call: jsonCall };

const llama = {
  markers: ["<|end_header_id|>", "<|python_tag|>"],
  thought: null,
  call: '{"name": "find_order", "parameters": {"order_id": "#W1"}}',
};
const glm = {
  markers: ["<|system|>", "<|assistant|>", "[gMASK]", "<sop>", ...toolMarkers, ...thinkMarkers],
  thought: "\n<think>I should look.</think>\nHello!",
  call: "\n<tool_call>find_order\n<arg_key>order_id</arg_key>\n<arg_value>#W1</arg_value>\n</tool_call>",
};
const kimi = {
  markers: ["<|im_system|>", "<|im_assistant|>", "<|im_middle|>", ...thinkMarkers],
  call:
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.find_order:0<|tool_call_argument_begin|>" +
    '{"order_id": "#W1"}<|tool_call_end|><|tool_calls_section_end|>',
};
const deepseekMarkers = ["<｜Assistant｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", ...thinkMarkers];
const deepseekV31 = {
  markers: deepseekMarkers,
  thought: "<think>I should look.</think>Hello!",
  call:
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find_order<｜tool▁sep｜>" +
    '{"order_id": "#W1"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
};
const deepseekV3 = {
  markers: deepseekMarkers,
  call:
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>find_order\n```json\n" +
    '{"order_id": "#W1"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
};

const mistral = {
  markers: [
    ...["<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[CALL_ID]"],
    ...["[ARGS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"],
  ],
  thought: null,
  needsCallBeforeResults: true,
  movesTools: true,
};

const glm47 = {
  markers: glm.markers,
  thought: "I should look.</think>Hello!",
  call: "<tool_call>find_order<arg_key>order_id</arg_key><arg_value>#W1</arg_value></tool_call>",
};
const lfm2 = {
  markers: ["<|tool_call_start|>", "<|tool_call_end|>", "<|tool_response_start|>", ...thinkMarkers],
  call: '<|tool_call_start|>[find_order(order_id="#W1")]<|tool_call_end|>',
};
const minimax = {
  markers: ["]~!b[", "<minimax:tool_call>", "</minimax:tool_call>", "<mm:think>", "</mm:think>"],
  call:
    '<minimax:tool_call>\n<invoke name="find_order">\n<parameter name="order_id">#W1</parameter>\n</invoke>\n' +
    "</minimax:tool_call>",
};
const laguna = { markers: ["<assistant>", ...toolMarkers, ...thinkMarkers], call: glm.call };

export const familySamples: Readonly<Record<string, FamilySample>> = {
  "qwen2.5-instruct": { ...chatMl, thought: null },
  "qwen3-instruct-2507": { ...chatMl, thought: null },
  qwen3: { ...chatMl, thought: thinking },
  "qwen3-rev2": { ...chatMl, thought: thinking },
  "qwen3-miles-fixed": { ...chatMl, thought: thinking },
  "qwen3-skyrl-acc-thinking": { ...chatMl, thought: thinking },
  "qwen3-coder": { ...chatMl, call: tagCall, thought: null },
  "qwen3.5": { ...chatMl, call: tagCall, thought: opened },
  "qwq-32b": { ...chatMl, thought: opened },
  "llama-3.1-instruct": llama,
  "llama-3.2-instruct": llama,
  "hermes-3-tool-use": { ...chatMl, thought: null },
  "glm-4.5": glm,
  "glm-4.6": glm,
  "glm-4.7-flash": glm47,
  "kimi-k2": { ...kimi, thought: null },
  "kimi-k2-thinking": { ...kimi, thought: "<think>I should look.</think>Hello!" },
  "deepseek-v3.1": deepseekV31,
  "deepseek-v3.1-sglang-tools": deepseekV31,
  "deepseek-v3-sglang-tools": { ...deepseekV3, thought: null },
  "deepseek-r1": { ...deepseekV3, thought: opened },
  "gpt-oss": {
    markers: ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>"],
    thought: "<|channel|>analysis<|message|>I should look.<|end|><|start|>assistant<|channel|>final<|message|>Hello!",
    call: '<|channel|>commentary to=functions.find_order <|constrain|>json<|message|>{"order_id": "#W1"}',
    callEnd: "<|call|>",
    needsCallBeforeResults: true,
  },
  "minimax-m3": {
    markers: ["]~!b[", "<minimax:tool_call>", "</minimax:tool_call>", "<mm:think>", "</mm:think>"],
    thought: "I should look.\n</mm:think>\n\nHello!",
    call:
      '<minimax:tool_call>\n<invoke name="find_order">\n<parameter name="order_id">#W1</parameter>\n</invoke>\n' +
      "</minimax:tool_call>",
    needsCallBeforeResults: true,
  },
  smollm3: { ...chatMl, thought: thinking },
  "mistral-nemo-2407": {
    ...mistral,
    call: '[TOOL_CALLS][{"name": "find_order", "arguments": {"order_id": "#W1"}, "id": "a1B2c3D4e"}]',
  },
  "mistral-small-3.2": {
    ...mistral,
    call: '[TOOL_CALLS]find_order[CALL_ID]a1B2c3D4e[ARGS]{"order_id": "#W1"}',
  },
  "seed-oss": {
    markers: ["<seed:bos>", "<seed:eos>", "<seed:think>", "</seed:think>", "<seed:tool_call>", "</seed:tool_call>"],
    thought: "<seed:think>I should look.</seed:think>\nHello!",
    leavesBlankOpen: true,
    call: "<seed:tool_call>\n<function=find_order>\n<parameter=order_id>#W1</parameter>\n</function>\n</seed:tool_call>",
  },
  "qwen3.6": { ...chatMl, call: tagCall, thought: opened },
  "qwen3.8": { ...chatMl, call: tagCall, thought: opened },
  "nemotron-3": { ...chatMl, call: tagCall, thought: opened },
  "step-3.5-flash": { ...chatMl, call: tagCall, thought: opened },
  lfm2: { ...lfm2, thought: null },
  "lfm2-rev2": { ...lfm2, thought: null },
  "lfm2.5": { ...lfm2, thought: thinking },
  "granite-4": { markers: ["<|end_of_role|>", ...toolMarkers], thought: null, call: jsonCall },
  "glm-5.1": glm47,
  "glm-5.2": glm47,
  "kimi-k2.5": { ...kimi, thought: "I should look.</think>Hello!" },
  "minimax-m2": {
    ...minimax,
    needsCallBeforeResults: true,
    markers: [...minimax.markers, ...thinkMarkers],
    thought: opened,
  },
  "minimax-m3-published": {
    ...minimax,
    needsCallBeforeResults: true,
    thought: "<mm:think>I should look.</mm:think>Hello!",
    call: ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="find_order">]<]minimax[>[<order_id>#W1]<]minimax[>[</order_id>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>',
  },
  "ling-3": {
    markers: [...toolMarkers, ...thinkMarkers],
    thought: "I should look.</think>Hello!",
    call: glm.call.trim(),
  },
  "laguna-xs.2": { ...laguna, thought: null },
  "laguna-xs-2.1": { ...laguna, thought: null },
  "laguna-s-2.1": { ...laguna, call: glm47.call, thought: "I should look.</think>Hello!" },
  "deepseek-r1-distill": { ...deepseekV3, thought: opened },
  "gemma-4": {
    markers: [
      "<|channel>",
      "<channel|>",
      "<|tool_call>",
      "<tool_call|>",
      '<|"|>',
      "<|tool>",
      "<tool|>",
      "<tool_response|>",
    ],
    thought: "<|channel>thought\nI should look.\n<channel|>Hello!",
    call: '<|tool_call>call:find_order{order_id:<|"|>#W1<|"|>}<tool_call|>',
    needsCallBeforeResults: true,
  },
  "muse-glimmer": {
    markers: ["<|message|>", "<|eom|>"],
    callEnd: "<|eot|>",
    thought: " to=self<|message|>I should look.<|eom|><|start|>assistant to=user<|message|>Hello!",
    call: ' to=find_order<|message|><atem:function_calls>\n<atem:invoke name="find_order">\n<atem:parameter name="order_id">#W1</atem:parameter>\n</atem:invoke>\n</atem:function_calls>',
    needsCallBeforeResults: true,
  },
};
