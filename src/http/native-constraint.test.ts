import { describe, expect, it } from "vitest";

import type { Constraint, TextForm } from "../core/index.ts";
import { request } from "./engine-calls.test-helper.ts";
import { nativeConstraint, withNativeConstraint } from "./native-constraint.ts";

const schema = '{"type":"object","properties":{"b":{},"1":{},"a":{}}}';
const call: TextForm = {
  type: "sequence",
  parts: [
    { type: "literal", text: "<c>" },
    { type: "json", schema },
    { type: "literal", text: "</c>" },
  ],
};
const formatOf = (constraint: Constraint): unknown => {
  const { type, text } = nativeConstraint(constraint);
  expect(type).toBe("structural-tag");
  const tag = JSON.parse(text) as { readonly type: string; readonly format: unknown };
  expect(tag.type).toBe("structural_tag");
  return tag.format;
};
const callFormat = {
  type: "sequence",
  elements: [
    { type: "const_string", value: "<c>" },
    { type: "json_schema", json_schema: JSON.parse(schema) as unknown },
    { type: "const_string", value: "</c>" },
  ],
};

describe("nativeConstraint()", () => {
  it("passes schemas, patterns and grammars on as they are", () => {
    const of = (text: Constraint["text"]) => nativeConstraint({ text, reasoning: null });
    expect(of({ type: "json-schema", schema })).toEqual({ type: "json", text: schema });
    expect(of({ type: "regex", pattern: "a+" })).toEqual({ type: "regex", text: "a+" });
    expect(of({ type: "ebnf", grammar: 'root ::= "a"' })).toEqual({ type: "ebnf", text: 'root ::= "a"' });
  });

  it("writes a call as a structural tag, and keeps the order of the keys of its schema", () => {
    const constraint: Constraint = { text: { type: "tool-call", calls: [call] }, reasoning: null };
    expect(formatOf(constraint)).toEqual(callFormat);
    expect(nativeConstraint(constraint).text).toContain(schema);
  });

  it("leaves opened reasoning free up to its end, and makes unopened reasoning optional", () => {
    const text: Constraint["text"] = { type: "tool-call-or-answer", calls: [call], answer: { type: "text", end: "." } };
    const either = {
      type: "or",
      elements: [callFormat, { type: "tag", begin: "", content: { type: "any_text" }, end: "." }],
    };
    const rest = [
      { type: "tag", begin: "", content: { type: "any_text" }, end: "</t>" },
      { type: "regex", pattern: "\\n{0,4}" },
      either,
    ];
    expect(formatOf({ text, reasoning: { start: null, end: "</t>" } })).toEqual({ type: "sequence", elements: rest });
    expect(formatOf({ text, reasoning: { start: "<t>", end: "</t>" } })).toEqual({
      type: "or",
      elements: [{ type: "sequence", elements: [{ type: "const_string", value: "<t>" }, ...rest] }, either],
    });
  });
});

describe("withNativeConstraint()", () => {
  it("adds the parameter to those of the request, and changes nothing without a constraint", () => {
    const plain = request({ sampling: { extra: { min_tokens: 1 } } });
    const write = ({ text }: { readonly text: string }) => ({ regex: text });
    expect(withNativeConstraint(plain, write)).toBe(plain);
    const constrained = { ...plain, constraint: { text: { type: "regex", pattern: "a" }, reasoning: null } } as const;
    const { sampling, constraint, prompt } = withNativeConstraint(constrained, write);
    expect([sampling.extra, constraint, prompt]).toEqual([{ min_tokens: 1, regex: "a" }, null, plain.prompt]);
  });
});
