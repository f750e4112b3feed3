// The DeepSeek families.

import type { Message } from "../../core/index.ts";
import { reasoningParser, toolCallParser } from "../../parsers/index.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import { deepseekV31, deepseekV31SglangTools } from "./deepseek-v3.1.ts";
import { deepseekR1, deepseekV3SglangTools } from "./deepseek-v3.ts";
import { endToken, userToken } from "./parts.ts";

const deepseek = {
  ...familyDefaults,
  specialTokens: new Map([["bos_token", "<｜begin▁of▁sentence｜>"]]),
  startToken: userToken,
  endToken,
  closing: "",
  stopTokens: [endToken],
  history: "rewrites",
} as const;

const v31 = {
  ...deepseek,
  reasoningParser: reasoningParser("deepseek-v3"),
  toolCallParser: toolCallParser("deepseekv31"),
  thinkingVariable: "thinking",
} as const;

/** The section of tool results is opened by the first ones after `isReset`, so a stand-in must have had some where the history had. */
function afterResults(isReset: (message: Message) => boolean): RendererFamily["standIn"] {
  return (history) => {
    const standIn = deepseek.standIn();
    const start = history.findLastIndex(isReset) + 1;
    if (!history.slice(start).some(({ role }) => role === "tool")) return standIn;
    return [standIn[0], { role: "tool", content: "", name: "", callId: null }, ...standIn.slice(1)];
  };
}

export const deepseekFamilies: readonly RendererFamily[] = [
  { name: "deepseek-v3.1", template: deepseekV31, ...v31 },
  { name: "deepseek-v3.1-sglang-tools", template: deepseekV31SglangTools, ...v31 },
  {
    name: "deepseek-v3-sglang-tools",
    template: deepseekV3SglangTools,
    ...deepseek,
    reasoningParser: null,
    toolCallParser: toolCallParser("deepseekv3"),
    standIn: afterResults((message) => message.role === "assistant" && message.toolCalls.length > 0),
  },
  {
    name: "deepseek-r1",
    template: deepseekR1,
    ...deepseek,
    reasoningParser: reasoningParser("deepseek-r1"),
    toolCallParser: toolCallParser("deepseekv3"),
    standIn: afterResults(() => false),
  },
];
