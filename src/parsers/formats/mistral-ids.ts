// Tool calls of Mistral's templates since call ids: `[TOOL_CALLS]` before a JSON array without a blank, or before every single
// call as `name[CALL_ID]id[ARGS]{...}`. Our own: SGLang's `mistral` reads neither. The ids are for those who write history.

import { type JsonValue, parseJsonPrefix } from "../../python-semantics/json/index.ts";
import { pythonStrip } from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { createToolCallParser } from "../tool-call-parser.ts";
import { guessName } from "../tool-call-scan.ts";

const marker = "[TOOL_CALLS]";
const idMarker = "[CALL_ID]";
const argumentsMarker = "[ARGS]";

export const mistralIds = createToolCallParser({
  name: "mistral_ids",
  markers: [marker, idMarker, argumentsMarker],
  hints: formatHints({
    wordsEnd: [marker],
    nesting: [
      [marker, ""],
      [argumentsMarker, ""],
    ],
  }),
  hasToolCall: (text) => text.includes(marker),
  detect: (text, scan) => {
    const words: string[] = [];
    let copied = 0;
    for (const { start, end, value } of readBlocks(text)) {
      words.push(text.slice(copied, start));
      copied = end;
      const source = text.slice(start, end);
      if (value !== undefined) scan.add(scan.callsIn(value, source));
      else scan.report("not-json", source, "A call needs its name and its arguments as JSON.", guessName(source));
    }
    return pythonStrip(words.join("") + text.slice(copied));
  },
});

/** The ids that stand in an action, one per call in order; `null`: the call has none. */
export function writtenCallIds(text: string): readonly (string | null)[] {
  const calls = [...readBlocks(text)].flatMap(({ value }) => (Array.isArray(value) ? value : [value ?? null]));
  return calls.map((call) => {
    const id = call instanceof Map ? call.get("id") : undefined;
    return typeof id === "string" ? id : null;
  });
}

/** What stands behind one marker; `undefined` where it cannot be read. Blanks around it belong to it. */
type Block = { readonly start: number; readonly end: number; readonly value: JsonValue | undefined };

function* readBlocks(text: string): Generator<Block> {
  for (let start = text.indexOf(marker); start !== -1;) {
    const bodyStart = skipBlanks(text, start + marker.length);
    const next = text.indexOf(marker, bodyStart);
    const body = text.slice(bodyStart, next === -1 ? text.length : next);
    const read = body.startsWith("[") ? readArray(text, bodyStart) : readNamed(text, bodyStart, body);
    const end = read === null ? bodyStart + body.length : skipBlanks(text, read.end);
    yield { start, end, value: read?.value };
    start = end <= next ? next : text.indexOf(marker, end);
  }
}

function readArray(text: string, start: number): Omit<Block, "start"> | null {
  const prefix = parseJsonPrefix(text, start);
  return prefix.type === "value" ? prefix : null;
}

/** `body` reaches to the next marker, so that a missing part is not looked for in all that follows. */
function readNamed(text: string, start: number, body: string): Omit<Block, "start"> | null {
  const at = body.indexOf(argumentsMarker);
  if (at === -1) return null;
  const idAt = body.slice(0, at).indexOf(idMarker);
  const name = pythonStrip(body.slice(0, idAt === -1 ? at : idAt));
  const prefix = parseJsonPrefix(text, skipBlanks(text, start + at + argumentsMarker.length));
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
