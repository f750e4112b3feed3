// What the policy reads of the result of a tool, and of a call that the server refused. A policy reads text: what is none stands
// there as a note of what it was, so that a result that came is never an empty one.

import { fromForeign } from "../../../python-semantics/json/plain.ts";
import { dumpJson } from "../../../python-semantics/json/dump-json.ts";
import { remoteFault } from "../index.ts";

type Part = Readonly<Record<string, unknown>>;

export type ReadResult = { readonly text: string; readonly isError: boolean; readonly structured: unknown };

/** Throws a fault "remote-invalid" for what is no result. `maxSize`: values and characters of structured content. */
export function readToolResult(name: string, value: unknown, maxSize: number): ReadResult {
  const { content = [], structuredContent, isError = false } = asRecord(value) ?? { content: null };
  if (!Array.isArray(content) || typeof isError !== "boolean") {
    throw remoteFault("remote-invalid", `Cannot read the result of "${name}": it has no list of contents.`);
  }
  const texts = content.map((part: unknown) => partText(name, part));
  const structured = structuredContent === undefined ? null : structuredContent;
  // Servers repeat it as text, as the protocol asks them to; those that do not say nothing else.
  if (texts.length === 0 && structured !== null) texts.push(dumpJson(fromForeign(structured, { maxSize })));
  return { text: texts.join("\n"), isError, structured };
}

function partText(name: string, value: unknown): string {
  const part = asRecord(value);
  const { type } = part ?? {};
  if (part === null || typeof type !== "string") {
    throw remoteFault("remote-invalid", `Cannot read the result of "${name}": a content has no type.`);
  }
  switch (type) {
    case "text":
      return textOf(name, part["text"]);
    case "image":
    case "audio":
      return `[${type} ${shown(part["mimeType"])}, ${bytesOf(part["data"])} bytes, not shown]`;
    case "resource": {
      const { uri, mimeType, text, blob } = asRecord(part["resource"]) ?? {};
      if (typeof text === "string") return `[resource ${shown(uri)}]\n${text}`;
      return `[resource ${shown(uri)}, ${shown(mimeType)}, ${bytesOf(blob)} bytes, not shown]`;
    }
    case "resource_link":
      return `[resource ${shown(part["uri"])}, ${shown(part["name"])}, not read]`;
    default:
      return `[${shown(type)}, not shown]`;
  }
}

function textOf(name: string, text: unknown): string {
  if (typeof text === "string") return text;
  throw remoteFault("remote-invalid", `Cannot read the result of "${name}": a content of type "text" has no text.`);
}

const shown = (value: unknown): string => (typeof value === "string" ? value.slice(0, 500) : "unknown");

/** Of base64. */
const bytesOf = (data: unknown): number =>
  typeof data === "string" ? Math.floor((data.replace(/=+$/, "").length * 3) / 4) : 0;

export function asRecord(value: unknown): Part | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Part) : null;
}
