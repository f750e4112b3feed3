// Normalizers of tokenizer.json as functions from text to text. The rules are those of Hugging Face tokenizers: white space is
// the Unicode property White_Space, letters become lower case one by one.

import { byteCharacters } from "./byte-table.ts";
import { globalPattern } from "./find-matches.ts";
import { createPrecompiledNormalizer } from "./precompiled-normalizer.ts";
import { nameOf, type PlainObject, UnsupportedPart, type TokenizerJson } from "./tokenizer-json.ts";

export type Normalizer = {
  readonly normalize: (text: string) => string;
  /**
   * True if leading characters may be removed. A pre-tokenizer that treats the first piece of a
   * text differently then needs to know whether the first character is left.
   */
  readonly removesText: boolean;
};

/** Reads the normalizer of a tokenizer.json; `null` for a file without one. Throws an `UnsupportedPart`. */
export function readNormalizer(value: unknown, json: TokenizerJson): Normalizer | null {
  const parts = json.sequence(value, "normalizer", "normalizers").map((part) => readPart(part, json));
  if (parts.length === 0) return null;
  return {
    normalize: (text) => parts.reduce((made, { normalize }) => normalize(made), text),
    removesText: parts.some(({ removesText }) => removesText),
  };
}

function readPart(part: PlainObject, json: TokenizerJson): Normalizer {
  const keeping = (normalize: (text: string) => string): Normalizer => ({ normalize, removesText: false });
  const removing = (normalize: (text: string) => string): Normalizer => ({ normalize, removesText: true });
  const { type } = part;
  switch (type) {
    case "NFC":
    case "NFD":
    case "NFKC":
    case "NFKD":
      return keeping((text) => text.normalize(type));
    case "Lowercase":
      return keeping(lowercase);
    case "StripAccents":
      return removing((text) => text.replace(/\p{M}/gu, ""));
    case "Strip": {
      const left = json.requiredFlag(part["strip_left"], "normalizer.strip_left");
      const right = json.requiredFlag(part["strip_right"], "normalizer.strip_right");
      return removing((text) => {
        const trimmed = left ? text.replace(/^\p{White_Space}+/u, "") : text;
        return right ? trimEnd(trimmed) : trimmed;
      });
    }
    case "Prepend": {
      const prefix = json.string(part["prepend"], "normalizer.prepend");
      return keeping((text) => (text === "" ? text : prefix + text));
    }
    case "Replace": {
      const content = json.string(part["content"], "normalizer.content");
      const pattern = readPattern(part, "normalizer", json);
      return { normalize: (text) => text.replace(pattern, () => content), removesText: content === "" };
    }
    case "ByteLevel":
      return keeping(toByteCharacters);
    case "Nmt":
      return removing(normalizeForTranslation);
    case "Precompiled":
      return removing(
        createPrecompiledNormalizer(
          json.string(part["precompiled_charsmap"], "normalizer.precompiled_charsmap"),
          json.error,
        ),
      );
    case "BertNormalizer":
      return removing(readBertNormalizer(part, json));
    default:
      throw new UnsupportedPart("normalizer", nameOf(type));
  }
}

/** The pattern of a Replace or Split part: plain text, or a regular expression. Throws an `UnsupportedPart`. */
export function readPattern(part: PlainObject, where: string, json: TokenizerJson): RegExp {
  const pattern = json.object(part["pattern"], `${where}.pattern`);
  const plain = pattern["String"];
  if (plain === undefined) return json.pattern(pattern["Regex"], `${where}.pattern.Regex`, globalPattern);
  const text = json.string(plain, `${where}.pattern.String`);
  if (text === "") throw new UnsupportedPart(where, "an empty pattern");
  return new RegExp(Array.from(text, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`).join(""), "gu");
}

/** Lower-cases each character on its own: a sigma at the end of a word is not an exception. */
export function lowercase(text: string): string {
  return /^\p{ASCII}*$/u.test(text) ? text.toLowerCase() : Array.from(text, (one) => one.toLowerCase()).join("");
}

/** A loop, because the regular expression is quadratic in long runs of inner white space. */
function trimEnd(text: string): string {
  let end = text.length;
  while (end > 0 && /\p{White_Space}/u.test(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

const encoder = new TextEncoder();

/** The text whose characters stand for the bytes of `text`. */
export function toByteCharacters(text: string): string {
  let made = "";
  for (const byte of encoder.encode(text)) made += byteCharacters[byte]!;
  return made;
}

/** The rule of the normalizer "Nmt": control characters disappear, exotic white space becomes a space. */
function normalizeForTranslation(text: string): string {
  return (
    text
      // oxlint-disable-next-line no-control-regex -- these are what the rule removes
      .replace(/[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]/g, "")
      .replace(/[\t\n\f\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]/g, " ")
  );
}

const chineseCharacter =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;

function readBertNormalizer(part: PlainObject, json: TokenizerJson): (text: string) => string {
  const flag = (key: string): boolean => json.requiredFlag(part[key], `normalizer.${key}`);
  const [cleans, separates, lowers] = [flag("clean_text"), flag("handle_chinese_chars"), flag("lowercase")];
  const strips = json.flag(part["strip_accents"] ?? lowers, "normalizer.strip_accents");
  return (text) => {
    let made = text;
    if (cleans) {
      made = made.replace(/[\0\ufffd]|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}]/gu, "").replace(/\p{White_Space}/gu, " ");
    }
    if (separates) made = made.replace(chineseCharacter, " $& ");
    if (strips) made = made.normalize("NFD").replace(/\p{Mn}/gu, "");
    return lowers ? lowercase(made) : made;
  };
}
