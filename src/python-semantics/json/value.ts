// JSON values without loss: integers and floats stay two types, integers are unbounded, objects keep the order
// of their keys. Observations, prompts and data hashes depend on all three, and `JSON.parse` loses all three.
// Not a serializer: see `parse-json.ts` and `dump-json.ts`.

/** A JSON number written with a point or an exponent, kept apart from the integer of the same value (`100.0` is not `100`). */
export class JsonFloat {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

/**
 * A JSON value. Integers are a `number` while safe (magnitude at most 2^53 - 1), a `bigint` beyond; every other
 * number, the non-finite ones Python reads included, is a {@link JsonFloat}. Strings may hold lone surrogates.
 */
export type JsonValue = null | boolean | number | bigint | JsonFloat | string | JsonValue[] | JsonObject;

/** A JSON object in the order of its keys; `__proto__` and digits are ordinary keys. */
export type JsonObject = Map<string, JsonValue>;
