import { createReadStream } from "node:fs";
import type { TornLine } from "./run-store.ts";

/**
 * The lines of a file, split at line feeds alone (JSON texts may hold other line separators). What follows the last line
 * feed was being written when its process died: it is left out and reported.
 */
export async function* readLines(file: string, onTornLine: (torn: TornLine) => void): AsyncGenerator<string> {
  let rest: Buffer[] = [];
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, start)) {
      const last = chunk.subarray(start, end);
      yield rest.length === 0 ? last.toString("utf8") : Buffer.concat([...rest, last]).toString("utf8");
      rest = [];
      start = end + 1;
    }
    if (start < chunk.length) rest.push(chunk.subarray(start));
  }
  const bytes = rest.reduce((sum, part) => sum + part.length, 0);
  if (bytes > 0) onTornLine({ file, bytes });
}
