import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { dumpJson, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import { answerKeys, echoKey } from "./answer-keys.ts";

const isEchoOf = (given: string, echo: string): boolean => {
  const echoed = echoKey("", [{ name: "f", argumentsText: echo }]).text;
  const keys = answerKeys({ content: "", toolCalls: [{ id: "call_0_0", name: "f", argumentsText: given }] });
  return keys.some(({ text }) => text === echoed);
};

/** Arguments as written back by a client that parsed them with JavaScript, or with Python. */
const byJavaScript = (text: string): string => JSON.stringify(JSON.parse(text));
const byPython = (text: string): string => dumpJson(parseJson(text), { ensureAscii: true });

const digits = (min: number, max: number) =>
  fc.array(fc.integer({ min: 0, max: 9 }), { minLength: min, maxLength: max }).map((list) => list.join(""));
const integerText = digits(1, 24).map((text) => text.replace(/^0+(?=\d)/, ""));
/** Every valid notation of a number. */
const numberText = fc
  .tuple(
    fc.constantFrom("", "-"),
    integerText,
    fc.option(digits(1, 20), { nil: null }),
    fc.option(fc.tuple(fc.constantFrom("e", "E"), fc.constantFrom("", "+", "-"), fc.integer({ min: 0, max: 400 })), {
      nil: null,
    }),
  )
  .map(([sign, whole, fraction, power]) => {
    const exponent = power === null ? "" : power.join("");
    return `${sign}${whole}${fraction === null ? "" : `.${fraction}`}${exponent}`;
  });
const stringText = fc.string({ unit: "binary" }).map((text) => JSON.stringify(text));
const escapedText = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 5 })
  .map((units) => `"${units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("")}"`);
const { value: valueText } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    numberText,
    stringText,
    escapedText,
    fc.constantFrom("null", "true", "false"),
    fc.array(tie("value"), { maxLength: 3 }).map((list) => `[ ${list.join(" ,")}]`),
    fc
      .array(fc.tuple(fc.oneof(stringText, escapedText), tie("value")), { maxLength: 3 })
      .map((entries) => `{${entries.map(([key, value]) => `${key}\n:${value}`).join(",\t")}}`),
  ),
}));
const objectText = fc
  .array(fc.tuple(stringText, valueText), { maxLength: 4 })
  .map((entries) => `{${entries.map(([key, value]) => `${key}: ${value}`).join(", ")}}`);

describe("answerKeys()", () => {
  test("has the echo of every reader of JSON, and of one that reads what the other wrote", () => {
    fc.assert(
      fc.property(objectText, (text) => {
        expect(isEchoOf(text, text)).toBe(true);
        expect(isEchoOf(text, byJavaScript(text))).toBe(true);
        expect(isEchoOf(text, byPython(text))).toBe(true);
        expect(isEchoOf(byPython(text), byJavaScript(text))).toBe(true);
      }),
    );
  });

  test("has the echo whose keys stand in another order", () => {
    const reversed = (value: JsonValue): JsonValue => {
      if (Array.isArray(value)) return value.map(reversed);
      return value instanceof Map ? new Map([...value].reverse().map(([key, one]) => [key, reversed(one)])) : value;
    };
    fc.assert(fc.property(objectText, (text) => isEchoOf(text, dumpJson(reversed(parseJson(text))))));
  });

  test("has no echo of another value", () => {
    fc.assert(
      fc.property(objectText, objectText, (given, other) => {
        const isSame = byPython(given) === byPython(other);
        fc.pre(!isSame);
        const asDoubles = (text: string): string => {
          const sorted = (value: unknown): unknown =>
            typeof value !== "object" || value === null || Array.isArray(value)
              ? Array.isArray(value)
                ? value.map(sorted)
                : value
              : Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, sorted(one)])); // prettier-ignore
          return JSON.stringify(sorted(JSON.parse(text)));
        };
        if (asDoubles(given) !== asDoubles(other)) expect(isEchoOf(given, other)).toBe(false);
      }),
    );
  });

  test.each([
    ['{"id": 12345678901234567890}', '{"id": 12345678901234567891}'],
    ['{"id": 9007199254740993}', '{"id": 9007199254740995}'],
    ['{"days": 1}', '{"days": "1"}'],
    ['{"days": 1}', '{"days": true}'],
    ['{"days": [1, 2]}', '{"days": [2, 1]}'],
    ['{"json": "{\\"days\\": 1.0}"}', '{"json": "{\\"days\\": 1}"}'],
    ['{"a": 0.1}', '{"a": 0.10000000000000002}'],
    ["{}", '{"a": null}'],
  ])("of %s does not have %s", (given, other) => {
    expect(isEchoOf(given, other)).toBe(false);
  });

  test("takes no arguments for an empty object, and text that is not JSON as it is", () => {
    for (const [given, echo] of [["", "{}"], ["{}", ""], ["{ }", " "], ["cut {", "cut {"]] as const) expect(isEchoOf(given, echo)).toBe(true); // prettier-ignore
    expect(isEchoOf("cut {", "cut")).toBe(false);
  });

  test("has the calls without the text beside them, and not the text alone", () => {
    const toolCalls = [{ id: "call_0_0", name: "f", argumentsText: '{"a": 1.0}' }];
    const keys = answerKeys({ content: " Let me look. ", toolCalls }).map(({ text }) => text);
    const echo = (content: string, calls = [{ name: "f", argumentsText: '{"a":1}' }]) => echoKey(content, calls).text;
    expect(keys).toContain(echo("Let me look."));
    expect(keys).toContain(echo(""));
    expect(keys).not.toContain(echo("Let me see."));
    expect(keys).not.toContain(echo("Let me look.", []));
    expect(answerKeys({ content: "Hello.", toolCalls: [] })).toEqual([echoKey("Hello.", [])]);
  });
});
