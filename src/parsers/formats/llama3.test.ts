import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { systemClock } from "../../lib/clock.ts";
import { dumpJson, type JsonValue, parseJson, parseJsonPrefix } from "../../python-semantics/json/index.ts";
import { isDict, pythonStrip } from "../../python-semantics/index.ts";
import { evaluateLiteral } from "../../python-semantics/literals.ts";
import { exampleTools as tools } from "./format-examples.test-helper.ts";
import { llama3 } from "./llama3.ts";

const call = '{"name": "noop", "parameters": {"city": "Rome"}}';

/** The reference's algorithm without regard for time: every position is read to its end. */
function slowly(text: string): readonly JsonValue[] {
  const values: JsonValue[] = [];
  for (let start = 0; start !== -1 && start < text.length;) {
    const prefix = parseJsonPrefix(text, start);
    const step = prefix.type === "value" ? prefix : dictAt(text, start);
    if (step !== null) values.push(step.value);
    start = step === null ? text.indexOf('{"name":', start + 1) : step.end + 1;
  }
  return values;
}

function dictAt(text: string, start: number): { readonly value: JsonValue; readonly end: number } | null {
  for (let end = start, depth = 0; end < text.length; end++) {
    if (text[end] === "{") depth++;
    if (text[end] === "}" && --depth === 0) {
      try {
        const literal = evaluateLiteral(pythonStrip(text.slice(start, end + 1)));
        return isDict(literal) ? { value: parseJson(dumpJson(literal)), end: end + 1 } : null;
      } catch {
        return null;
      }
    }
  }
  return null;
}

describe("llama3", () => {
  test("reads the values that reading from every place finds, whatever is nested in what fails", () => {
    const piece = fc.constantFrom(
      ...[
        '{"name":',
        '{"name":"noop"}',
        '{"name":[',
        "[",
        "]",
        "{",
        "}",
        '"',
        '"a":',
        "1",
        ",",
        ";",
        " ",
        "null",
        '"x"',
      ],
      ...['{"name":"noop","arguments":{"a":', "\\", "-", '{"a":{"name":"noop"}}'],
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        const text = `<|python_tag|>${pieces.join("")}`;
        const values = slowly(text.slice("<|python_tag|>".length));
        const { calls, raised } = llama3.parse(text, { tools, forwardUnknownTools: true });
        const isGood = values.every((value) => value instanceof Map && typeof (value.get("name") ?? "") === "string");
        if (isGood && raised === null) expect(calls).toHaveLength(values.length);
        if (calls.length > 0) expect(calls.map(({ name }) => name)).toEqual(values.map(nameOf));
      }),
      { seed: 11, numRuns: 1200 },
    );
  });

  test("a call behind hundreds of nested ones that fail is found, and fast", () => {
    const start = systemClock.now();
    const nested = `{"name":["${"a".repeat(100_000)}",`.repeat(2) + '{"name":["b",'.repeat(300);
    const { calls } = llama3.parse(`<|python_tag|>${nested}nonsense ${"]}".repeat(300)} ${call}`, { tools });
    expect(calls.map(({ parameters }) => parameters)).toEqual(['{"city": "Rome"}']);
    expect(systemClock.now() - start).toBeLessThan(10_000);
  });

  test("gives up on Python dicts where failed ones were read too often, and says so", () => {
    const nested = `{"name":['${"a".repeat(100)}',`.repeat(40);
    const text = `<|python_tag|>${nested}x${"]}".repeat(40)}`;
    const details = llama3.parse(text, { tools }).problems.map(({ detail }) => detail);
    expect(details).toHaveLength(40);
    expect(details[0]).toBe("The call is not valid JSON.");
    expect(details.filter((detail) => detail.includes("too much of the text")).length).toBeGreaterThan(20);
  });

  test("keeps the first problems, and counts the rest", () => {
    const { problems } = llama3.parse('{"name":'.repeat(500), { tools });
    expect(problems).toHaveLength(65);
    expect(problems.at(-1)).toMatchObject({ code: "not-json", text: "" });
    expect(problems.at(-1)!.detail).toBe("436 further problems of this text are left out.");
  });
});

function nameOf(value: JsonValue): JsonValue {
  return value instanceof Map ? (value.get("name") ?? null) : null;
}
