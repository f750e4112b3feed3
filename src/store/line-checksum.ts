// Every line of episodes.jsonl and groups.jsonl ends with `,"crc32":"<8 hexadecimal digits>"}`: CRC-32 of the line's bytes
// before that field. It finds lines that a disk, a copy or an editor has changed.

import { crc32 } from "node:zlib";
import { ConfigurationError } from "../core/index.ts";
import type { ByteWriter } from "./byte-writer.ts";
import { runFiles } from "./run-files.ts";

/** Of the field, with its comma and the brace behind it. */
const fieldBytes = 20;
/** The last format whose lines have none. */
const withoutChecksum = 1;

/** Eight hexadecimal digits. */
export function checksum(bytes: Buffer): string {
  return crc32(bytes).toString(16).padStart(8, "0");
}

/** Ends the line whose JSON object was written from `start` on: adds the checksum and the line end. */
export function endLine(writer: ByteWriter, start: number): void {
  writer.cut(writer.length - 1);
  writer.ascii(checksumField(writer.view(start)));
  writer.ascii("\n");
}

/** Throws a `ConfigurationError` for a line (without its end) that is not what was written, with its place and a remedy. */
export function checkLine(
  line: Buffer,
  { file, place, format }: { readonly file: string; readonly place: string; readonly format: number },
): void {
  const end = Math.max(0, line.length - fieldBytes);
  const found = line.toString("latin1", end);
  const computed = checksumField(line.subarray(0, end));
  if (found === computed) return;
  const hasField = found.includes('"crc32"');
  if (!hasField && format === withoutChecksum) return;
  const [, kind, id] = /^\{"(id|groupId)":("(?:[^"\\]|\\.)*")/.exec(line.toString("utf8", 0, 1024)) ?? [];
  const whose = id === undefined ? "" : ` (${kind === "id" ? "episode" : "group"} ${id})`;
  const fault = hasField ? "its checksum is another one" : "it has no checksum at its end";
  const isGroups = file.endsWith(runFiles.groups);
  const [lost, again] = isGroups
    ? ["this line and those after it", "decides their groups"]
    : ["this line", "plays the episode"];
  throw new ConfigurationError(
    `Cannot read "${file}" ${place}${whose}: it is not what was written; ${fault}. Restore the file from a copy, or remove ${lost}, ` +
      `set "status" in ${runFiles.manifest} to "running" and resume the run, which ${again} again.`,
  );
}

function checksumField(body: Buffer): string {
  return `,"crc32":"${checksum(body)}"}`;
}
