// The Qwen families, by the names that `rendererFor` and the command line know.

import { reasoningParser, toolCallParser } from "../../parsers/index.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import { endToken, startToken } from "./parts.ts";
import { qwen25Instruct } from "./qwen2.5-instruct.ts";
import { qwen3Coder } from "./qwen3-coder.ts";
import { qwen3Instruct2507 } from "./qwen3-instruct-2507.ts";
import { qwen3MilesFixed } from "./qwen3-miles-fixed.ts";
import { qwen3Revision2 } from "./qwen3-rev2.ts";
import { qwen3SkyrlAccThinking } from "./qwen3-skyrl-acc-thinking.ts";
import { qwen35 } from "./qwen3.5.ts";
import { qwen3 } from "./qwen3.ts";
import { qwq32b } from "./qwq-32b.ts";

const chatMl = {
  ...familyDefaults,
  startToken,
  endToken,
  closing: "\n",
  stopTokens: [endToken, "<|endoftext|>"],
  toolCallParser: toolCallParser("qwen25"),
} as const;

const plain = { ...chatMl, history: "append-only", reasoningParser: null } as const;
const thinking = { ...chatMl, history: "rewrites", reasoningParser: reasoningParser("qwen3") } as const;
const hybrid = { ...thinking, thinkingVariable: "enable_thinking" } as const;
const tagged = { toolCallParser: toolCallParser("qwen3_coder") } as const;

export const qwenFamilies: readonly RendererFamily[] = [
  { name: "qwen2.5-instruct", template: qwen25Instruct, ...plain },
  { name: "qwen3-instruct-2507", template: qwen3Instruct2507, ...plain },
  { name: "qwen3", template: qwen3, ...hybrid },
  { name: "qwen3-rev2", template: qwen3Revision2, ...hybrid },
  { name: "qwen3-miles-fixed", template: qwen3MilesFixed, ...hybrid },
  { name: "qwen3-skyrl-acc-thinking", template: qwen3SkyrlAccThinking, ...hybrid },
  { name: "qwen3-coder", template: qwen3Coder, ...plain, ...tagged },
  { name: "qwen3.5", template: qwen35, ...hybrid, ...tagged },
  { name: "qwq-32b", template: qwq32b, ...thinking },
];
