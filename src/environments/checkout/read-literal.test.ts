import { describe, expect, it } from "vitest";

import { ConfigurationError } from "../../core/index.ts";
import { dumpJson, type JsonValue } from "../../python-semantics/json/index.ts";
import { findBinding, parsePython, readScope } from "./python-source.ts";
import { readLiteral } from "./read-literal.ts";

function read(expression: string): JsonValue {
  const source = parsePython("data.py", `\n\nx = ${expression}\n`, "take another");
  return readLiteral(source, findBinding(source, readScope(source, source.top), "x", "assignment").value);
}

// Each pair was made with CPython 3.11: the literal, and `json.dumps(value, ensure_ascii=False)`.
const values: readonly (readonly [string, string])[] = [
  [`'a' "b" r'\\n' u'c'`, `"ab\\\\nc"`],
  [`"""a\n'"b"'\n"""`, `"a\\n'\\"b\\"'\\n"`],
  [`"\\a\\b\\f\\n\\r\\t\\v\\\\\\'\\""`, `"\\u0007\\b\\f\\n\\r\\t\\u000b\\\\'\\""`],
  [`"\\x41\\u00e9\\U0001F600\\101\\7\\q\\\n|"`, `"Aé😀A\\u0007\\\\q|"`],
  [`Rf"\\d{{}}"`, `"\\\\d{}"`],
  [`f"a{{b}}\\x7b"`, `"a{b}{"`],
  [`"a" + ("b" "c") + 'd'`, `"abcd"`],
  [`r"\\""`, `"\\\\\\""`],
  [`""`, `""`],
  [`[1, -2, +3, 1_000, 0x1F, 0b101, 0o17, 00]`, `[1, -2, 3, 1000, 31, 5, 15, 0]`],
  [`[1.0, .5, 1e5, -0.0, 1_0.5e-1, 00.5]`, `[1.0, 0.5, 100000.0, -0.0, 1.05, 0.5]`],
  [`[9007199254740993, -0]`, `[9007199254740993, 0]`],
  [`(True, False, None, (), (1,), (2))`, `[true, false, null, [], [1], 2]`],
  [`{"b": 1, "a": {}, "b": [], "__proto__": 2,}`, `{"b": [], "a": {}, "__proto__": 2}`],
  [`[  # one\n 1,\n # two\n 2\n]`, `[1, 2]`],
];

const refused: readonly (readonly [string, string])[] = [
  [`b"x"`, "bytes have no place"],
  [`"a" rb"b"`, "bytes have no place"],
  [`"\\N{DASH}"`, "Unicode name"],
  [`"\\x4"`, 'the escape "\\x" needs 2'],
  [`"\\u12"`, "needs 4"],
  [`"\\U00110000"`, "needs 8"],
  [`"\\ud83d\\ude00"`, "half of a surrogate pair"],
  [`f"{x}"`, 'the name "x" is not known'],
  [`f"{x!r}"`, "more than a plain name"],
  [`f"{1}"`, "more than a plain name"],
  [`f"}"`, 'a single "}"'],
  [`f"\\{x}"`, "a backslash precedes a replacement"],
  [`x`, "not a literal"],
  [`f(1)`, "not a literal"],
  [`{1, 2}`, "not a literal"],
  [`[i for i in y]`, "not a literal"],
  [`1 + 2`, "not text"],
  [`"a" * 1000000000`, "not text"],
  [`"a" % 1`, "not text"],
  [`{1: 2}`, "a key is not text"],
  [`{**y}`, "something other than keys"],
  [`[*y]`, "not a literal"],
  [`5j`, "complex"],
  [`007`, "starts with a zero"],
  [`1__0`, "no such number"],
  [`1_`, "no such number"],
  [`-True`, "not a number"],
  [`~1`, "not a number"],
  [`9${"9".repeat(4300)}`, "more than 4300 digits"],
  [`${"[".repeat(300)}${"]".repeat(300)}`, "nested more than 100 deep"],
  [`${"[".repeat(100_000)}${"]".repeat(100_000)}`, "nested too deeply"],
  [`${"-".repeat(100_000)}1`, "nested too deeply"],
  [`${'"a" + '.repeat(300)}"b"`, "nested more than 100 deep"],
  [`${'"a" + '.repeat(100_000)}"b"`, "nested too deeply"],
  [`"abc`, "a string is not terminated"],
  [`"abc\\"`, "a string is not terminated"],
  [`r"abc\\"`, "a string is not terminated"],
  [`"""abc""`, "this is not Python"],
  [`1 2`, "this is not Python"],
  [`(1`, "this is not Python"],
  [`"a\0b"`, "null character"],
];

describe("readLiteral()", () => {
  it.each(values)("reads %s as Python does", (expression, json) => {
    expect(dumpJson(read(expression))).toBe(json);
  });

  it.each(refused.map(([expression, problem]) => [expression.slice(0, 30), expression, problem] as const))(
    "refuses %j and names file and line",
    (_shown, expression, problem) => {
      expect(() => read(expression)).toThrow(ConfigurationError);
      expect(() => read(expression)).toThrow(problem);
      expect(() => read(expression)).toThrow(/^Cannot read "data\.py", line [34]: .*; take another\.$/s);
    },
  );

  it("reads line ends as Python does, and skips a byte order mark", () => {
    const source = parsePython("data.py", `\ufeffx = """a\r\nb\rc"""\r\n`, "take another");
    const { value } = findBinding(source, readScope(source, source.top), "x", "assignment");
    expect(readLiteral(source, value)).toBe("a\nb\nc");
  });
});

describe("findBinding()", () => {
  const find = (text: string): unknown => {
    const source = parsePython("data.py", text, "take another");
    return findBinding(source, readScope(source, source.top), "x", "assignment");
  };

  it.each([
    ["x = 1\nx = 2\n", 'line 2: "x" is defined a second time'],
    ["from a import x\n", 'line 1: "x" is no assignment'],
    ["y = 1\n", 'there is no assignment "x"'],
    ["x: int\n", 'there is no assignment "x"'],
    ["x = 1\n\nx += 1\n", "line 3: a statement could change"],
    ["x = []\nx.append(1)\n", "line 2: a statement could change"],
    ["x = 1\nfor x in y: pass\n", "line 2: a statement could change"],
    ["x = 1; del x\n", "line 1: a statement could change"],
    ["x = 1\nfrom a import *\n", "line 2: a statement could change"],
    ["x, y = 1, 2\n", "line 1: a statement could change"],
    ["x = y = 1\n", "line 1: a statement could change"],
    ["x = 1\nclass x: pass\n", "line 2"],
    ["x = 1\nimport x.y\n", "line 2"],
  ])("refuses %j", (text, problem) => {
    expect(() => find(text)).toThrow(problem);
  });

  it("passes over descriptions, comments, other names and annotations", () => {
    const text = '"""What this is."""\n# Why.\nimport a, b as c\nfrom .d import (e, f as g)\ny = 1; x: int = 2\n';
    expect(find(text)).toMatchObject({ type: "assignment" });
  });
});
