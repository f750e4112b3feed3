// Records of calls on fresh data: whole sequences, and single calls with one argument altered.

import { callAction, type DomainData, World } from "#src/environments/tau-bench/index.ts";
import { type JsonObject, type JsonValue, parseJson } from "#src/python-semantics/json/index.ts";

type Played = { readonly expected: JsonValue; readonly actual: JsonValue };

/**
 * Runs a sequence: every observation, the hash after every call that changed something, and the
 * hash at the end.
 */
export function playCalls(data: DomainData, record: JsonObject): Played {
  const calls = record.get("calls") as JsonObject[];
  const world = new World(data.base);
  const actual: JsonValue[] = calls.map((call) => playCall(data, world, call));
  return {
    expected: new Map<string, JsonValue>([
      ["calls", calls.map(expectedCall)],
      ["hash", record.get("hash") ?? null],
    ]),
    actual: new Map<string, JsonValue>([
      ["calls", actual],
      ["hash", world.digest()],
    ]),
  };
}

export function playMatrixCall(data: DomainData, record: JsonObject): Played {
  return { expected: expectedCall(record), actual: playCall(data, new World(data.base), record) };
}

function expectedCall(call: JsonObject): JsonObject {
  const kept = ["obs", "hash", "raises"].filter((key) => call.has(key));
  return new Map(kept.map((key) => [key, call.get(key)!]));
}

function playCall(data: DomainData, world: World, call: JsonObject): JsonObject {
  const name = call.get("name") as string;
  const kwargs = parseJson(call.get("arguments") as string) as JsonObject;
  const before = stateOf(world);
  const { observation } = callAction(data.domain, world, { name, kwargs });
  const result: JsonObject = new Map<string, JsonValue>([["obs", observation]]);
  // A step whose observation is not a string fails in the reference's reply, after the call.
  if (observation === null) result.set("raises", "ValidationError");
  if (stateOf(world) !== before) result.set("hash", world.digest());
  return result;
}

/** Distinguishes the same states as the hash, a hundred times faster: most calls change nothing. */
function stateOf(world: World): string {
  const records = [...world.differences()].flatMap(([table, texts]) =>
    [...texts].map(([id, text]) => JSON.stringify([table, id, text])),
  );
  return records.sort().join("\n");
}
