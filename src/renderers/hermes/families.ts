// The Hermes family with its tool template; without tools its system turn lists none.

import { toolCallParser } from "../../parsers/index.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import { hermes3ToolUse } from "./hermes-3-tool-use.ts";

export const hermesFamilies: readonly RendererFamily[] = [
  {
    ...familyDefaults,
    name: "hermes-3-tool-use",
    template: hermes3ToolUse,
    specialTokens: new Map([["bos_token", "<|begin_of_text|>"]]),
    noTools: [],
    startToken: "<|im_start|>",
    endToken: "<|im_end|>",
    closing: "\n",
    stopTokens: ["<|im_end|>", "<|end_of_text|>"],
    history: "rewrites",
    reasoningParser: null,
    toolCallParser: toolCallParser("hermes"),
  },
];
