// Definitions of small tokenizers, and the output of Hugging Face tokenizers for text and ids with
// them. Recorded: the first line of fixtures/definitions.jsonl gives the version, the date and the
// method.

import { readFileSync } from "node:fs";

import { createTokenizer, type TokenizerDefinition } from "./create-tokenizer.ts";
import type { Tokenizer } from "../core/index.ts";
import { createJudge, type Judge } from "./library-tokenizer.test-helper.ts";
import { readTextTokenizer } from "./text-tokenizer.ts";

type Json = Record<string, unknown>;

export type Encoding = {
  readonly definition: string;
  /** `null` for ids that were not encoded from a text. */
  readonly text: string | null;
  readonly ids: readonly number[];
  readonly decoded: string;
  readonly decoded_skip_special: string;
};

function readLines(name: string): Json[] {
  const text = readFileSync(new URL(`./fixtures/${name}`, import.meta.url), "utf8");
  return text.trimEnd().split("\n").map((line) => JSON.parse(line) as Json); // prettier-ignore
}

const lines = readLines("definitions.jsonl");
const base = lines.find((line) => "base" in line)?.["base"] as Json;
const variants = new Map(
  lines.filter((line) => "variant" in line).map((line) => [line["variant"] as string, line["patch"] as Json]),
);

export const definitionNames: readonly string[] = [...variants.keys()];
export const encodings = readLines("encodings.jsonl") as unknown as readonly Encoding[];

/** A fresh copy of a recorded tokenizer.json, with further changes. */
export function tokenizerJson(name: string, patch: Json = {}): Json {
  const merged = { ...structuredClone(base), ...structuredClone(variants.get(name)), ...patch };
  const model = (changes: Json | undefined): unknown => changes?.["model"];
  return { ...merged, model: Object.assign({}, base["model"], model(variants.get(name)), model(patch)) };
}

export async function ownTokenizer(name: string, patch: Json = {}): Promise<Tokenizer> {
  const definition: TokenizerDefinition = { tokenizerJson: tokenizerJson(name, patch), tokenizerConfig: null };
  return createTokenizer(name, definition);
}

/** The same definition read by the library, the independent reference of the property tests. */
export function libraryTokenizer(name: string): Judge {
  return createJudge(tokenizerJson(name));
}

/** The same definition read by the code for all kinds, without the fast paths of byte-level BPE. */
export function textTokenizer(name: string): Tokenizer {
  return readTextTokenizer(name, tokenizerJson(name), name);
}
