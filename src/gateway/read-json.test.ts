import fc from "fast-check";
import { expect, test } from "vitest";

import { finish } from "../lib/steps.ts";
import { readJson } from "./read-json.ts";

/** Result of a reader: the value, serialized in its order of names, or an error. */
function outcome(read: () => unknown): unknown {
  try {
    const value = read();
    return { value, written: JSON.stringify(value) };
  } catch (error) {
    return (error as Error).name;
  }
}

const padding = "p".repeat(40_000);

/** A document that is long enough to be split, with parts that any document may have. */
const long = fc
  .tuple(fc.array(fc.json(), { minLength: 3, maxLength: 8 }), fc.constantFrom("array", "object", "nested"), fc.string())
  .map(([parts, shape, space]) => {
    const blank = space.replace(/[^ \t\r\n]/g, "");
    const items = [...parts, JSON.stringify(padding), JSON.stringify([padding, "\\", '"', "\\\\"]), "[]"];
    const array = `[${items.map((item) => blank + item + blank).join(",")}]`;
    if (shape === "array") return array;
    const members = ["a", "b", "a", "__proto__", "constructor", "2", "1"].map(
      (key, place) => `${blank}${JSON.stringify(key)}${blank}:${items[place % items.length]!}`,
    );
    return shape === "object" ? `{${members.join(",")},"long":${array}}` : `[{${members.join(",")}},{"x":${array}}]`;
  });

test("readJson() reads what JSON.parse reads, in its order", () => {
  fc.assert(
    fc.property(long, (text) => {
      expect(outcome(() => finish(readJson(text)))).toEqual(outcome(() => JSON.parse(text)));
    }),
    { seed: 5, numRuns: 200 },
  );
});

test("readJson() refuses what JSON.parse refuses", () => {
  const edits = fc.tuple(
    fc.nat(),
    fc.constantFrom("", ",", "]", "}", "[", "{", ":", '"', "\\", " ", "x", "\u00a0", "\0", "1", "-"),
  );
  fc.assert(
    fc.property(long, fc.array(edits, { minLength: 1, maxLength: 3 }), (text, changes) => {
      let changed = text;
      for (const [place, given] of changes) {
        // Positions outside the padding, which is nearly all of the text.
        const ends = [...changed.matchAll(/[,[\]{}:"](?!p{9})/g)].map(({ index }) => index);
        const at = ends[place % ends.length] ?? 0;
        changed = changed.slice(0, at) + given + changed.slice(at + (place % 2));
      }
      expect(outcome(() => finish(readJson(changed)))).toEqual(outcome(() => JSON.parse(changed)));
    }),
    { seed: 6, numRuns: 400 },
  );
});

test("readJson() takes a step for each piece of a long body", () => {
  const messages = Array.from({ length: 20_000 }, (_, place) => ({ role: "user", content: `m ${place}` }));
  const steps = readJson(JSON.stringify({ model: "policy", messages }));
  let count = 0;
  while (steps.next().done !== true) count++;
  expect(count).toBeGreaterThan(8);
});
