// An episode as JSON text, for `episodes.jsonl`. Names and shapes are those of `Episode`, with two exceptions: token
// ids and logprobs are packed (`packed-array.ts`), and a turn event names its turn instead of repeating it.

import type { Episode, EpisodeEvent } from "../core/index.ts";
import { dumpJson } from "../lib/json/dump-json.ts";
import { fromPlain } from "../lib/json/plain.ts";
import { JsonFloat, type JsonObject } from "../lib/json/value.ts";
import { packedText } from "./packed-array.ts";

/** The episode as one line, without the line end. Lone surrogates, which UTF-8 cannot hold, are escaped. */
export function episodeLine(episode: Episode): string {
  const { trajectory, events, ...facts } = episode;
  return recordText({ ...facts, turns: trajectory.turns, events: events.map(eventFields) });
}

/** One event by itself, its turn whole. */
export function eventText(event: EpisodeEvent): string {
  return recordText(event);
}

/**
 * Maps are lossless JSON already, and every other object is one of our records. As `dumpJson` writes, without a tree of JSON
 * values in between: an episode is kept for every few turns.
 */
function jsonText(value: unknown): string {
  switch (typeof value) {
    case "string":
      // As Python quotes without `ensure_ascii`, except that lone surrogates are escaped.
      return JSON.stringify(value);
    case "boolean":
      return value ? "true" : "false";
    case "number":
      return Number.isSafeInteger(value) ? `${value}` : dumpJson(fromPlain(value));
    case "object":
      if (value === null) return "null";
      if (Array.isArray(value)) return listText(value);
      if (value instanceof Uint32Array || value instanceof Float32Array) return packedText(value);
      if (value instanceof Map) return mapText(value as JsonObject);
      return value instanceof JsonFloat ? dumpJson(value) : recordText(value);
    default:
      return dumpJson(fromPlain(value));
  }
}

function recordText(fields: object): string {
  let text = "";
  for (const key of Object.keys(fields)) {
    text += (text === "" ? "{" : ",") + keyText(key) + jsonText(fields[key as keyof typeof fields]);
  }
  return text === "" ? "{}" : `${text}}`;
}

function mapText(object: JsonObject): string {
  let text = "";
  for (const [key, value] of object) text += `${text === "" ? "{" : ","}${JSON.stringify(key)}:${jsonText(value)}`;
  return text === "" ? "{}" : `${text}}`;
}

function listText(list: readonly unknown[]): string {
  let text = "[";
  for (let at = 0; at < list.length; at++) text += at === 0 ? jsonText(list[at]) : `,${jsonText(list[at])}`;
  return `${text}]`;
}

const mostKeys = 1000;
/** Keys of records, quoted and with their colon. Few, as most are written in this package. */
const keyTexts = new Map<string, string>();

function keyText(key: string): string {
  const known = keyTexts.get(key);
  if (known !== undefined) return known;
  const text = `${JSON.stringify(key)}:`;
  if (keyTexts.size < mostKeys) keyTexts.set(key, text);
  return text;
}

function eventFields(event: EpisodeEvent): object {
  return event.type === "turn" ? { ...event, turn: event.turn.index } : event;
}
