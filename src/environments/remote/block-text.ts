// What a policy reads of a result in blocks: text as it is, and of everything that is no text a note, so that the policy knows that
// there was something. Blocks of ORS and of MCP have the same fields.

import { dumpJson } from "../../python-semantics/json/dump-json.ts";
import type { JsonValue } from "../../python-semantics/json/value.ts";

/** Blocks stand on lines of their own. */
export function blockText(blocks: readonly JsonValue[]): string {
  return blocks.map(textOfBlock).join("\n");
}

function textOfBlock(block: JsonValue): string {
  if (!(block instanceof Map)) return typeof block === "string" ? block : dumpJson(block);
  const text = (key: string): string | null => {
    const value = block.get(key);
    return typeof value === "string" ? value : null;
  };
  const type = text("type");
  if (type === "text") return text("text") ?? "";
  if (type === "image" || type === "audio") {
    return `[${type}${text("mimeType") === null ? "" : ` (${text("mimeType")})`}: not shown]`;
  }
  if (type === "resource_link") return `[resource ${text("uri") ?? "without address"}: not shown]`;
  if (type === "resource") {
    const resource = block.get("resource");
    const content = resource instanceof Map ? resource.get("text") : null;
    return typeof content === "string" ? content : "[resource: not shown]";
  }
  return dumpJson(block);
}
