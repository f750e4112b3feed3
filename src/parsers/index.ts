// Sampled output to reasoning, content and tool calls: one file per syntax, each exact to SGLang's parser of that name where
// SGLang has one.

export { type ReasoningOptions, type ReasoningParser, type ReasoningSplit } from "./reasoning-parser.ts";
export { reasoningParser, reasoningParserNames } from "./reasoning-parsers.ts";
export {
  type ParseDelta,
  startParsing,
  type StreamedParse,
  type StreamingOptions,
  type StreamingParser,
} from "./streaming/start-parsing.ts";
export type { ReasoningStage } from "./streaming/reasoning-stage.ts";
export { writtenCallIds } from "./formats/mistral-ids.ts";
export type { FormatHints } from "./format-hints.ts";
export type { ToolCallParse } from "./tool-call-parse.ts";
export type { ToolCallParseOptions, ToolCallParser } from "./tool-call-parser.ts";
export { toolCallParser, toolCallParserNames } from "./tool-call-parsers.ts";
export type { DetectedCall } from "./tool-call-scan.ts";
