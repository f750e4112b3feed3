// Recognises files of other tools by their beginnings and ends, so that a list of many costs little. A file
// that is recognised may still be refused when it is read: see `open-file.ts`.

import { open } from "node:fs/promises";
import { plainJson } from "../python-semantics/json/index.ts";
import type { ForeignFormat } from "./foreign-episode.ts";
import { rowFormat } from "./open-file.ts";

/** Bytes that are read at the beginning and at the end of a file, and of one whose first line is longer. */
const headBytes = 32 << 10;
const mostHeadBytes = 1 << 20;

/** Fields of formats that are one JSON value, all of which must be there. */
const marks: readonly (readonly [ForeignFormat, ...RegExp[]])[] = [
  ["atif", /"schema_version"\s?:\s?"ATIF/],
  ["inspect", /"version"\s?:/, /"eval"\s?:\s?\{/],
  ["tau2-bench", /"environment_info"\s?:/],
  ["tau2-bench", /"simulations"\s?:\s?\[/],
];

/**
 * The format of a regular file by its name, its beginning and its end; `null` for any other file. Rejects
 * with the system's error for a file that cannot be read.
 */
export async function recogniseForeignFile(path: string): Promise<ForeignFormat | null> {
  const isLog = path.endsWith(".eval");
  if (!isLog && !/\.jsonl?$/.test(path)) return null;
  const file = await open(path, "r");
  try {
    const read = async (length: number, from = 0): Promise<Buffer> => {
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, from);
      return buffer.subarray(0, bytesRead);
    };
    let head = await read(headBytes);
    if (isLog) return head.length >= 4 && head.readUInt32LE(0) === 0x04034b50 ? "inspect" : null;
    if (head.length === headBytes && !head.includes(0x0a)) head = await read(mostHeadBytes);
    const text = head
      .toString("utf8")
      .replace(/^\uFEFF/, "")
      .trimStart();
    const found = formatOf(text);
    const { size } = await file.stat();
    if (found !== null || size <= head.length || !text.startsWith("{")) return found;
    // The description of an evaluation may follow its samples.
    const end = await read(headBytes, Math.max(0, size - headBytes));
    return markedFormat(`${text}\n${end.toString("utf8")}`);
  } finally {
    await file.close();
  }
}

function formatOf(text: string): ForeignFormat | null {
  if (text.startsWith("[")) return /"traj"\s*:/.test(text) && /"task_id"\s*:/.test(text) ? "tau-bench" : null;
  if (!text.startsWith("{")) return null;
  const end = text.indexOf("\n");
  try {
    const found = rowFormat(plainJson(end === -1 ? text : text.slice(0, end)));
    if (found !== null) return found.format;
  } catch {
    // Not a whole value: its beginning must do.
    if (/"response_length"\s*:/.test(text) && /"tokens"\s*:\s*\[/.test(text)) return "slime";
  }
  return markedFormat(text);
}

function markedFormat(text: string): ForeignFormat | null {
  return marks.find(([, ...fields]) => fields.every((field) => field.test(text)))?.[0] ?? null;
}
