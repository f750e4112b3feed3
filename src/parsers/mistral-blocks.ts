// Calls with ids, as Mistral's models write them after each `[TOOL_CALLS]`. Their parser is in
// `formats/mistral.ts`; renderers read only the ids, for any model.

import { type JsonValue, parseJsonPrefix } from "../python-semantics/json/index.ts";
import { pythonStrip } from "../python-semantics/index.ts";

export const idsMarker = "[TOOL_CALLS]";
export const idMarker = "[CALL_ID]";
export const argumentsTag = "[ARGS]";

/** The ids in an action, one per call in order; `null` for a call without an id. */
export function writtenCallIds(text: string): readonly (string | null)[] {
  const calls = [...readBlocks(text)].flatMap(({ value }) => (Array.isArray(value) ? value : [value ?? null]));
  return calls.map((call) => {
    const id = call instanceof Map ? call.get("id") : undefined;
    return typeof id === "string" ? id : null;
  });
}

/** Content after one marker; `undefined` if it cannot be read. Blanks around it belong to it. */
type Block = { readonly start: number; readonly end: number; readonly value: JsonValue | undefined };

export function* readBlocks(text: string): Generator<Block> {
  for (let start = text.indexOf(idsMarker); start !== -1;) {
    const bodyStart = skipBlanks(text, start + idsMarker.length);
    const next = text.indexOf(idsMarker, bodyStart);
    const body = text.slice(bodyStart, next === -1 ? text.length : next);
    const read = body.startsWith("[") ? readArray(text, bodyStart) : readNamed(text, bodyStart, body);
    const end = read === null ? bodyStart + body.length : skipBlanks(text, read.end);
    yield { start, end, value: read?.value };
    start = end <= next ? next : text.indexOf(idsMarker, end);
  }
}

function readArray(text: string, start: number): Omit<Block, "start"> | null {
  const prefix = parseJsonPrefix(text, start);
  return prefix.type === "value" ? prefix : null;
}

/**
 * `body` extends to the next marker, so that the search for a missing part does not scan the rest
 * of the text.
 */
function readNamed(text: string, start: number, body: string): Omit<Block, "start"> | null {
  const at = body.indexOf(argumentsTag);
  if (at === -1) return null;
  const idAt = body.slice(0, at).indexOf(idMarker);
  const name = pythonStrip(body.slice(0, idAt === -1 ? at : idAt));
  const prefix = parseJsonPrefix(text, skipBlanks(text, start + at + argumentsTag.length));
  if (name === "" || prefix.type === "error") return null;
  const call = new Map<string, JsonValue>([["name", name], ["arguments", prefix.value]]); // prettier-ignore
  if (idAt !== -1) call.set("id", pythonStrip(body.slice(idAt + idMarker.length, at)));
  return { value: call, end: prefix.end };
}

function skipBlanks(text: string, start: number): number {
  let at = start;
  while (" \t\r\n".includes(text[at] ?? "x")) at++;
  return at;
}
