// The text that the policy reads for the result of a tool, or for a call that the server refused. A
// policy reads text, so any other content appears as a note about its kind, and an existing result
// is never shown as empty. Any value that a server sends is a result.

import { messageOf } from "../../../core/failure.ts";
import { jsonOf } from "../../../lib/text.ts";
import { dumpJson } from "../../../python-semantics/json/dump-json.ts";
import { fromForeign } from "../../../python-semantics/json/plain.ts";

type Part = Readonly<Record<string, unknown>>;

export type ReadResult = { readonly text: string; readonly isError: boolean; readonly structured: unknown };

/** `maxSize`: values and characters of structured content, and of anything else that is shown as JSON. */
export function readToolResult(value: unknown, maxSize: number): ReadResult {
  const result = asRecord(value);
  const { content, structuredContent, isError } = result ?? { content: value };
  const parts: readonly unknown[] = Array.isArray(content)
    ? content
    : content === undefined || content === null
      ? []
      : [content];
  const texts = parts.map((part) => partText(part, maxSize));
  const structured = structuredContent ?? null;
  if (structured !== null && !isToldSafely(texts, structured)) texts.push(jsonText(structured, maxSize));
  return { text: texts.join("\n"), isError: isError === true, structured };
}

function partText(value: unknown, maxSize: number): string {
  if (typeof value === "string") return value;
  const part = asRecord(value);
  if (part === null) return jsonText(value, maxSize);
  const { type, text } = part;
  switch (type) {
    case "image":
    case "audio":
      return `[${type} ${shown(part["mimeType"])}, ${bytesOf(part["data"])} bytes, not shown]`;
    case "resource": {
      const resource = asRecord(part["resource"]) ?? {};
      const { uri, mimeType, blob } = resource;
      if (typeof resource["text"] === "string") return `[resource ${shown(uri)}]\n${resource["text"]}`;
      return `[resource ${shown(uri)}, ${shown(mimeType)}, ${bytesOf(blob)} bytes, not shown]`;
    }
    case "resource_link":
      return `[resource ${shown(part["uri"])}, ${shown(part["name"])}, not read]`;
    default:
      if (typeof text === "string") return text;
      if (type === "text") return text === undefined || text === null ? "" : jsonText(text, maxSize);
      return typeof type === "string" ? `[${shown(type)}, not shown]` : jsonText(value, maxSize);
  }
}

function jsonText(value: unknown, maxSize: number): string {
  try {
    return dumpJson(fromForeign(value, { maxSize }));
  } catch (error) {
    return `[content that cannot be shown: ${messageOf(error)}]`;
  }
}

/** Content nested too deeply to be compared counts as not told; it cannot be shown either. */
function isToldSafely(texts: readonly string[], structured: unknown): boolean {
  try {
    return isTold(texts, structured);
  } catch {
    return false;
  }
}

/**
 * True if the texts already contain the structured content. Servers repeat it as JSON, as the
 * protocol recommends, or repeat only its field `result`, in which a server library wraps values
 * that are not objects, or send one text for each entry of a list.
 */
function isTold(texts: readonly string[], structured: unknown): boolean {
  const whole = texts.join("\n");
  const wrapped = asRecord(structured);
  const values =
    wrapped !== null && Object.keys(wrapped).join() === "result" ? [structured, wrapped["result"]] : [structured];
  return values.some((value) => {
    if (texts.some((text) => tells(text, value)) || tells(whole, value)) return true;
    if (!Array.isArray(value) || value.length === 0 || value.length > texts.length) return false;
    return value.every((entry, index) => tells(texts[index] ?? "", entry));
  });
}

/** True if the text is the value, as JSON or verbatim, or quotes it. */
function tells(text: string, value: unknown): boolean {
  if (typeof value === "string" && text.trim() === value.trim()) return true;
  const json = JSON.stringify(value);
  if (json === undefined) return true;
  // Short values occur in any text by chance, so they do not count as quotations.
  const isLong = json.length > 12 && typeof value === "object";
  if (isLong && (text.includes(json) || text.includes(JSON.stringify(value, null, 2)))) return true;
  return isEqual(jsonOf(text), value);
}

function isEqual(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (Array.isArray(one) || Array.isArray(other)) {
    if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
    return one.every((entry, index) => isEqual(entry, other[index]));
  }
  const [fields, others] = [asRecord(one), asRecord(other)];
  if (fields === null || others === null) return false;
  const keys = Object.keys(fields);
  return (
    keys.length === Object.keys(others).length &&
    keys.every((key) => Object.hasOwn(others, key) && isEqual(fields[key], others[key]))
  );
}

const shown = (value: unknown): string => (typeof value === "string" ? value.slice(0, 500) : "unknown");

/** Number of bytes in a base64 string. */
const bytesOf = (data: unknown): number =>
  typeof data === "string" ? Math.floor((data.replace(/(?<!=)=+$/, "").length * 3) / 4) : 0;

export function asRecord(value: unknown): Part | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Part) : null;
}
