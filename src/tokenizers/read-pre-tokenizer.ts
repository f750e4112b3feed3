// The "pre_tokenizer" and "normalizer" of a tokenizer.json as split steps and normal forms, as far as byte-level BPE
// tokenizers use them. Anything else is left to the library.

import type { NormalForm } from "./normalize-text.ts";
import type { SplitStep } from "./pre-tokenizer.ts";
import { literalPattern, translatePattern, UnsupportedPattern } from "./split-pattern.ts";
import { nameOf, NotByteLevelBpe, type PlainObject, type TokenizerJson } from "./tokenizer-json.ts";

/** The pattern that GPT-2's byte-level pre-tokenizer splits by when it is told to. */
const gpt2Pattern = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;

/** Throws {@link NotByteLevelBpe} unless the steps end in "ByteLevel". */
export function readSplitSteps(value: unknown, json: TokenizerJson): SplitStep[] {
  const parts = json.sequence(value, "pre_tokenizer", "pretokenizers");
  if (parts.at(-1)?.["type"] !== "ByteLevel") throw new NotByteLevelBpe("its pre-tokenizer does not end in ByteLevel");
  return parts.flatMap((part, index) => readStep(part, index + 1 === parts.length, json));
}

export function readNormalForms(value: unknown, json: TokenizerJson): NormalForm[] {
  return json.sequence(value, "normalizer", "normalizers").map(({ type }) => {
    if (type === "NFC" || type === "NFD" || type === "NFKC" || type === "NFKD") return type;
    throw new NotByteLevelBpe(`its normalizer is ${nameOf(type)}`);
  });
}

function readStep(part: PlainObject, isLast: boolean, json: TokenizerJson): SplitStep[] {
  switch (part["type"]) {
    case "Split":
      return [readSplit(part, json)];
    case "Digits":
      return [isolate(json.flag(part["individual_digits"], "individual_digits") ? "\\p{N}" : "\\p{N}+")];
    case "ByteLevel":
      // Absent means true, as for Hugging Face.
      if (!isLast || part["add_prefix_space"] !== false) throw new NotByteLevelBpe("it adds a space before each piece");
      return part["use_regex"] === false ? [] : [isolate(gpt2Pattern)];
    default:
      throw new NotByteLevelBpe(`its pre-tokenizer has the part ${nameOf(part["type"])}`);
  }
}

function readSplit(part: PlainObject, json: TokenizerJson): SplitStep {
  const pattern = json.object(part["pattern"], "pre_tokenizer.pattern");
  const written = pattern["Regex"] ?? pattern["String"];
  const text = json.string(written, "pre_tokenizer.pattern.Regex");
  const inverted = json.flag(part["invert"], "pre_tokenizer.invert");
  const behavior = part["behavior"];
  if (behavior !== "Isolated" && behavior !== "Removed") {
    throw new NotByteLevelBpe(`its pre-tokenizer splits by ${nameOf(behavior)}`);
  }
  const keep = behavior === "Isolated" ? "both" : inverted ? "matches" : "gaps";
  return { pattern: pattern["Regex"] === undefined ? literalPattern(text) : translate(text), keep };
}

function isolate(pattern: string): SplitStep {
  return { pattern: translate(pattern), keep: "both" };
}

function translate(pattern: string): RegExp {
  try {
    return translatePattern(pattern);
  } catch (error) {
    if (error instanceof UnsupportedPattern) throw new NotByteLevelBpe(error.message);
    throw error;
  }
}
