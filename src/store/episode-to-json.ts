// An episode as one JSON object, for `episodes.jsonl`. Names and shapes are those of `Episode`, with two exceptions: token
// ids and logprobs are packed (`packed-array.ts`), and a turn event names its turn instead of repeating it.

import type { Episode, EpisodeEvent } from "../core/index.ts";
import { dumpJson } from "../lib/json/dump-json.ts";
import { fromPlain } from "../lib/json/plain.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../lib/json/value.ts";
import { packArray } from "./packed-array.ts";

/** The episode as a lossless JSON object; `episodeFromJson` is its inverse. */
export function episodeToJson(episode: Episode): JsonObject {
  const { trajectory, events, ...facts } = episode;
  return record({ ...facts, turns: trajectory.turns, events: events.map(eventFields) });
}

/** The episode as one line, without the line end. Lone surrogates, which UTF-8 cannot hold, are escaped. */
export function episodeLine(episode: Episode): string {
  const json = episodeToJson(episode);
  const separators = [",", ":"] as const;
  const line = dumpJson(json, { separators });
  return /\p{Surrogate}/u.test(line) ? dumpJson(json, { separators, ensureAscii: true }) : line;
}

function eventFields(event: EpisodeEvent): object {
  return event.type === "turn" ? { ...event, turn: event.turn.index } : event;
}

function record(fields: object): JsonObject {
  return new Map(Object.entries(fields).map(([key, value]: [string, unknown]) => [key, toJson(value)]));
}

function toJson(value: unknown): JsonValue {
  if (value instanceof Uint32Array || value instanceof Float32Array) return packArray(value);
  if (Array.isArray(value)) return value.map(toJson);
  // Maps are lossless JSON already; everything else that is an object is one of our records.
  if (typeof value !== "object" || value === null || value instanceof Map || value instanceof JsonFloat) {
    return fromPlain(value);
  }
  return record(value);
}
