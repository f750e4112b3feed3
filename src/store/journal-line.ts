// One event as a line of the journal: `["<crc32>","<episode id>",<number>,<event>]`. The checksum (CRC-32, eight hexadecimal
// digits, over the bytes between the first comma and the last bracket) finds lines that a disk or an editor has changed; the
// number counts the events of the episode from 0 and finds lines that are gone.

import type { EpisodeEvent } from "../core/index.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { eventFromJson } from "./episode-from-json.ts";
import type { ByteWriter } from "./byte-writer.ts";
import { writeEvent } from "./episode-text.ts";
import { checksum } from "./line-checksum.ts";

/** Behind bracket and quote. */
const checksumStart = 2;
const bracket = 0x5d;
/** Bytes before the episode's id: bracket, quoted checksum, comma. */
const bodyStart = 12;
const quote = 0x22;
const backslash = 0x5c;

export type JournalEntry = { readonly episodeId: string; readonly number: number; readonly event: EpisodeEvent };

/** With the line end. `redact` is applied before the checksum is made. */
export function writeJournalLine(
  writer: ByteWriter,
  { episodeId, number, event }: JournalEntry,
  redact: (text: string) => string,
): void {
  const start = writer.length;
  writer.ascii('["00000000",');
  writer.quoted(episodeId);
  writer.ascii(`,${number},`);
  writeEvent(writer, event);
  writer.redact(start + bodyStart, redact);
  writer.view(start).write(checksum(writer.view(start + bodyStart)), checksumStart, "latin1");
  writer.ascii("]\n");
}

/** Whose event a line is, without reading the event; `null` when the line is not what was written. */
export function journalLineHead(line: Buffer): { readonly episodeId: string; readonly number: number } | null {
  const body = line.subarray(bodyStart, -1);
  if (line.toString("latin1", 0, bodyStart) !== `["${checksum(body)}",` || line.at(-1) !== bracket) return null;
  let end = 1;
  while (end < body.length && body[end] !== quote) end += body[end] === backslash ? 2 : 1;
  const numberEnd = body.indexOf(",", end + 2);
  // The checksum holds, so this is what was written.
  const episodeId = JSON.parse(body.toString("utf8", 0, end + 1)) as string;
  return { episodeId, number: Number(body.toString("latin1", end + 2, numberEnd)) };
}

/** The event of a line whose head was read. Throws a plain error that names the field. */
export function journalLineEvent(line: Buffer, where: string): EpisodeEvent {
  const record = parseJson(line.toString("utf8"));
  return eventFromJson(Array.isArray(record) ? (record[3] ?? null) : null, where);
}
