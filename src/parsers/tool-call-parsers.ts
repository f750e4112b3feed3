// The tool-call parsers by SGLang's names, its aliases included.

import { ConfigurationError } from "../core/index.ts";
import { qwen25 } from "./qwen25.ts";
import type { ToolCallParser } from "./tool-call-parser.ts";

const parsers: ReadonlyMap<string, ToolCallParser> = new Map([qwen25].map((parser) => [parser.name, parser]));

const aliases: ReadonlyMap<string, string> = new Map([["qwen", "qwen25"]]);

export const toolCallParserNames: readonly string[] = [...parsers.keys(), ...aliases.keys()].sort();

/** The tool-call parser of a name. Throws a `ConfigurationError` that lists the names there are. */
export function toolCallParser(name: string): ToolCallParser {
  const parser = parsers.get(aliases.get(name) ?? name);
  if (parser !== undefined) return parser;
  throw new ConfigurationError(
    `Cannot read tool calls with parser "${name}": there is none of that name; use one of ${toolCallParserNames.join(", ")}.`,
  );
}
