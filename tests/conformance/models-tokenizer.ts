// Golden files `encode.NAME`, `decode.NAME` and `drift.NAME`: results of Hugging Face tokenizers
// for texts and ids, and positions where encoding in parts differs from encoding the whole. Part of
// the suite `models`.

import { ConfigurationError, type Tokenizer } from "#src/core/index.ts";
import type { JsonObject, JsonValue } from "#src/python-semantics/json/index.ts";
import { createReadableTokenizer, loadTokenizer } from "#src/tokenizers/index.ts";
import { findData } from "./find-data.ts";
import { GoldenTally, readGoldenFile, textOf } from "./golden-file.ts";
import type { GoldenFileReport, GoldenSuiteOptions } from "./suite.ts";

const names = /^(encode|decode|drift)\.(.+)\.jsonl$/;

/**
 * Tokenizers, kept for the life of the process: a vocabulary takes half a second to load, and three
 * files refer to each.
 */
const loaded = new Map<string, Promise<Tokenizer>>();

/**
 * Runs one file of a folder; `null` if its name is not one of ours. Records whose tokenizer.json is
 * missing are unsupported.
 */
export async function runTokenizerGoldens(
  folder: string,
  file: string,
  options: GoldenSuiteOptions,
): Promise<GoldenFileReport | null> {
  const match = names.exec(file);
  if (match === null) return null;
  const [, kind = "", fileName = ""] = match;
  const tally = new GoldenTally(file);
  for (const record of await readGoldenFile(`${folder}/${file}`)) {
    const name = textOf(record, "tokenizer") ?? fileName;
    const from = name === "readable" ? name : findTokenizer(name, folder, options);
    const play = kind === "drift" ? plays[textOf(record, "kind") ?? ""] : plays[kind];
    if (from === null) {
      tally.unsupported(`no ${name}/tokenizer.json in the data${licenceNote(name)}`);
    } else if (play === undefined) {
      tally.unsupported(`no such kind of record: ${textOf(record, "kind") ?? "none"}`);
    } else {
      const tokenizer = await load(from);
      tally.compare(record, pick(record, play.keys), () => play.run(tokenizer, record));
    }
  }
  return tally.report();
}

/**
 * Reason why a vocabulary is in none of our data sets. Packages that carry it cannot give it
 * another licence than its maker's.
 */
function licenceNote(name: string): string {
  return name.startsWith("llama-3")
    ? "; it comes under the Llama Community License, so bring your own with --data"
    : "";
}

/** Function that runs each type of record, and the keys of a record that hold the expected results. */
const plays: Readonly<Record<string, Play>> = {
  encode: {
    keys: ["ids", "decoded", "decoded_skip_special"],
    run: (tokenizer, record) => {
      const ids = tokenizer.encode(textOf(record, "text") ?? "");
      return result([["ids", [...ids]], ...decodings(tokenizer, ids)]);
    },
  },
  decode: {
    keys: ["decoded", "decoded_skip_special"],
    run: (tokenizer, record) => result(decodings(tokenizer, idsOf(record, "ids"))),
  },
  boundary: {
    keys: ["ids_a", "ids_b", "ids_ab", "concat_equal"],
    run: (tokenizer, record) => {
      const a = textOf(record, "a") ?? "";
      const b = textOf(record, "b") ?? "";
      const idsA = [...tokenizer.encode(a)];
      const idsB = [...tokenizer.encode(b)];
      const idsAb = [...tokenizer.encode(a + b)];
      const isEqual = areEqual([...idsA, ...idsB], idsAb);
      return result([["ids_a", idsA], ["ids_b", idsB], ["ids_ab", idsAb], ["concat_equal", isEqual]]); // prettier-ignore
    },
  },
  noncanonical: {
    keys: ["text", "reencoded", "roundtrip_equal"],
    run: (tokenizer, record) => {
      const ids = idsOf(record, "ids");
      const text = tokenizer.decode(ids);
      const reencoded = [...tokenizer.encode(text)];
      return result([["text", text], ["reencoded", reencoded], ["roundtrip_equal", areEqual(ids, reencoded)]]); // prettier-ignore
    },
  },
};

type Play = {
  readonly keys: readonly string[];
  readonly run: (tokenizer: Tokenizer, record: JsonObject) => JsonValue;
};
type Entry = readonly [string, JsonValue];

function decodings(tokenizer: Tokenizer, ids: ArrayLike<number>): Entry[] {
  const decoder = tokenizer.startDecoding();
  const pushed = Array.from(ids, (id) => decoder.push(id)).join("") + decoder.finish();
  const decoded = tokenizer.decode(ids);
  if (pushed !== decoded) throw new Error(`decoding id by id gives ${JSON.stringify(pushed)}, all at once ${JSON.stringify(decoded)}`); // prettier-ignore
  return [["decoded", decoded], ["decoded_skip_special", tokenizer.decode(ids, { skipSpecialTokens: true })]]; // prettier-ignore
}

/** Golden files abbreviate model names: "qwen2.5" is the folder "qwen2.5-instruct". */
function findTokenizer(name: string, goldens: string, options: GoldenSuiteOptions): string | null {
  for (const folder of [name, `${name}-instruct`]) {
    try {
      return `${findData("models", { data: options.data, goldens, mustContain: [`${folder}/tokenizer.json`] })}/${folder}`;
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
    }
  }
  return null;
}

function load(folder: string): Promise<Tokenizer> {
  let tokenizer = loaded.get(folder);
  if (tokenizer === undefined)
    loaded.set(
      folder,
      (tokenizer = folder === "readable" ? Promise.resolve(createReadableTokenizer()) : loadTokenizer(folder)),
    );
  return tokenizer;
}

function idsOf(record: JsonObject, key: string): number[] {
  const value = record.get(key);
  return Array.isArray(value) ? value.map(Number) : [];
}

function result(entries: readonly Entry[]): JsonObject {
  return new Map(entries);
}

function pick(record: JsonObject, keys: readonly string[]): JsonObject {
  return new Map(keys.map((key) => [key, record.get(key) ?? null]));
}

function areEqual(left: readonly number[], right: readonly number[]): boolean {
  return left.length === right.length && left.every((id, index) => id === right[index]);
}
