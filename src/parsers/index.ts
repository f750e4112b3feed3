// Sampled output to reasoning, content and tool calls: one file per syntax, each exact to SGLang's parser of that name.

export { type ReasoningOptions, type ReasoningParser, type ReasoningSplit } from "./reasoning-parser.ts";
export { reasoningParser, reasoningParserNames } from "./reasoning-parsers.ts";
export type { ToolCallParse, ToolCallParseOptions, ToolCallParser } from "./tool-call-parser.ts";
export { toolCallParser, toolCallParserNames } from "./tool-call-parsers.ts";
export type { DetectedCall } from "./tool-call-scan.ts";
