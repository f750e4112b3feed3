import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import { dumpJson, JsonFloat, parseJson, type JsonValue } from "./json/index.ts";
import {
  compareCodePoints,
  floatRepr,
  pythonAdd,
  PythonError,
  pythonEquals,
  pythonInt,
  pythonLess,
  pythonMultiply,
  pythonNegate,
  pythonSubtract,
  pythonLower,
  pythonLstrip,
  pythonRepr,
  pythonRound,
  pythonRstrip,
  pythonStr,
  pythonStrip,
  pythonTypeName,
  roundFloat,
} from "./index.ts";

const goldens = sharedFolder("tau-bench", "goldens", "python-values.jsonl");

describe.skipIf(goldens === null)(
  "golden values of CPython 3.11 (skipped without ../shared/tau-bench/goldens/python-values.jsonl)",
  () => {
    test("dumps, str and round agree on every record", () => {
      const lines = readFileSync(goldens ?? "", "utf8")
        .trim()
        .split("\n");
      expect(lines.length).toBeGreaterThan(1000);
      for (const line of lines) {
        const record = parseJson(line) as Map<string, string>;
        const value = parseJson(record.get("json")!);
        expect(dumpJson(value, { ensureAscii: true })).toBe(record.get("dumps"));
        expect(pythonStr(value)).toBe(record.get("str"));
        const rounded = record.get("round2");
        if (rounded !== undefined) expect(pythonRepr(pythonRound(value as JsonFloat, 2))).toBe(rounded);
      }
    });
  },
);

describe("floatRepr()", () => {
  test.each([
    [0, "0.0"],
    [-0, "-0.0"],
    [247, "247.0"],
    [0.0001, "0.0001"],
    [0.00001, "1e-05"],
    [9999999999999998, "9999999999999998.0"],
    [1e16, "1e+16"],
    [1.2345678901234568e17, "1.2345678901234568e+17"],
    [5e-324, "5e-324"],
    [1e22, "1e+22"],
    [NaN, "nan"],
    [-Infinity, "-inf"],
  ])("shows %d as %s", (value, text) => {
    expect(floatRepr(value)).toBe(text);
  });

  test("reads back as the same number", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(Object.is(Number(floatRepr(value)), value)).toBe(true);
      }),
      { seed: 1, numRuns: 1000 },
    );
  });
});

describe("roundFloat()", () => {
  test.each([
    [0.125, 0.12],
    [0.375, 0.38],
    [-0.125, -0.12],
    [2.675, 2.67],
    [1.005, 1],
    [0.5, 0.5],
    [-0.001, -0],
    [1e300, 1e300],
    [-0, -0],
    [4503599627370495.5, 4503599627370495.5],
  ])("rounds %d to %d", (value, rounded) => {
    expect(Object.is(roundFloat(value, 2), rounded)).toBe(true);
  });

  test("breaks exact ties to even, at any number of digits", () => {
    expect([0.5, 1.5, 2.5].map((value) => roundFloat(value, 0))).toEqual([0, 2, 2]);
    expect([0.25, 0.75].map((value) => roundFloat(value, 1))).toEqual([0.2, 0.8]);
  });

  test("leaves ints what they are and makes bools ints", () => {
    expect([pythonRound(51, 2), pythonRound(10n ** 20n, 2), pythonRound(true, 2)]).toEqual([51, 10n ** 20n, 1]);
  });
});

describe("pythonRepr()", () => {
  test.each([
    ["plain", "'plain'"],
    ["it's", `"it's"`],
    [`it's "so"`, `'it\\'s "so"'`],
    ["back\\slash\n\r\t", "'back\\\\slash\\n\\r\\t'"],
    ["\u007f\u0085\u00a0\u00ad", "'\\x7f\\x85\\xa0\\xad'"],
    ["é日\u{1f600}", "'é日\u{1f600}'"],
    ["\u200b\u2028\ufeff\u0378", "'\\u200b\\u2028\\ufeff\\u0378'"],
    ["\ud800x\udc00", "'\\ud800x\\udc00'"],
    ["\u{e0001}\u{10ffff}", "'\\U000e0001\\U0010ffff'"],
  ])("quotes %j", (text, repr) => {
    expect(pythonRepr(text)).toBe(repr);
  });

  test("shows containers as Python does, and str() a string raw", () => {
    const value = parseJson('{"a": [true, null, 1, 1.0, {}, "x"]}');
    expect(pythonRepr(value)).toBe("{'a': [True, None, 1, 1.0, {}, 'x']}");
    expect(pythonStr("x")).toBe("x");
  });
});

describe("pythonStrip()", () => {
  test("strips what Python calls space, and nothing else", () => {
    expect(pythonStrip("\u001c\u0085 \t\u3000a \u00a0\n")).toBe("a");
    expect(pythonStrip("\ufeffa\u200b")).toBe("\ufeffa\u200b");
  });

  test("strips a set of characters from either side", () => {
    expect(pythonStrip("xyaxyx", "xy")).toBe("a");
    expect(pythonLstrip("\u{1f600}\u{1f600}a\u{1f600}", "\u{1f600}")).toBe("a\u{1f600}");
    expect(pythonRstrip("a\u{1f600}\u{1f601}", "\u{1f601}")).toBe("a\u{1f600}");
  });
});

describe("pythonEquals()", () => {
  const parsed = (text: string): JsonValue => parseJson(text);

  test.each([
    ["1", "1.0", true],
    ["1", "true", true],
    ["0", "false", true],
    ["1", '"1"', false],
    ["null", "false", false],
    ["9007199254740993", "9007199254740993.0", false],
    ["100000000000000000000", "1e20", true],
    ["[1, [2]]", "[1.0, [2.0]]", true],
    ['{"a": 1, "b": 2}', '{"b": 2, "a": false}', false],
    ['{"a": 1, "b": 2}', '{"b": 2, "a": 1.0}', true],
    ["[]", "{}", false],
    ["NaN", "NaN", false],
    ["[NaN]", "[NaN]", true],
  ])("%s == %s is %s", (left, right, equal) => {
    expect(pythonEquals(parsed(left), parsed(right))).toBe(equal);
    expect(pythonEquals(parsed(right), parsed(left))).toBe(equal);
  });
});

test("compareCodePoints() puts astral characters last, lone surrogates before U+E000", () => {
  const sorted = ["a", "ab", "b", "\ud800", "\udc00\ud800", "\ue000", "\uffff", "\u{10000}", "\u{10000}a", "\u{1f600}"];
  expect([...sorted].reverse().toSorted(compareCodePoints)).toEqual(sorted);
});

test("pythonLower() knows the final sigma and no letter newer than Unicode 14", () => {
  expect(pythonLower("ΑΣ İ ß")).toBe("ας i̇ ß");
  expect(pythonLower("AÉ\u{10d50}Z")).toBe("aé\u{10d50}z");
});

test("pythonTypeName() names every JSON value", () => {
  const values = parseJson('[null, true, 1, 100000000000000000000, 1.0, "a", [], {}]') as JsonValue[];
  expect(values.map(pythonTypeName)).toEqual(["NoneType", "bool", "int", "int", "float", "str", "list", "dict"]);
});

describe("pythonLess()", () => {
  test.each([
    ["1", "1.5", true],
    ["9007199254740992.0", "9007199254740993", true],
    ["true", "2", true],
    ["NaN", "1", false],
    ['"\uffff"', '"\ud83d\ude00"', true],
    ["[1, 2]", "[1, 2, 0]", true],
    ["[1, 3]", "[1, 2, 9]", false],
    ["[NaN, 1]", "[NaN, 2]", true],
    ["[]", "[]", false],
  ])("%s < %s is %s", (left, right, less) => {
    expect(pythonLess(parseJson(left), parseJson(right))).toBe(less);
  });

  test.each([
    ["1", '"1"', "'<' not supported between instances of 'int' and 'str'"],
    ["[1]", '["1"]', "'<' not supported between instances of 'int' and 'str'"],
    ["{}", "{}", "'<' not supported between instances of 'dict' and 'dict'"],
    ["null", "0.5", "'<' not supported between instances of 'NoneType' and 'float'"],
  ])("%s < %s has no order", (left, right, message) => {
    expect(() => pythonLess(parseJson(left), parseJson(right))).toThrow(new PythonError("TypeError", message));
  });
});

describe("arithmetic on JSON numbers", () => {
  test("ints stay exact ints, a float makes floats, a bool counts as an int", () => {
    expect(pythonAdd(2 ** 53 - 1, 1)).toBe(2n ** 53n);
    expect(pythonSubtract(2n ** 53n, 1)).toBe(2 ** 53 - 1);
    expect(pythonMultiply(10 ** 9, 10 ** 9)).toBe(10n ** 18n);
    expect(pythonAdd(1, new JsonFloat(1))).toEqual(new JsonFloat(2));
    expect(pythonMultiply(50, true)).toBe(50);
    expect(Object.is(pythonMultiply(0, -3), 0)).toBe(true);
    expect(Object.is(pythonNegate(0), 0)).toBe(true);
    expect(pythonNegate(new JsonFloat(0))).toEqual(new JsonFloat(-0));
  });

  test("raises what Python raises", () => {
    expect(() => pythonAdd(0, "x", "+=")).toThrow("unsupported operand type(s) for +=: 'int' and 'str'");
    expect(() => pythonSubtract(null, 1)).toThrow("unsupported operand type(s) for -: 'NoneType' and 'int'");
    expect(() => pythonNegate([])).toThrow("bad operand type for unary -: 'list'");
    expect(() => pythonAdd(10n ** 400n, new JsonFloat(0))).toThrow("int too large to convert to float");
  });
});

describe("pythonInt()", () => {
  test.each([
    ["07", 7],
    [" +1_0\n", 10],
    ["-0", 0],
    ["\u0661\u{1d7d8}", 10],
  ])("reads %j", (text, value) => {
    expect(pythonInt(text)).toBe(value);
  });

  test.each(["", "ay", "1__0", "_1", "1_", "+ 1", "1.0"])("refuses %j", (text) => {
    expect(() => pythonInt(text)).toThrow(`invalid literal for int() with base 10: '${text}'`);
  });

  test("refuses other types by name", () => {
    expect(() => pythonInt([])).toThrow("not 'list'");
  });
});
