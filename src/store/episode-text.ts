// An episode as JSON text, for `episodes.jsonl`. Names and shapes are those of `Episode`, with two exceptions: token
// ids and logprobs are packed (`packed-array.ts`), and a turn event names its turn instead of repeating it.

import type { Episode, EpisodeEvent } from "../core/index.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";
import { JsonFloat, type JsonObject } from "../python-semantics/json/value.ts";
import { ByteWriter } from "./byte-writer.ts";
import { writePacked } from "./packed-array.ts";

/** The episode as one line, without the line end. Lone surrogates, which UTF-8 cannot hold, are escaped. */
export function episodeLine(episode: Episode): string {
  const writer = new ByteWriter();
  writeEpisode(writer, episode);
  return writer.view().toString();
}

/** As {@link episodeLine}. */
export function writeEpisode(writer: ByteWriter, episode: Episode): void {
  const { trajectory, events, ...facts } = episode;
  writeRecord(writer, { ...facts, turns: trajectory.turns, events: events.map(eventFields) });
}

/** One event by itself, its turn whole. */
export function writeEvent(writer: ByteWriter, event: EpisodeEvent): void {
  writeRecord(writer, event);
}

/**
 * Maps are lossless JSON already, and every other object is one of our records. As `dumpJson` writes, without a tree of JSON
 * values in between: an episode is kept for every few turns.
 */
function writeValue(writer: ByteWriter, value: unknown): void {
  switch (typeof value) {
    case "string":
      // As Python quotes without `ensure_ascii`, except that lone surrogates are escaped.
      return writer.quoted(value);
    case "boolean":
      return writer.ascii(value ? "true" : "false");
    case "number":
      if (Number.isSafeInteger(value) && value >= 0) return writer.digits(value);
      return writer.ascii(dumpJson(fromPlain(value)));
    case "object":
      if (value === null) return writer.ascii("null");
      if (Array.isArray(value)) return writeList(writer, value);
      if (value instanceof Uint32Array || value instanceof Float32Array) return writePacked(writer, value);
      if (value instanceof Map) return writeMap(writer, value as JsonObject);
      return value instanceof JsonFloat ? writer.ascii(dumpJson(value)) : writeRecord(writer, value);
    default:
      return writer.text(dumpJson(fromPlain(value)));
  }
}

function writeRecord(writer: ByteWriter, fields: object): void {
  let isFirst = true;
  // Records inherit nothing, and V8 reads fields that it enumerates without looking them up.
  for (const key in fields) {
    // Unless code of others has given every object something more.
    if (!Object.hasOwn(fields, key)) continue;
    writer.short(keyBytes(key, isFirst));
    writeValue(writer, fields[key as keyof typeof fields]);
    isFirst = false;
  }
  writer.ascii(isFirst ? "{}" : "}");
}

/** Names of fields are few and come again and again. */
const keys = { first: new Map<string, Uint8Array>(), later: new Map<string, Uint8Array>() };
/** Metrics have names that others choose. */
const mostKeys = 1024;

function keyBytes(key: string, isFirst: boolean): Uint8Array {
  const known = isFirst ? keys.first : keys.later;
  const bytes = known.get(key);
  if (bytes !== undefined) return bytes;
  const made = Buffer.from(`${isFirst ? "{" : ","}${JSON.stringify(key)}:`);
  if (known.size < mostKeys) known.set(key, made);
  return made;
}

function writeMap(writer: ByteWriter, object: JsonObject): void {
  let isFirst = true;
  for (const [key, value] of object) {
    writer.ascii(isFirst ? "{" : ",");
    writer.quoted(key);
    writer.ascii(":");
    writeValue(writer, value);
    isFirst = false;
  }
  writer.ascii(isFirst ? "{}" : "}");
}

function writeList(writer: ByteWriter, list: readonly unknown[]): void {
  writer.ascii("[");
  for (let at = 0; at < list.length; at++) {
    if (at > 0) writer.ascii(",");
    writeValue(writer, list[at]);
  }
  writer.ascii("]");
}

function eventFields(event: EpisodeEvent): object {
  return event.type === "turn" ? { ...event, turn: event.turn.index } : event;
}
