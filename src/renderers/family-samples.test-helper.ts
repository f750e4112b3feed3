// What models of each family write, for the properties of renderers: their marker tokens, a thought and a call. A table.

export type FamilySample = {
  /** Tokens of the family beside those its description names. */
  readonly markers: readonly string[];
  /** An action that thinks and then answers, as sampled after the generation prompt; `null`: the family does not think. */
  readonly thought: string | null;
  /** A call of `find_order` with `order_id` "#W1". */
  readonly call: string;
};

const toolMarkers = ["<tool_call>", "</tool_call>"];
const thinkMarkers = ["<think>", "</think>"];
const jsonCall = '<tool_call>\n{"name": "find_order", "arguments": {"order_id": "#W1"}}\n</tool_call>';
const tagCall =
  "<tool_call>\n<function=find_order>\n<parameter=order_id>\n#W1\n</parameter>\n</function>\n</tool_call>";
const thinking = "<think>\nI should look.\n</think>\n\nHello!";
const opened = "I should look.\n</think>\n\nHello!";
const chatMl = { markers: [...toolMarkers, ...thinkMarkers], call: jsonCall };

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
};
