// The Kimi families.

import { reasoningParser, toolCallParser } from "../../parsers/index.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import { kimiK2Thinking } from "./kimi-k2-thinking.ts";
import { kimiK2 } from "./kimi-k2.ts";

const kimi = {
  ...familyDefaults,
  startToken: "<|im_user|>",
  endToken: "<|im_end|>",
  closing: "",
  stopTokens: ["<|im_end|>", "[EOS]"],
  toolCallParser: toolCallParser("kimi_k2"),
} as const;

export const kimiFamilies: readonly RendererFamily[] = [
  { name: "kimi-k2", template: kimiK2, ...kimi, history: "append-only", reasoningParser: null },
  {
    name: "kimi-k2-thinking",
    template: kimiK2Thinking,
    ...kimi,
    history: "rewrites",
    reasoningParser: reasoningParser("kimi_k2"),
  },
];
