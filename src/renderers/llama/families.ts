// The Llama families. What was sampled is written back trimmed, so a history with blanks around an answer is rewritten.

import { toolCallParser } from "../../parsers/index.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import { endOfTurn, llama31, llama32, startHeader } from "./llama-3.ts";

const llama = {
  ...familyDefaults,
  specialTokens: new Map([["bos_token", "<|begin_of_text|>"]]),
  startToken: startHeader,
  endToken: endOfTurn,
  closing: "",
  stopTokens: [endOfTurn, "<|eom_id|>", "<|end_of_text|>"],
  history: "rewrites",
  reasoningParser: null,
  toolCallParser: toolCallParser("llama3"),
} as const;

export const llamaFamilies: readonly RendererFamily[] = [
  { name: "llama-3.1-instruct", template: llama31, ...llama },
  { name: "llama-3.2-instruct", template: llama32, ...llama },
];
