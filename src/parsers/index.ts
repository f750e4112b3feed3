// Sampled output to reasoning, content and tool calls: one file per syntax, each exact to SGLang's parser of that name where
// SGLang has one.

export {
  type ReasoningOptions,
  type ReasoningParser,
  reasoningParser,
  reasoningParserNames,
  type ReasoningSplit,
  type ReasoningStep,
} from "./reasoning-parsers.ts";
export {
  type ParseDelta,
  heldBack,
  startParsing,
  type StreamedParse,
  type StreamingOptions,
  type StreamingParser,
} from "./streaming.ts";
export { writtenCallIds } from "./formats/mistral.ts";
export {
  mayBeOtherFormat,
  type OtherFormat,
  otherFormatNames,
  type OtherFormatOptions,
  readOtherFormat,
} from "./other-formats.ts";
export { parseAnyCalls } from "./parse-any-calls.ts";
export { calledTool, formatsWithout, spelledCall } from "./spelled-calls.ts";
export type { FormatHints, ToolCallParse, ToolCallParseOptions, ToolCallParser } from "./tool-call-parser.ts";
export { toolCallParser, toolCallParserNames } from "./tool-call-parsers.ts";
export type { DetectedCall } from "./tool-call-scan.ts";
