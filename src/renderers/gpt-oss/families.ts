// The gpt-oss family. An action is a run of blocks that ends with an answer (`<|return|>`) or a call (`<|call|>`).

import { reasoningParser, toolCallParser } from "../../parsers/index.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import { gptOss } from "./gpt-oss.ts";
import { harmonyMessage, readHarmonyAction } from "./harmony-message.ts";

export const gptOssFamilies: readonly RendererFamily[] = [
  {
    ...familyDefaults,
    name: "gpt-oss",
    template: gptOss,
    startToken: "<|start|>",
    endToken: "<|end|>",
    otherEnds: ["<|return|>", "<|call|>"],
    closing: "",
    stopTokens: ["<|return|>", "<|call|>", "<|endoftext|>"],
    history: "rewrites",
    reasoningParser: reasoningParser("gpt-oss"),
    toolCallParser: toolCallParser("gpt-oss"),
    actionFrame: "<|start|>assistant",
    wire: harmonyMessage,
    // Tool results bear the name of the call before them.
    standIn: (history) => {
      const [question, answer] = familyDefaults.standIn();
      const last = history.at(-1);
      const read = last?.role === "assistant" ? readHarmonyAction(last) : null;
      return [
        question,
        read !== null && read.toolCalls.length > 0 ? { ...read, reasoning: null, content: "" } : answer,
      ];
    },
  },
];
