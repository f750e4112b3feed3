// Every native template against its own Jinja program, run by the fallback, on random conversations in odd shapes.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { sharedFolder } from "../../../tests/conformance/shared-folder.ts";
import { fromPlain, JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { type ChatTemplate, ChatTemplateError, type TemplateInput, type TemplateSegment } from "../chat-template.ts";
import { rendererFamily, rendererFamilyNames } from "../families.ts";
import { compileChatTemplate } from "../jinja/compile-chat-template.ts";
import { someTools, testTime } from "../random-conversation.test-helper.ts";

const models = sharedFolder("models");

const words = fc.oneof(
  fc.constantFrom("Hello", " lead", "trail\n", "", "<think>\na\n</think>\n\nb", "</think>", "\u{1f600}\u0085"),
  fc.constantFrom("<tool_response>x</tool_response>", "/nothink", 'it\'s "q" <b>', "\ud800", "[gMASK]"),
  fc.string({ maxLength: 8 }),
);
const scalars = fc.constantFrom<JsonValue>(
  null,
  true,
  0,
  7,
  12345678901234567890n,
  new JsonFloat(1),
  new JsonFloat(1e-7),
);
const { value: anyJson } = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 2, depthIdentifier: "json" },
    { weight: 3, arbitrary: words },
    scalars,
    fc.array(tie("value"), { maxLength: 2 }),
    object(fc.constantFrom("a", "10", "items"), tie("value")),
  ),
}));

function object(keys: fc.Arbitrary<string>, values: fc.Arbitrary<JsonValue>): fc.Arbitrary<JsonObject> {
  return fc.array(fc.tuple(keys, values), { maxLength: 3 }).map((entries) => new Map(entries));
}

/** A record whose entries may each be missing. */
function sparse(fields: Record<string, fc.Arbitrary<JsonValue>>): fc.Arbitrary<JsonObject> {
  return fc
    .record(fields, { requiredKeys: [] })
    .map((record) => new Map(Object.entries(record) as [string, JsonValue][]));
}

const call = sparse({
  id: fc.constantFrom("call00000", "c1"),
  type: fc.constant("function"),
  function: sparse({
    name: fc.constantFrom("find_order", "f"),
    arguments: fc.oneof(object(fc.string(), anyJson), anyJson),
  }),
});
const message = fc.oneof(
  sparse({ content: fc.oneof({ weight: 3, arbitrary: words }, anyJson) }),
  sparse({ content: words, reasoning_content: fc.oneof(words, scalars), tool_calls: fc.array(call, { maxLength: 2 }) }),
);
const messages = fc.array(
  fc
    .tuple(fc.constantFrom("user", "assistant", "tool", "user", "assistant", "system"), message)
    .map(([role, rest]): JsonValue => new Map<string, JsonValue>([["role", role], ...rest])),
  { maxLength: 6 },
);
const tools = fc.constantFrom<JsonValue>(
  null,
  [],
  someTools.map(({ definition }) => definition),
);
const switches = sparse({ enable_thinking: fc.boolean(), thinking: fc.boolean(), clear_thinking: fc.boolean() });

const inputs: fc.Arbitrary<Omit<TemplateInput, "context">> = fc.record({
  messages,
  tools,
  addGenerationPrompt: fc.boolean(),
  kwargs: switches,
});

/** Native families that also raise the same kind of error, and attribute text to the same messages, whatever they are given. */
const exactFamilies = ["qwen2.5-instruct", "qwen3", "qwen3-rev2", "qwen3-instruct-2507"];

type Outcome = { readonly segments: readonly TemplateSegment[]; readonly text: string; readonly error: string | null };

function play(template: ChatTemplate, input: TemplateInput): Outcome {
  try {
    const segments = template(input);
    return { segments, text: segments.map(({ text }) => text).join(""), error: null };
  } catch (error) {
    if (!(error instanceof ChatTemplateError)) throw error;
    return { segments: [], text: "", error: error.kind === "raise" ? error.message : error.kind };
  }
}

/** The segment of every UTF-16 unit. */
function perUnit(segments: readonly TemplateSegment[]): TemplateSegment[] {
  return segments.flatMap((segment) => Array.from({ length: segment.text.length }, () => segment));
}

describe.skipIf(models === null)("native templates and the fallback (skipped without ../shared/models)", () => {
  test.each(rendererFamilyNames)("%s: both render the same, or refuse alike", (name) => {
    const family = rendererFamily(name);
    const template = compileChatTemplate(readFileSync(join(models ?? "", name, "chat_template.jinja"), "utf8"));
    const context = { specialTokens: family.specialTokens, now: testTime };
    fc.assert(
      fc.property(inputs, (input) => {
        const [native, fallback] = [
          play(family.template, { ...input, context }),
          play(template, { ...input, context }),
        ];
        expect(fallback.text).toBe(native.text);
        expect(fallback.error === null).toBe(native.error === null);
        if (!exactFamilies.includes(name)) return;
        expect(fallback.error).toBe(native.error);
        expectSoundOrigins(perUnit(native.segments), perUnit(fallback.segments));
      }),
      { seed: 23, numRuns: 150 },
    );
  });
});

describe.skipIf(models === null)("calls that lack a part (skipped without ../shared/models)", () => {
  const bodies: readonly (readonly [string, object | null])[] = [
    ["no name", { arguments: { a: 1 } }],
    ["no arguments", { name: "f" }],
    ["null as arguments", { name: "f", arguments: null }],
    ["a text as arguments", { name: "f", arguments: "{}" }],
    ["no function", null],
  ];

  test.each(rendererFamilyNames)("%s: natively and by its own template they are written, or refused, alike", (name) => {
    const { template, specialTokens } = rendererFamily(name);
    const own = compileChatTemplate(readFileSync(join(models ?? "", name, "chat_template.jinja"), "utf8"));
    for (const [, body] of bodies) {
      for (const content of ["", "hi", null]) {
        const given = { id: "call00000", type: "function", ...(body === null ? {} : { function: body }) };
        const history = [{ role: "user", content: "q" }, { role: "assistant", content, tool_calls: [given] }].map(fromPlain); // prettier-ignore
        const context = { specialTokens, now: testTime };
        const input = { messages: history, tools: null, addGenerationPrompt: true, kwargs: new Map(), context };
        const [native, fallback] = [play(template, input), play(own, input)];
        expect([native.text, native.error]).toEqual([fallback.text, fallback.error]);
      }
    }
  });
});

/** The fallback may say less of where a text came from than the native template, but nothing else. */
function expectSoundOrigins(native: readonly TemplateSegment[], fallback: readonly TemplateSegment[]): void {
  for (const [index, { source, message: place }] of native.entries()) {
    const other = fallback[index]!;
    if (other.message !== null) expect(other.message).toBe(place);
    if (source !== "template") expect(other.source).toBe(source);
  }
}
