import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  fromForeign,
  dumpJson,
  fromPlain,
  JsonFloat,
  JsonSyntaxError,
  parseJson,
  toPlain,
  type JsonValue,
} from "./index.ts";

const seed = 20261;

describe("parseJson()", () => {
  test("keeps integers and floats apart", () => {
    expect(parseJson("[100, 100.0, 1E2, -0, -0.0]")).toEqual([
      100,
      new JsonFloat(100),
      new JsonFloat(100),
      0,
      new JsonFloat(-0),
    ]);
    expect(Object.is(parseJson("-0"), 0)).toBe(true);
  });

  test("reads integers beyond 2^53 exactly, up to 4300 digits", () => {
    expect(parseJson("9007199254740991")).toBe(9007199254740991);
    expect(parseJson("-9007199254740993")).toBe(-9007199254740993n);
    expect(parseJson("7".repeat(4300))).toBe(BigInt("7".repeat(4300)));
    expect(() => parseJson("7".repeat(4301))).toThrow(/Exceeds the limit \(4300 digits\).*has 4301 digits/);
  });

  test("keeps the order of digit keys, and of a duplicate key the first place and the last value", () => {
    expect([...(parseJson('{"10":1,"9":2,"__proto__":3,"10":4}') as Map<string, JsonValue>)]).toEqual([
      ["10", 4],
      ["9", 2],
      ["__proto__", 3],
    ]);
  });

  test("reads what only Python reads", () => {
    expect(parseJson("[NaN, Infinity, -Infinity, 1E400]")).toEqual([
      new JsonFloat(NaN),
      new JsonFloat(Infinity),
      new JsonFloat(-Infinity),
      new JsonFloat(Infinity),
    ]);
    expect(parseJson('"\\ud800"')).toBe("\ud800");
  });

  // Messages of CPython 3.11.7's `str(error)`.
  test.each([
    ["", "Expecting value: line 1 column 1 (char 0)"],
    ["nul", "Expecting value: line 1 column 1 (char 0)"],
    ["-", "Expecting value: line 1 column 1 (char 0)"],
    ["+1", "Expecting value: line 1 column 1 (char 0)"],
    ["01", "Extra data: line 1 column 2 (char 1)"],
    ["1.", "Extra data: line 1 column 2 (char 1)"],
    ["1e+", "Extra data: line 1 column 2 (char 1)"],
    ["\ufeff1", "Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)"],
    ["{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"],
    ["{'a': 1}", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"],
    ['{"a" 1}', "Expecting ':' delimiter: line 1 column 6 (char 5)"],
    ['{"a": 1,}', "Expecting property name enclosed in double quotes: line 1 column 9 (char 8)"],
    ['{"a": 1 "b"}', "Expecting ',' delimiter: line 1 column 9 (char 8)"],
    ["[1, ]", "Expecting value: line 1 column 5 (char 4)"],
    ["[1 2]", "Expecting ',' delimiter: line 1 column 4 (char 3)"],
    ["[1", "Expecting ',' delimiter: line 1 column 3 (char 2)"],
    ['"abc', "Unterminated string starting at: line 1 column 1 (char 0)"],
    ['"a\\', "Unterminated string starting at: line 1 column 1 (char 0)"],
    ['"a\nb"', "Invalid control character at: line 1 column 3 (char 2)"],
    ['"\\x"', "Invalid \\escape: line 1 column 2 (char 1)"],
    ['"\\u12g4"', "Invalid \\uXXXX escape: line 1 column 3 (char 2)"],
    ['["\u{1f600}",\n \u{1f600}]', "Expecting value: line 2 column 2 (char 7)"],
    ["1 x", "Extra data: line 1 column 3 (char 2)"],
  ])("refuses %j in Python's words", (text, message) => {
    expect(() => parseJson(text)).toThrow(new JsonSyntaxError("JSONDecodeError", message, 0).message);
  });

  test("answers 100,000 open brackets with an error instead of a stack overflow", () => {
    for (const text of ["[".repeat(100_000), '{"a":'.repeat(100_000)]) {
      expect(() => parseJson(text)).toThrow(JsonSyntaxError);
    }
    const nested = "[".repeat(900) + "]".repeat(900);
    expect(dumpJson(parseJson(nested))).toBe(nested);
  });

  test("agrees with JSON.parse on every value JSON.stringify writes", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(JSON.stringify(toPlain(parseJson(text)))).toBe(text);
      }),
      { seed, numRuns: 500 },
    );
  });

  test("refuses or reads any text without another kind of error", () => {
    const characters = Array.from('[]{}",:0123456789.eE+-\\u aNIntfalsr\n\ud800');
    const hostile = fc.string({ unit: fc.constantFrom(...characters) });
    fc.assert(
      fc.property(hostile, (text) => {
        try {
          parseJson(text);
        } catch (error) {
          expect(error).toBeInstanceOf(JsonSyntaxError);
        }
      }),
      { seed, numRuns: 2000 },
    );
  });
});

describe("dumpJson()", () => {
  const value = parseJson('{"é":[1,{},[],"\\u007f/\\u0001\\n"],"b":247.0,"c":[NaN,-Infinity]}');

  test("writes Unicode as it is unless asked for ASCII", () => {
    expect(dumpJson(value)).toBe('{"é": [1, {}, [], "\u007f/\\u0001\\n"], "b": 247.0, "c": [NaN, -Infinity]}');
    expect(dumpJson(value, { ensureAscii: true })).toBe(
      '{"\\u00e9": [1, {}, [], "\\u007f/\\u0001\\n"], "b": 247.0, "c": [NaN, -Infinity]}',
    );
  });

  test("indents as Python does", () => {
    expect(dumpJson(parseJson('{"a":[1,{},[]],"b":[]}'), { indent: 2 })).toBe(
      '{\n  "a": [\n    1,\n    {},\n    []\n  ],\n  "b": []\n}',
    );
    expect(dumpJson([1, 2], { separators: [",", ":"] })).toBe("[1,2]");
  });

  test("is undone by parseJson()", () => {
    const anyValue: fc.Arbitrary<JsonValue> = fc.letrec<{ value: JsonValue }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(null, true, false),
        fc.maxSafeInteger().map((integer) => integer + 0),
        fc.bigInt({ min: 2n ** 53n, max: 2n ** 90n }),
        fc.double().map((float) => new JsonFloat(float)),
        fc.string({ unit: "binary" }),
        fc.array(tie("value")),
        fc.array(fc.tuple(fc.string(), tie("value"))).map((entries) => new Map(entries)),
      ),
    })).value;
    fc.assert(
      fc.property(anyValue, fc.boolean(), (original, ensureAscii) => {
        expect(parseJson(dumpJson(original, { ensureAscii }))).toEqual(original);
      }),
      { seed, numRuns: 500 },
    );
  });
});

describe("toPlain() and fromPlain()", () => {
  test("a key __proto__ is only a key", () => {
    const plain = toPlain(parseJson('{"__proto__": {"polluted": 1}}')) as Record<string, unknown>;
    expect(Object.keys(plain)).toEqual(["__proto__"]);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(dumpJson(fromPlain(plain))).toBe('{"__proto__": {"polluted": 1}}');
  });

  test("integers become ints, all other numbers floats", () => {
    expect(dumpJson(fromPlain([1, 1.5, -0, 1e300, 2n ** 60n, undefined, { a: undefined }]))).toBe(
      "[1, 1.5, 0, 1e+300, 1152921504606846976, null, {}]",
    );
  });

  test("fromPlain() refuses what JSON cannot hold, cycles included", () => {
    const cycle: unknown[] = [];
    cycle.push(cycle, cycle);
    for (const value of [() => 1, Symbol("x"), new Set([1]), cycle]) {
      expect(() => fromPlain(value)).toThrow(/Cannot read a plain value as JSON/);
    }
    expect(fromPlain([new Date(0), new Date(0)])).toEqual(Array(2).fill("1970-01-01T00:00:00.000Z"));
  });

  test("fromForeign() is strict and bounded", () => {
    for (const value of [NaN, -Infinity, new JsonFloat(Infinity), 1n]) {
      expect(() => fromForeign({ value }, { maxSize: 10 })).toThrow(/has no JSON form/);
    }
    // Each list contains the previous one twice: small in memory, but a thousand million values as
    // JSON.
    let doubled: unknown = "x";
    for (let depth = 0; depth < 30; depth++) doubled = [doubled, doubled];
    for (const value of ["x".repeat(1001), Array(2 ** 32 - 1), { ["k".repeat(1001)]: 1 }, doubled]) {
      expect(() => fromForeign(value, { maxSize: 1000 })).toThrow(/larger than 1000/);
    }
  });
});
