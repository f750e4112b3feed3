import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { familyOfChatTemplate, rendererFamily } from "../index.ts";
import { byteTokenizer } from "../marker-tokenizer.test-helper.ts";
import { models, publishedTemplate } from "../published-templates.test-helper.ts";
import { findLostValues, valueKinds } from "./argument-values.ts";
import type { ValuesFound } from "./template-audit.ts";
import { bundledChatTemplate } from "../bundled-template.ts";

/** Checks a template with a byte tokenizer, as none of the values holds a marker. */
async function found(chatTemplate: string): Promise<ValuesFound | null> {
  const { specialTokens, startToken, endToken, stopTokens } = rendererFamily(familyOfChatTemplate(chatTemplate));
  const special = specialTokens as ReadonlyMap<string, string>;
  const markers = [...special.values(), startToken, endToken ?? startToken, ...stopTokens];
  return findLostValues({ tokenizer: await byteTokenizer(markers), chatTemplate, specialTokens: special });
}

const all = { written: valueKinds.length, lost: [], refused: [] };
const isJson = [
  ...[
    "deepseek-r1",
    "deepseek-v3-sglang-tools",
    "deepseek-v3.1",
    "kimi-k2",
    "llama-3.1-instruct",
    "llama-3.2-instruct",
  ],
  ...[
    "mistral-nemo-2407",
    "mistral-small-3.2",
    "qwen2.5-instruct",
    "qwen3",
    "qwen3-instruct-2507",
    "qwen3-miles-fixed",
  ],
  ...["qwen3-rev2", "qwen3-skyrl-acc-thinking", "qwq-32b"],
];
const coder = [
  ...['the string "null"', "null where a string may stand", "null where an integer may stand", "a value of any type"],
];
const glm45 = [
  ...["a string in quotes", 'the string "null"', 'the string "true"', "a string that is a decimal number"],
  "null where a string may stand",
];
const minimaxM2 = [
  ...["a string that begins with a line break", "a string that ends with a line break", 'the string "null"'],
  ...['the string "None"', "a decimal number that is whole", "a string where null may stand"],
  ...["an integer where null may stand", "a value of any type"],
];

/** Kinds of values that the servers' parsers lose as well; ours give equal results. */
const lost: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(isJson.map((name) => [name, []])),
  "glm-4.5": glm45,
  "glm-4.6": glm45,
  "glm-4.7-flash": ["a string in quotes"],
  "qwen3-coder": coder,
  "qwen3.5": coder,
  "minimax-m3": minimaxM2,
  "seed-oss": [],
};
/**
 * Templates that write no call after their own prompt, or in another form than their models and
 * their parser.
 */
const unwritten = ["deepseek-v3.1-sglang-tools", "gpt-oss", "kimi-k2-thinking", "smollm3"];

test("46 kinds of arguments come back out of our own format", async () => {
  expect(valueKinds).toHaveLength(46);
  expect(new Set(valueKinds.map(({ kind }) => kind)).size).toBe(46);
  expect(await found(bundledChatTemplate)).toEqual(all);
});

describe.skipIf(models === null)("arguments of every template at hand (skipped without ../shared/models)", () => {
  const names = readdirSync(models ?? ".").filter((name) =>
    existsSync(join(models ?? "", name, "chat_template.jinja")),
  );

  test.each(names)("%s", async (name) => {
    const values = await found(publishedTemplate(name));
    if (unwritten.includes(name)) return expect(values).toBeNull();
    if (name !== "hermes-3-tool-use") return expect(values).toEqual({ ...all, lost: lost[name] });
    // Its macro recurses without end for a list of types.
    const refused = ["null where a string may stand", "a string where null may stand"];
    expect(values).toEqual({ written: 44, lost: [], refused });
  });
});
