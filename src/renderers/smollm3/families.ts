// The SmolLM3 family. How it writes later turns depends on the system message, so its stand-in has that too.

import { reasoningParser, toolCallParser } from "../../parsers/index.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import { smollm3 } from "./smollm3.ts";

export const smollm3Families: readonly RendererFamily[] = [
  {
    ...familyDefaults,
    name: "smollm3",
    template: smollm3,
    startToken: "<|im_start|>",
    endToken: "<|im_end|>",
    closing: "\n",
    stopTokens: ["<|im_end|>", "<|end_of_text|>"],
    history: "rewrites",
    reasoningParser: reasoningParser("qwen3"),
    toolCallParser: toolCallParser("hermes"),
    thinkingVariable: "enable_thinking",
    standIn: (history) => [...history.slice(0, 1).filter(({ role }) => role === "system"), ...familyDefaults.standIn()],
  },
];
