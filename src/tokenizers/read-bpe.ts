// Reads a parsed tokenizer.json as a byte-level BPE definition. Truncation, padding and post-processing in the file are
// left out on purpose: they would add or lose tokens behind the back of whoever counts them.

import type { BpeDefinition } from "./byte-level-bpe.ts";
import { normalizeText } from "./normalize-text.ts";
import { readNormalForms, readSplitSteps } from "./read-pre-tokenizer.ts";
import { buildByteTable, buildMergeTable, readAddedTokens, readVocabulary } from "./read-vocabulary.ts";
import { nameOf, NotByteLevelBpe, type PlainObject, TokenizerJson } from "./tokenizer-json.ts";

/**
 * Throws {@link NotByteLevelBpe} for other kinds of tokenizer, and a `ConfigurationError` that names `source` and the
 * field for a file that is none.
 */
export function readBpe(parsed: unknown, source: string): BpeDefinition {
  const json = new TokenizerJson(source);
  const root = json.object(parsed, "its content");
  const model = json.object(root["model"], "model");
  checkModel(model);
  const decoders = json.sequence(root["decoder"], "decoder", "decoders");
  if (decoders.length !== 1 || decoders[0]?.["type"] !== "ByteLevel") {
    throw new NotByteLevelBpe("its decoder is not ByteLevel");
  }
  const steps = readSplitSteps(root["pre_tokenizer"], json);
  const normalForms = readNormalForms(root["normalizer"], json);
  const vocabulary = readVocabulary(model["vocab"], json);
  const addedTokens = readAddedTokens(root["added_tokens"], vocabulary, json);
  const normalize = (text: string): string => normalizeText(text, normalForms);
  const tokens = buildByteTable(vocabulary, addedTokens, { json, normalize });
  return {
    tokens,
    merges: buildMergeTable(model["merges"], tokens, json),
    ignoreMerges: json.flag(model["ignore_merges"], "model.ignore_merges"),
    normalForms,
    steps,
    addedTokens,
  };
}

function checkModel(model: PlainObject): void {
  // Files from before 2021 do not name the type.
  const type = model["type"] ?? ("merges" in model ? "BPE" : undefined);
  if (type !== "BPE") throw new NotByteLevelBpe(`its model is of type ${nameOf(type)}`);
  for (const key of ["dropout", "continuing_subword_prefix", "end_of_word_suffix"]) {
    if (model[key]) throw new NotByteLevelBpe(`its model has a ${key}`);
  }
}
