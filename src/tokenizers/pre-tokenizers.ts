// Pre-tokenizers of tokenizer.json: they cut a normalized text into the pieces that the model encodes one by one.

import { applyBehavior, findParts, globalPattern, type SplitBehavior, splitBehaviors } from "./find-matches.ts";
import { readPattern, toByteCharacters } from "./normalizers.ts";
import { nameOf, type PlainObject, UnsupportedPart, type TokenizerJson } from "./tokenizer-json.ts";

/** A piece of a text. `isFirst`: it begins with the first character of the whole text. */
export type Piece = { readonly text: string; readonly isFirst: boolean };

export type PreTokenizer = {
  readonly split: (piece: Piece) => readonly Piece[];
  /** True if pieces depend on `isFirst`. */
  readonly looksAtFirst: boolean;
};

/**
 * Reads the pre-tokenizer of a tokenizer.json; without one the whole text is one piece. Throws an
 * `UnsupportedPart`.
 */
export function readPreTokenizer(value: unknown, json: TokenizerJson): PreTokenizer {
  const parts = json.sequence(value, "pre_tokenizer", "pretokenizers");
  const splits = parts.map((part) => readPart(part, json));
  return {
    split: (piece) =>
      splits.reduce<readonly Piece[]>((pieces, split) => pieces.flatMap((one) => [...split(one)]), [piece]),
    looksAtFirst: parts.some(({ type, prepend_scheme: scheme }) => type === "Metaspace" && scheme === "first"),
  };
}

type Split = (piece: Piece) => readonly Piece[];

/** The pattern by which GPT-2's byte-level pre-tokenizer splits if it has no pattern of its own. */
export const gpt2Pattern = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;

/** Word characters of Rust's regular expressions. */
const wordCharacter = String.raw`[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]`;
const notWord = String.raw`[^\p{White_Space}\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]`;
/** ASCII symbols count as punctuation. */
const punctuation = /[!-/:-@[-`{-~\p{P}]/gu;

function readPart(part: PlainObject, json: TokenizerJson): Split {
  const { type } = part;
  switch (type) {
    case "Split": {
      const behavior = readBehavior(part["behavior"]);
      const isInverted = json.requiredFlag(part["invert"], "pre_tokenizer.invert");
      return cutBy(readPattern(part, "pre_tokenizer", json), behavior, isInverted);
    }
    case "Digits":
      return json.requiredFlag(part["individual_digits"], "pre_tokenizer.individual_digits")
        ? cutBy(/\p{N}/gu, "Isolated")
        : cutBy(/\p{N}/gu, "Contiguous");
    case "ByteLevel":
      return readByteLevel(part, json);
    case "Metaspace":
      return readMetaspace(part, json);
    case "Whitespace":
      return cutBy(new RegExp(`${wordCharacter}+|${notWord}+`, "gu"), "Isolated", false, true);
    case "WhitespaceSplit":
      return cutBy(/\p{White_Space}/gu, "Removed");
    case "Punctuation":
      return cutBy(punctuation, readBehavior(part["behavior"] ?? "Isolated"));
    case "CharDelimiterSplit": {
      const delimiter = json.character(part["delimiter"], "pre_tokenizer.delimiter");
      return cutBy(new RegExp(`\\u{${delimiter.codePointAt(0)!.toString(16)}}`, "gu"), "Removed");
    }
    case "BertPreTokenizer": {
      const words = cutBy(/\p{White_Space}/gu, "Removed");
      const marks = cutBy(punctuation, "Isolated");
      return (piece) => words(piece).flatMap((word) => [...marks(word)]);
    }
    default:
      throw new UnsupportedPart("pre_tokenizer", nameOf(type));
  }
}

function readBehavior(value: unknown): SplitBehavior {
  const behavior = splitBehaviors.find((known) => known === value);
  if (behavior === undefined) throw new UnsupportedPart("pre_tokenizer", `the behavior ${nameOf(value)}`);
  return behavior;
}

/** Cuts at the matches. `isInverted` swaps matches and gaps; `onlyMatches` drops the gaps. */
function cutBy(pattern: RegExp, behavior: SplitBehavior, isInverted = false, onlyMatches = false): Split {
  return (piece) => {
    const found = findParts(piece.text, pattern);
    const parts = isInverted ? found.map((part) => ({ ...part, isMatch: !part.isMatch })) : found;
    return applyBehavior(parts, behavior)
      .filter(({ start, end, isMatch }) => end > start && (isMatch || !onlyMatches))
      .map(({ start, end }) => ({ text: piece.text.slice(start, end), isFirst: piece.isFirst && start === 0 }));
  };
}

function readByteLevel(part: PlainObject, json: TokenizerJson): Split {
  const prepends = json.requiredFlag(part["add_prefix_space"], "pre_tokenizer.add_prefix_space");
  // An absent field means true, as for Hugging Face.
  const cuts = json.flag(part["use_regex"] ?? true, "pre_tokenizer.use_regex");
  const cut = cuts ? cutBy(globalPattern(gpt2Pattern), "Isolated") : (piece: Piece) => [piece];
  return (piece) => {
    const text = prepends && piece.text !== "" && !piece.text.startsWith(" ") ? ` ${piece.text}` : piece.text;
    return cut({ ...piece, text }).map((one) => ({ ...one, text: toByteCharacters(one.text) }));
  };
}

export type Metaspace = { readonly mark: string; readonly scheme: "always" | "first" | "never" };

/**
 * Settings of a Metaspace, as pre-tokenizer or as decoder. Files from before 2024 use
 * `add_prefix_space`.
 */
export function readMetaspaceFields(part: PlainObject, where: string, json: TokenizerJson): Metaspace {
  const mark = json.character(part["replacement"], `${where}.replacement`);
  const scheme = part["prepend_scheme"] ?? "always";
  if (scheme !== "always" && scheme !== "first" && scheme !== "never") {
    throw new UnsupportedPart(where, `the prepend_scheme ${nameOf(scheme)}`);
  }
  const addsPrefix = json.flag(part["add_prefix_space"] ?? true, `${where}.add_prefix_space`);
  if (!addsPrefix && scheme !== "never") {
    throw new UnsupportedPart(where, `add_prefix_space false with the prepend_scheme "${scheme}"`);
  }
  return { mark, scheme };
}

function readMetaspace(part: PlainObject, json: TokenizerJson): Split {
  const { mark, scheme } = readMetaspaceFields(part, "pre_tokenizer", json);
  const cuts = json.flag(part["split"] ?? true, "pre_tokenizer.split");
  const cut = cuts
    ? cutBy(new RegExp(`\\u{${mark.codePointAt(0)!.toString(16)}}`, "gu"), "MergedWithNext")
    : (piece: Piece) => [piece];
  return (piece) => {
    const text = piece.text.replaceAll(" ", mark);
    const prepends = scheme === "always" || (scheme === "first" && piece.isFirst);
    return cut({ ...piece, text: prepends && text !== "" && !text.startsWith(mark) ? mark + text : text });
  };
}
