import { describe, expect, test } from "vitest";

import { PythonError } from "./index.ts";
import { unescapeHtml } from "../parsers/formats/function-tags.ts";
import { evaluateLiteral } from "./literals.ts";
import { narrowFloat, pythonFloat, pythonInt } from "./number-text.ts";
import { parseFirstStatementValue } from "./syntax.ts";
import { dumpJson } from "./json/index.ts";
import { pythonStr } from "./values.ts";

const failure = (action: () => unknown): string => {
  try {
    action();
  } catch (error) {
    if (error instanceof PythonError) return error.pythonType;
    throw error;
  }
  return "none";
};

// Expected values are those of CPython 3.11.
describe("evaluateLiteral()", () => {
  test.each([
    ["{'a': [1, 2.50, None, True], \"b\": 'it\\'s'}", '{"a": [1, 2.5, null, true], "b": "it\'s"}'],
    ["(1, (2,), [])", "[1, [2], []]"],
    ["  -0x1F", "-31"],
    ["1_000", "1000"],
    ["+1e-7", "1e-07"],
    ["123456789012345678901234567890", "123456789012345678901234567890"],
    ["{1: 2, 1.0: 3, True: 4, None: 5}", '{"1": 4, "null": 5}'],
    ["'a' \"b\" r'\\n'", '"ab\\\\n"'],
    ["'\\x41\\101\\u00e9\\q'", '"AAé\\\\q"'],
    ["'''x\ny'''", '"x\\ny"'],
    ["[1,\n # two\n 2]", "[1, 2]"],
  ])("%s", (source, json) => {
    expect(dumpJson(evaluateLiteral(source))).toBe(json);
  });

  test.each([
    ["(1, 'x')", "(1, 'x')"],
    ["{'a': (True,)}", "{'a': (True,)}"],
    ["b'\\xffa'", "b'\\xffa'"],
    ["1-2j", "(1-2j)"],
    ["-2j", "(-0-2j)"],
    ["set()", "set()"],
    ["{1}", "{1}"],
    ["...", "Ellipsis"],
  ])("%s is not JSON, but has a text", (source, text) => {
    expect(pythonStr(evaluateLiteral(source))).toBe(text);
  });

  test.each([
    ["foo", "ValueError"],
    ["--1", "ValueError"],
    ["f'x'", "ValueError"],
    ["1 + 1", "ValueError"],
    ["[x for x in y]", "ValueError"],
    ["{**a}", "ValueError"],
    ["a\0b", "SyntaxError"],
    ["{[]: 1}", "TypeError"],
    ["{{}}", "TypeError"],
    ["007", "SyntaxError"],
    ["1 2", "SyntaxError"],
    ["[1", "SyntaxError"],
    ["'abc", "SyntaxError"],
    ["\n 1", "IndentationError"],
    ["(".repeat(300) + ")".repeat(300), "SyntaxError"],
    ["-".repeat(9000) + "1", "MemoryError"],
  ])("%s raises %s", (source, type) => {
    expect(failure(() => evaluateLiteral(source))).toBe(type);
  });
});

test("dumpJson() refuses what JSON cannot hold", () => {
  for (const source of ["{1}", "b'x'", "1j", "...", "[b'']", "{(1, 2): 3}"]) {
    expect(failure(() => dumpJson(evaluateLiteral(source)))).toBe("TypeError");
  }
});

test("parseFirstStatementValue() takes the value of the first statement, whatever is valid after it", () => {
  const typeOf = (source: string): string | undefined => parseFirstStatementValue(source)?.type;
  expect(typeOf("f(a=1)\ng()")).toBe("call");
  expect(typeOf("x = y = f(a=lambda b, *c: b if c else d[1:2, ...], **e)")).toBe("call");
  expect(typeOf("x: int = [f()]")).toBe("list");
  expect(parseFirstStatementValue("x: int")).toBe(null);
  expect(parseFirstStatementValue("# nothing\n")).toBe(null);
  for (const source of ["f(a=1, 2)", "f(", "f()\n g()", "f() g()", "1 = f()"]) {
    expect(failure(() => parseFirstStatementValue(source))).toMatch(/SyntaxError|IndentationError/);
  }
});

describe("numbers", () => {
  test.each([
    [" 12 ", 12], ["+1_0", 10], ["٣٤", 34], ["\u2003７", 7], ["-0", 0],
    ["9007199254740993", 9007199254740993n],
  ] as const)("int(%j)", (text, value) => {
    expect(pythonInt(text)).toBe(value);
  }); // prettier-ignore

  test.each(["", "1.0", "1__0", "_1", "0x1", "\x1c1", "1 2", "1".repeat(4301)])("int(%j) raises", (text) => {
    expect(failure(() => pythonInt(text))).toBe("ValueError");
  });

  test("float() reads what Python reads, and whole floats become integers exactly", () => {
    expect(["1_0.5", ".5", "5.", "-inf", "١.٥"].map((text) => pythonFloat(text).value)).toEqual([
      10.5,
      0.5,
      5,
      -Infinity,
      1.5,
    ]);
    for (const text of ["", ".", "1e", "0x1", "1._5", "infinit"])
      expect(failure(() => pythonFloat(text))).toBe("ValueError");
    expect(narrowFloat(pythonFloat("1e22"))).toBe(10000000000000000000000n);
    expect(failure(() => narrowFloat(pythonFloat("1e999")))).toBe("OverflowError");
    expect(failure(() => narrowFloat(pythonFloat("nan")))).toBe("ValueError");
  });
});

test.each([
  ["a &lt; b &amp;&amp; c", "a < b && c"],
  ["&eacute;&eacute &notit; &notin;", "éé ¬it; ∉"],
  ["&#65;&#x42&#128;&#0;&#xd800;&#1;", "AB€\ufffd\ufffd"],
  ["&nosuch; & &; &#;", "&nosuch; & &; &#;"],
  ["&bne;", "=\u20e5"],
])("unescapeHtml(%j)", (text, expected) => {
  expect(unescapeHtml(text)).toBe(expected);
});
