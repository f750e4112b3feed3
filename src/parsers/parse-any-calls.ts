// Reads calls of tools that do not exist like all others, for environments that answer them
// themselves. Not a switch of the parsers: `forwardUnknownTools` is SGLang's, and has another
// meaning in each format.

import { type Tool, toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import type { ToolCallParse, ToolCallParseOptions, ToolCallParser } from "./tool-call-parser.ts";

/**
 * Maximum parses of one text: some formats report an unknown tool only after an earlier one is
 * known.
 */
const mostParses = 8;

/**
 * Parses a text as if the nonexistent tools that it calls were declared with any parameters.
 * Formats treat unknown tools in too many ways for one switch: some accept them, some drop the
 * call, some drop all calls of the text.
 */
export function parseAnyCalls(parser: ToolCallParser, text: string, options: ToolCallParseOptions): ToolCallParse {
  const known = new Set(options.tools.map(({ name }) => name));
  let { tools } = options;
  for (let parses = 1; ; parses++) {
    const parse = parser.parse(text, { ...options, tools });
    const unknown = new Set<string>();
    for (const { code, toolName } of parse.problems) {
      if (code === "unknown-tool" && toolName !== null && !known.has(toolName)) unknown.add(toolName);
    }
    if (unknown.size === 0 || parses === mostParses) return parse;
    for (const name of unknown) known.add(name);
    tools = [...tools, ...Array.from(unknown, standInTool)];
  }
}

function standInTool(name: string): Tool {
  const parameters = { type: "object", properties: {} };
  return toolFromDefinition(fromPlain({ type: "function", function: { name, parameters } }) as JsonObject);
}
