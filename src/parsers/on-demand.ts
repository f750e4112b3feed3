// The parsers without their formats, each of which is loaded by its name: call `loadToolCallParser`
// or `loadReasoningParser` first; then `toolCallParser` and `reasoningParser` return the loaded
// ones.

import type { TextForm, Tool } from "../core/index.ts";

export type { ReasoningOptions, ReasoningParser, ReasoningSplit, ReasoningStep } from "./reasoning-parser.ts";
export { loadReasoningParser, reasoningParser, reasoningParserNames } from "./reasoning-parsers.ts";
export {
  type ParseDelta,
  heldBack,
  startParsing,
  type StreamedParse,
  type StreamingOptions,
  type StreamingParser,
} from "./streaming.ts";
export { writtenCallIds } from "./mistral-blocks.ts";
export {
  mayBeOtherFormat,
  type OtherFormat,
  otherFormatNames,
  type OtherFormatOptions,
  readOtherFormat,
} from "./other-formats.ts";
export { parseAnyCalls } from "./parse-any-calls.ts";
export { calledTool, spelledCall, withExample } from "./spelled-calls.ts";
export { isResponseTemplate, responseTemplateName } from "./parser-table.ts";
export { loadTemplateParsers } from "./response-template/on-demand.ts";
export type { ResponseTemplateParsers } from "./response-template/template-parsers.ts";
export type { FormatHints, ToolCallParse, ToolCallParseOptions, ToolCallParser } from "./tool-call-parser.ts";
/** Forms of calls, which only constraints need. */
export const loadCallForms = async (): Promise<{
  readonly callForm: (parser: string, tool: Tool) => TextForm | null;
}> => import("./call-forms.ts");
export { loadToolCallParser, toolCallParser, toolCallParserNames } from "./tool-call-parsers.ts";
export type { DetectedCall } from "./tool-call-scan.ts";
