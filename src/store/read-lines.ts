// Lines of a file, split at line feeds alone: JSON texts may hold other line separators. One chunk in memory at a time.

import { createReadStream } from "node:fs";
import type { TornLine } from "./run-store.ts";

/** A line without its line end, and where it stands. */
export type RawLine = { readonly bytes: Buffer; readonly start: number };

/**
 * The lines of a file as bytes, which must be copied if they are kept. What follows the last line feed was being written
 * when its process died: it is left out and reported.
 */
export async function* readRawLines(file: string, onTornLine: (torn: TornLine) => void): AsyncGenerator<RawLine> {
  let rest: Buffer[] = [];
  let position = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, start)) {
      const last = chunk.subarray(start, end);
      const bytes = rest.length === 0 ? last : Buffer.concat([...rest, last]);
      yield { bytes, start: position };
      position += bytes.length + 1;
      rest = [];
      start = end + 1;
    }
    if (start < chunk.length) rest.push(chunk.subarray(start));
  }
  const bytes = rest.reduce((sum, part) => sum + part.length, 0);
  if (bytes > 0) onTornLine({ file, bytes });
}

/** The lines of a file as texts; otherwise as `readRawLines`. */
export async function* readLines(file: string, onTornLine: (torn: TornLine) => void): AsyncGenerator<string> {
  for await (const { bytes } of readRawLines(file, onTornLine)) yield bytes.toString("utf8");
}
