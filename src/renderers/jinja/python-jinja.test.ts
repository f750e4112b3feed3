import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { ChatTemplateError } from "../chat-template.ts";
import { segmentsText } from "../segments.ts";
import { compileChatTemplate } from "./compile-chat-template.ts";

// Small templates, one construct of Jinja or Python each, with the output of the reference; the
// first line gives the provenance.
const lines = readFileSync(new URL("./fixtures/python-jinja.jsonl", import.meta.url), "utf8")
  .trimEnd()
  .split("\n");
const [header, ...records] = lines.map((line) => parseJson(line) as JsonObject);

function play(template: string): JsonObject {
  try {
    const segments = compileChatTemplate(template)({
      messages: [],
      tools: null,
      addGenerationPrompt: false,
      kwargs: header!.get("variables") as JsonObject,
      context: { specialTokens: new Map(), now: header!.get("now") as string },
    });
    return new Map([["text", segmentsText(segments)]]);
  } catch (error) {
    if (!(error instanceof ChatTemplateError)) throw error;
    const result = new Map<string, JsonValue>([["error", error.kind]]);
    return error.kind === "raise" ? result.set("message", error.message) : result;
  }
}

test(`compileChatTemplate() renders ${records.length} small templates as Python does, errors included`, () => {
  const differences = records.flatMap((record) => {
    const { template, ...expected } = Object.fromEntries(record);
    const actual = Object.fromEntries(play(template as string));
    return JSON.stringify(actual) === JSON.stringify(expected) ? [] : [{ template, expected, actual }];
  });
  expect(differences).toEqual([]);
  expect(records.length).toBeGreaterThan(1500);
});
