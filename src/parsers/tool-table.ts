// The tools of an episode as parsers look at them: names to places, and declared argument types. Made once per list of
// tools, because a parser runs every turn.

import { type Tool, toolParameters } from "../core/index.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/index.ts";

export type ToolTable = {
  readonly tools: readonly Tool[];
  /** Place of a name in the list; of equal names the last counts, nameless tools never do. */
  readonly indices: ReadonlyMap<string, number>;
};

const tables = new WeakMap<readonly Tool[], ToolTable>();

/** The table of a list of tools, made on first sight; the list must not change afterwards. */
export function toolTable(tools: readonly Tool[]): ToolTable {
  const known = tables.get(tools);
  if (known !== undefined) return known;
  const indices = new Map<string, number>();
  tools.forEach((tool, index) => {
    if (tool.name !== "") indices.set(tool.name, index);
  });
  const table: ToolTable = { tools, indices };
  tables.set(tools, table);
  return table;
}

/** The declared properties of a tool's arguments; empty when there are none to read. */
export function toolProperties(table: ToolTable, name: string): ReadonlyMap<string, JsonValue> {
  const index = table.indices.get(name);
  const tool = index === undefined ? undefined : table.tools[index];
  const parameters = tool === undefined ? null : toolParameters(tool);
  const properties = parameters instanceof Map ? parameters.get("properties") : null;
  return properties instanceof Map ? properties : noProperties;
}

const noProperties: JsonObject = new Map();
