import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import { parseJson } from "./json/index.ts";
import { floatRepr, PythonError, roundFloat } from "./index.ts";
import { evaluateExpression } from "./evaluate.ts";
import { positivePower } from "./power.ts";
import { roundRatio } from "./power.ts";

const goldens = sharedFolder("tau-bench", "goldens", "calculate.jsonl");

/** The result of `str(round(float(eval(text)), 2))`, or the text of its exception. */
function answer(text: string): string {
  try {
    return floatRepr(roundFloat(evaluateExpression(text), 2));
  } catch (error) {
    if (!(error instanceof PythonError)) throw error;
    return `Error: ${error.message}`;
  }
}

describe.skipIf(goldens === null)(
  "golden expressions of CPython 3.11 (skipped without ../shared/tau-bench/goldens/calculate.jsonl)",
  () => {
    test("every string of the alphabet gives the recorded answer", () => {
      let played = 0;
      for (const line of readFileSync(goldens ?? "", "utf8")
        .trim()
        .split("\n")) {
        const record = parseJson(line) as Map<string, string>;
        const expression: unknown = record.get("expression");
        if (typeof expression !== "string" || /[^0-9+\-*/(). ]/.test(expression)) continue;
        expect(answer(expression), expression).toBe(record.get("obs"));
        played++;
      }
      expect(played).toBeGreaterThan(1000);
    });
  },
);

// Recorded from CPython 3.11.7.
describe("evaluateExpression()", () => {
  test.each([
    ["-2**2", "-4.0"],
    ["2**3**2", "512.0"],
    ["-7//2", "-4.0"],
    ["1.0//0.1", "9.0"],
    ["7//0.7", "10.0"],
    ["-0.0//1", "-0.0"],
    ["10**25/3", "3.3333333333333333e+24"],
    ["12.5**12", "14551915228366.85"],
    ["1/10**320*10**300", "0.0"],
    ["(-8)**(1/3)", "Error: float() argument must be a string or a real number, not 'complex'"],
    ["1 2(3 4)", "Error: invalid syntax (<string>, line 1)"],
    ["(1 2(3 4))", "Error: invalid syntax. Perhaps you forgot a comma? (<string>, line 1)"],
    [
      "(1 2) 007",
      "Error: leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers (<string>, line 1)",
    ],
    ["1 .", "Error: invalid syntax (<string>, line 1)"],
    ["(1 .", "Error: '(' was never closed (<string>, line 1)"],
    ["1()", "Error: 'int' object is not callable"],
    ["()*1.5", "Error: can't multiply sequence by non-int of type 'float'"],
    ["()+1", 'Error: can only concatenate tuple (not "int") to tuple'],
    ["... **2", "Error: unsupported operand type(s) for ** or pow(): 'ellipsis' and 'int'"],
    ["10**400+0.5", "Error: int too large to convert to float"],
    ["2.5**10**4", "Error: (34, 'Numerical result out of range')"],
  ])("answers %s as CPython does", (text, expected) => {
    expect(answer(text)).toBe(expected);
  });

  test("bounds integers, so that 9**9**9 is an overflow at once", () => {
    expect(answer("9**9**9")).toBe("Error: int too large to convert to float");
    expect(answer(`${"9**80000+".repeat(500)}1`)).toBe("Error: int too large to convert to float");
    expect(answer("2**262143 // 2**262143")).toBe("1.0");
  });

  test("bounds nesting with CPython's errors instead of a stack overflow", () => {
    const tooDeep = "Error: maximum recursion depth exceeded during compilation";
    expect(answer(`${"1+".repeat(2900)}1`)).toBe("2901.0");
    expect(answer(`${"(".repeat(200)}1${")".repeat(200)}`)).toBe("1.0");
    expect(answer("(".repeat(201))).toBe("Error: too many nested parentheses (<string>, line 1)");
    for (const unit of ["1+", "-", "1**"]) expect(answer(`${unit.repeat(100_000)}1`)).toBe(tooDeep);
  });

  test("answers any text of the alphabet with a number or a Python error", () => {
    const pieces = ["1", "20", "3.5", " ", "(", ")", "+", "-", "*", "/", "**", "//", ".", "..."];
    const text = fc.array(fc.constantFrom(...pieces), { maxLength: 30 }).map((parts) => parts.join(""));
    fc.assert(
      fc.property(text, (source) => {
        expect(answer(source)).toMatch(/^(Error: .|-?(\d|inf)|nan)/);
      }),
      { seed: 3, numRuns: 3000 },
    );
  });
});

describe("positivePower()", () => {
  test("agrees with exact integers wherever they fit", () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 5000 }), fc.integer({ min: 1, max: 60 }), (base, exponent) => {
        expect(positivePower(base, exponent)).toBe(Number(BigInt(base) ** BigInt(exponent)));
        expect(positivePower(base, -exponent)).toBe(roundRatio(1n, BigInt(base) ** BigInt(exponent)));
      }),
      { seed: 4, numRuns: 300 },
    );
  });

  test("is the correctly rounded square root for exponent 1/2", () => {
    fc.assert(
      fc.property(fc.double({ min: Number.MIN_VALUE, max: Number.MAX_VALUE, noNaN: true }), (value) => {
        fc.pre(value !== 1);
        expect(positivePower(value, 0.5)).toBe(Math.sqrt(value));
      }),
      { seed: 5, numRuns: 300 },
    );
  });

  test("overflows to Infinity, underflows through the denormal numbers to 0", () => {
    expect([positivePower(10, 400), positivePower(10, -400), positivePower(2, -1074)]).toEqual([Infinity, 0, 5e-324]);
  });
});

test("roundRatio() rounds quotients of exact integers as division rounds floats", () => {
  const factor = fc
    .double({ noNaN: true, noDefaultInfinity: true, min: 1, max: 2 ** 53 })
    .map((value) => Math.floor(value));
  fc.assert(
    fc.property(factor, factor, fc.integer({ min: 0, max: 1200 }), (top, bottom, shift) => {
      expect(roundRatio(BigInt(top), -BigInt(bottom))).toBe(-(top / bottom));
      // Scaling by powers of two moves the quotient through the denormal range, where it must be
      // rounded only once.
      const scale = 1n << BigInt(shift);
      const expected = shift <= 1000 ? (top / bottom) * 2 ** -shift : null;
      if (expected !== null && expected > 1e-300)
        expect(roundRatio(BigInt(top), BigInt(bottom) * scale)).toBe(expected);
    }),
    { seed: 6, numRuns: 500 },
  );
  expect(roundRatio(3n, 1n << 1075n)).toBe(1e-323);
  expect(roundRatio(1n, 1n << 1075n)).toBe(0);
});
