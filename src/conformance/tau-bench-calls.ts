// Records of calls on fresh data: whole sequences, and single calls with one argument altered.

import { callAction, type DomainData, World } from "../environments/tau-bench/index.ts";
import { type JsonObject, type JsonValue, parseJson } from "../lib/json/index.ts";

type Played = { readonly expected: JsonValue; readonly actual: JsonValue };

/** A sequence: every observation, the hash after every call that changed something, and the hash at the end. */
export function playCalls(data: DomainData, record: JsonObject): Played {
  const calls = record.get("calls") as JsonObject[];
  const world = new World(data.base);
  let digest = world.digest();
  const actual: JsonValue[] = calls.map((call) => {
    const result = playCall(data, world, { call, before: digest });
    digest = world.digest();
    return result;
  });
  return {
    expected: new Map<string, JsonValue>([
      ["calls", calls.map(expectedCall)],
      ["hash", record.get("hash") ?? null],
    ]),
    actual: new Map<string, JsonValue>([
      ["calls", actual],
      ["hash", digest],
    ]),
  };
}

export function playMatrixCall(data: DomainData, record: JsonObject): Played {
  const world = new World(data.base);
  return { expected: expectedCall(record), actual: playCall(data, world, { call: record, before: world.digest() }) };
}

function expectedCall(call: JsonObject): JsonObject {
  const kept = ["obs", "hash", "raises"].filter((key) => call.has(key));
  return new Map(kept.map((key) => [key, call.get(key)!]));
}

function playCall(
  data: DomainData,
  world: World,
  { call, before }: { readonly call: JsonObject; readonly before: string },
): JsonObject {
  const name = call.get("name") as string;
  const kwargs = parseJson(call.get("arguments") as string) as JsonObject;
  const { observation } = callAction(data.domain, world, { name, kwargs });
  const result: JsonObject = new Map<string, JsonValue>([["obs", observation]]);
  // A step whose observation is no text breaks in the reference's reply, after the call.
  if (observation === null) result.set("raises", "ValidationError");
  const after = world.digest();
  if (after !== before) result.set("hash", after);
  return result;
}
