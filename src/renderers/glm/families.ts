// The GLM families. A model stops with the token that opens the next message: the user's, or that of tool results.

import { reasoningParser, toolCallParser } from "../../parsers/index.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import { glm45, glm46, glm47Flash } from "./glm-4.ts";

const glm = {
  ...familyDefaults,
  startToken: "<|user|>",
  endToken: null,
  closing: "",
  stopTokens: ["<|user|>", "<|observation|>", "<|endoftext|>"],
  history: "rewrites",
  reasoningParser: reasoningParser("glm45"),
  thinkingVariable: "enable_thinking",
} as const;

export const glmFamilies: readonly RendererFamily[] = [
  { name: "glm-4.5", template: glm45, ...glm, toolCallParser: toolCallParser("glm45") },
  { name: "glm-4.6", template: glm46, ...glm, toolCallParser: toolCallParser("glm45") },
  { name: "glm-4.7-flash", template: glm47Flash, ...glm, toolCallParser: toolCallParser("glm47") },
];
