import fc from "fast-check";
import { expect, test } from "vitest";

import { type Tool, toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject, parseJson } from "../python-semantics/json/index.ts";
import { systemClock } from "../lib/clock.ts";
import { findViolation, schemaWarnings } from "./argument-validator.ts";

const toolWith = (parameters: unknown): Tool =>
  toolFromDefinition(fromPlain({ type: "function", function: { name: "f", parameters } }) as JsonObject);
const object = (text: string): JsonObject => parseJson(text) as JsonObject;
const violation = (parameters: unknown, text: string): string | null =>
  findViolation(toolWith(parameters), object(text))?.detail ?? null;

const order = {
  type: "object",
  properties: {
    order_id: { type: "string", pattern: "^#W\\d+$" },
    reason: { type: "string", enum: ["no longer needed", "ordered by mistake"] },
    items: { type: "array", items: { type: "object", properties: { id: { type: "integer" } }, required: ["id"] } },
  },
  required: ["order_id"],
  additionalProperties: false,
};

test.each([
  ['{"order_id": "#W1"}', null],
  ["{}", '"order_id" is missing'],
  ['{"order_id": 5}', '"order_id" must be of type string'],
  ['{"order_id": "W1"}', '"order_id" must match pattern "^#W\\d+$"'],
  ['{"order_id": "#W1", "reason": "x"}', '"reason" must be one of "no longer needed", "ordered by mistake"'],
  ['{"order_id": "#W1", "colour": "red"}', '"colour" is not a parameter of this tool'],
  ['{"order_id": "#W1", "items": [{"id": 1}, {}]}', '"items[1].id" is missing'],
  ['{"order_id": "#W1", "items": [{"id": 1.5}]}', '"items[0].id" must be of type integer'],
  ['{"order_id": "#W1", "items": [{"id": 1.0}, {"id": 123456789012345678901234567890}]}', null],
])("findViolation() names the place that is wrong: %s", (text, detail) => {
  expect(violation(order, text)).toBe(detail);
});

test("findViolation() takes keys that mean something to JavaScript as plain keys", () => {
  const required = { type: "object", required: ["constructor", "__proto__"] };
  expect(violation(required, "{}")).toBe('"constructor" is missing');
  expect(violation(required, '{"constructor": 1}')).toBe('"__proto__" is missing');
  expect(violation(required, '{"constructor": 1, "__proto__": 2}')).toBe(null);
  const unique = { properties: { a: { uniqueItems: true } } };
  expect(violation(unique, '{"a": [{"__proto__": 1}, {"__proto__": 2}]}')).toBe(null);
  expect(violation(unique, '{"a": [{"x": [1]}, {"x": [1]}]}')).toMatch(/must NOT have duplicate items/);
});

test("a tool without parameters takes anything", () => {
  const tool = toolFromDefinition(fromPlain({ type: "function", function: { name: "f" } }) as JsonObject);
  expect(findViolation(tool, object('{"a": 1}'))).toBe(null);
  expect(schemaWarnings([tool, toolWith(null), toolWith({})])).toEqual([]);
});

test.each([
  ["not an object", 5],
  ["an unknown type", { type: "text" }],
  ["a reference to the network", { $ref: "https://example.com/schema.json" }],
  ["a broken pattern", { properties: { a: { pattern: "(" } } }],
  ["an unknown dialect", { $schema: "https://example.com/dialect" }],
  ["a broken keyword", { properties: { a: { minimum: "1" } } }],
  ["an asynchronous schema", { $async: true, type: "object" }],
])("a schema that cannot be used is not a schema, and is warned about: %s", (_case, parameters) => {
  const tool = toolWith(parameters);
  expect(findViolation(tool, object('{"a": 1}'))).toBe(null);
  expect(schemaWarnings([tool])).toEqual([expect.stringMatching(/^Arguments of tool "f" are not checked: /)]);
});

test("schemas that recurse, name formats or know newer keywords are used", () => {
  const tree = { $id: "https://example.com/tree", properties: { left: { $ref: "#" }, size: { type: "integer" } } };
  expect(violation(tree, '{"left": {"left": {"size": "x"}}}')).toBe('"left.left.size" must be of type integer');
  expect(violation(tree, '{"size": 1}')).toBe(null);
  expect(violation({ properties: { day: { type: "string", format: "date" } } }, '{"day": "x"}')).toBe(null);
  const tuple = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    properties: { a: { prefixItems: [{ type: "string" }] } },
  };
  expect(violation(tuple, '{"a": [1]}')).toBe('"a[0]" must be of type string');
  expect(violation({ properties: { a: { pattern: "^\\-\\_$" } } }, '{"a": "-_"}')).toBe(null);
});

test("a schema that recurses without end on a value says nothing about it", () => {
  expect(violation({ allOf: [{ $ref: "#" }] }, "{}")).toBe(null);
});

test("findViolation() never throws, whatever the schema and the arguments", () => {
  const key = fc.constantFrom(
    "type",
    "properties",
    "items",
    "required",
    "enum",
    "anyOf",
    "$ref",
    "not",
    "const",
    "pattern",
    "a",
    "__proto__",
  );
  const leaf = fc.constantFrom("object", "string", "#", "a", true, 5, null);
  const { schema } = fc.letrec<{ schema: unknown }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 4 },
      leaf,
      fc.dictionary(key, fc.oneof(leaf, tie("schema"), fc.array(tie("schema"), { maxLength: 3 })), { maxKeys: 4 }),
    ),
  }));
  fc.assert(
    fc.property(schema, fc.jsonValue(), (parameters, value) => {
      const tool = toolWith(parameters);
      const result = findViolation(tool, fromPlain({ a: value, b: { "/": value } }) as JsonObject);
      expect(result === null || result.detail.length > 0).toBe(true);
    }),
    { seed: 2, numRuns: 300 },
  );
});

test.each([
  "^(a+)+$",
  "^(a|a)*$",
  "^(a|aa)+$",
  "(.*a){20}b",
  "^([a-z]+\\.?)+@x$",
  "^(?=(a+)+b)a*$",
  "^(?:a?){28}a{28}b$",
])("a pattern of a schema takes linear time: %s", (pattern) => {
  const tool = toolWith({ properties: { a: { type: "string", pattern } } });
  expect(schemaWarnings([tool])).toEqual([]);
  for (const length of [28, 5000]) {
    const start = systemClock.now();
    expect(findViolation(tool, object(`{"a": "${"a".repeat(length)}!"}`))?.detail).toContain("must match pattern");
    expect(systemClock.now() - start).toBeLessThan(500);
  }
});

test("a pattern of keys takes linear time", () => {
  const tool = toolWith({ patternProperties: { "^(a+)+$": { type: "integer" } }, additionalProperties: false });
  expect(findViolation(tool, object(`{"${"a".repeat(40)}!": 1}`))?.detail).toContain("is not a parameter");
  expect(findViolation(tool, object(`{"${"a".repeat(40)}": "x"}`))?.detail).toContain("must be of type integer");
});

test("a pattern that refers to a group counts as matched, and is named; the rest of the schema is checked", () => {
  const tool = toolWith({ properties: { a: { type: "string", pattern: "^(a+)+\\1$" }, b: { type: "integer" } } });
  expect(schemaWarnings([tool])).toEqual([
    'A pattern of the arguments of tool "f" cannot be checked in bounded time and counts as matched: "^(a+)+\\\\1$" (it refers to a group).',
  ]);
  expect(findViolation(tool, object(`{"a": "${"a".repeat(40)}!"}`))).toBe(null);
  expect(findViolation(tool, object('{"b": "x"}'))?.detail).toBe('"b" must be of type integer');
});
