// Decoders of tokenizer.json as chains of stages, each of which takes tokens one by one and passes
// text on as soon as it is final. A list of ids and a stream of ids are decoded by the same code,
// so both give the same text.

import { createCharacterBytes } from "./byte-table.ts";
import { findParts } from "./find-matches.ts";
import { readPattern } from "./normalizers.ts";
import { readMetaspaceFields } from "./pre-tokenizers.ts";
import { nameOf, type PlainObject, UnsupportedPart, type TokenizerJson } from "./tokenizer-json.ts";
import { decodeUtf8, Utf8Joiner } from "./utf8-decoder.ts";

/** Receiver of the output of a stage. */
type Take = (token: string) => void;

/** One stage in progress. `finish` passes on the text that is held back, and is called once. */
type Stage = { readonly push: Take; readonly finish: () => void };

/** Makes a stage that passes its output to `take`. */
type StageFactory = (take: Take) => Stage;

/** Decodes the tokens of one answer. */
export type TokenDecoder = {
  /** Takes a token and returns the text that becomes final with it. */
  readonly push: (token: string) => string;
  /** Returns the rest of the text. */
  readonly finish: () => string;
};

/** Reads the decoder of a tokenizer.json as a factory of {@link TokenDecoder}. Throws an `UnsupportedPart`. */
export function readDecoder(value: unknown, json: TokenizerJson): () => TokenDecoder {
  const parts = json.sequence(value, "decoder", "decoders");
  const factories = parts.length === 0 ? [joinWithSpaces] : [];
  let isJoined = false;
  for (const part of parts) {
    factories.push(readStage(part, isJoined, json));
    isJoined ||= part["type"] === "Fuse" || part["type"] === "ByteLevel";
  }
  return () => {
    let settled = "";
    const stages: Stage[] = [];
    let take: Take = (token) => void (settled += token);
    for (const factory of factories.toReversed()) {
      const stage = factory(take);
      stages.unshift(stage);
      take = stage.push;
    }
    const taken = (): string => {
      const text = settled;
      settled = "";
      return text;
    };
    return {
      push: (token) => {
        take(token);
        return taken();
      },
      finish: () => {
        for (const stage of stages) stage.finish();
        return taken();
      },
    };
  };
}

/** `isJoined`: true if the stage gets one token, in parts. */
function readStage(part: PlainObject, isJoined: boolean, json: TokenizerJson): StageFactory {
  const { type } = part;
  if (isJoined && type !== "Strip" && type !== "Fuse") {
    throw new UnsupportedPart("decoder", `${nameOf(type)} after a part that joins all tokens`);
  }
  switch (type) {
    case "Fuse":
      return (take) => ({ push: take, finish: ignore });
    case "ByteFallback":
      return joinByteTokens;
    case "ByteLevel":
      return decodeByteCharacters;
    case "Replace":
      return readReplace(part, json);
    case "Strip":
      return readStrip(part, isJoined, json);
    case "Metaspace":
      return readMetaspace(part, json);
    case "WordPiece":
      return readWordPiece(part, json);
    case "BPEDecoder":
      return readSuffix(part, json);
    default:
      throw new UnsupportedPart("decoder", nameOf(type));
  }
}

const ignore = (): void => {};

/** Joins tokens with spaces, for a tokenizer without a decoder. */
function joinWithSpaces(take: Take): Stage {
  let isFirst = true;
  return {
    push: (token) => {
      take(isFirst ? token : ` ${token}`);
      isFirst = false;
    },
    finish: ignore,
  };
}

/** A stage that changes each token on its own, knowing whether it is the first. */
function mapTokens(change: (token: string, isFirst: boolean) => string): StageFactory {
  return (take) => {
    let isFirst = true;
    return {
      push: (token) => {
        take(change(token, isFirst));
        isFirst = false;
      },
      finish: ignore,
    };
  };
}

/**
 * Tokens like `<0xE2>` stand for bytes. A run of them is text if all of it is valid UTF-8, and
 * U+FFFD for each of its bytes otherwise, so no part of a run is final before it ends.
 */
function joinByteTokens(take: Take): Stage {
  let run: number[] = [];
  const flush = (): void => {
    if (run.length === 0) return;
    const text = decodeUtf8(Uint8Array.from(run));
    // A valid run may hold U+FFFD itself, so the bytes are compared.
    const isValid = !text.includes("\ufffd") || sameBytes(encoder.encode(text), run);
    if (isValid) take(text);
    else for (let count = 0; count < run.length; count++) take("\ufffd");
    run = [];
  };
  return {
    push: (token) => {
      const byte = /^<0x(\+[0-9A-Fa-f]|[0-9A-Fa-f]{2})>$/.exec(token)?.[1];
      if (byte !== undefined) run.push(Number.parseInt(byte, 16));
      else {
        flush();
        take(token);
      }
    },
    finish: flush,
  };
}

const encoder = new TextEncoder();

function sameBytes(bytes: Uint8Array, others: readonly number[]): boolean {
  return bytes.length === others.length && bytes.every((byte, index) => byte === others[index]);
}

const characterBytes = createCharacterBytes();

/** Characters stand for bytes; a token with a character that is not a stand-in is its own text. */
function decodeByteCharacters(take: Take): Stage {
  const joiner = new Utf8Joiner();
  return {
    push: (token) => {
      const stands = Array.from(token, (character) => characterBytes.get(character));
      const bytes = stands.every((byte) => byte !== undefined) ? Uint8Array.from(stands) : encoder.encode(token);
      const text = joiner.push(bytes.length, (target, offset) => target.set(bytes, offset));
      if (text !== "") take(text);
    },
    finish: () => {
      const text = joiner.finish();
      if (text !== "") take(text);
    },
  };
}

function readReplace(part: PlainObject, json: TokenizerJson): StageFactory {
  const content = json.string(part["content"], "decoder.content");
  const pattern = readPattern(part, "decoder", json);
  return mapTokens((token) =>
    findParts(token, pattern)
      .map(({ start, end, isMatch }) => (isMatch ? content : token.slice(start, end)))
      .join(""),
  );
}

function readStrip(part: PlainObject, isJoined: boolean, json: TokenizerJson): StageFactory {
  const content = json.character(part["content"], "decoder.content");
  const [start, stop] = [part["start"], part["stop"]];
  if (typeof start !== "number" || typeof stop !== "number") {
    throw json.error("decoder.start or decoder.stop of Strip is missing, expected two numbers");
  }
  // The reference fails at tokens that are shorter than the text removed from their end.
  if (stop > 0) throw new UnsupportedPart("decoder", "Strip at the end of tokens");
  if (!isJoined) return mapTokens((token) => withoutStart(token, content, start).rest);
  return (take) => {
    let left = start;
    return {
      push: (token) => {
        const { rest, stripped } = withoutStart(token, content, left);
        left = rest === "" ? left - stripped : 0;
        if (rest !== "") take(rest);
      },
      finish: ignore,
    };
  };
}

function withoutStart(token: string, content: string, most: number): { rest: string; stripped: number } {
  let stripped = 0;
  let rest = token;
  while (stripped < most && rest.startsWith(content)) {
    rest = rest.slice(content.length);
    stripped++;
  }
  return { rest, stripped };
}

function readMetaspace(part: PlainObject, json: TokenizerJson): StageFactory {
  const { mark, scheme } = readMetaspaceFields(part, "decoder", json);
  return mapTokens((token, isFirst) => token.replaceAll(mark, isFirst && scheme !== "never" ? "" : " "));
}

/** English contractions and marks that lose the space before them. */
const cleanedUp: readonly (readonly [from: string, to: string])[] = [
  [" .", "."],
  [" ?", "?"],
  [" !", "!"],
  [" ,", ","],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [" do not", " don't"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

function readWordPiece(part: PlainObject, json: TokenizerJson): StageFactory {
  const prefix = json.string(part["prefix"], "decoder.prefix");
  const cleans = json.requiredFlag(part["cleanup"], "decoder.cleanup");
  return mapTokens((token, isFirst) => {
    const text = isFirst ? token : token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`;
    return cleans ? cleanedUp.reduce((made, [from, to]) => made.replaceAll(from, to), text) : text;
  });
}

/**
 * The suffix that ends words becomes a space, and nothing at the end of the text, so the last token
 * is held back.
 */
function readSuffix(part: PlainObject, json: TokenizerJson): StageFactory {
  const suffix = json.string(part["suffix"], "decoder.suffix");
  if (suffix === "") throw new UnsupportedPart("decoder", "BPEDecoder without a suffix");
  return (take) => {
    let last: string | null = null;
    return {
      push: (token) => {
        if (last !== null) take(last.replaceAll(suffix, " "));
        last = token;
      },
      finish: () => {
        if (last !== null) take(last.replaceAll(suffix, ""));
      },
    };
  };
}
