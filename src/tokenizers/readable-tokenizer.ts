import type { IncrementalDecoder, Tokenizer } from "../core/index.ts";
import { readablePunctuation, readableWords } from "./readable-words.ts";

const specialTexts = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const markerTexts = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"];
const firstWordId = 256 + specialTexts.length + markerTexts.length;
const escaped = [...readablePunctuation]
  .sort((a, b) => b.length - a.length)
  .map((piece) => piece.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
const pieces = new RegExp(
  `${escaped.join("|")}|'(?:s|t|re|ve|m|ll|d)(?!\\p{L})|[ _]?\\p{L}+|\\p{N}|[^\\s\\p{L}\\p{N}]|\\s+(?!\\S)|\\s`,
  "gu",
);

/** First form; becomes an instance of the byte-level BPE without changing an id. */
export function createReadableTokenizer(): Tokenizer {
  const words = new Map<string, number>();
  const texts: string[] = [];
  const add = (text: string): void => {
    if (text === "" || text.length === 1 || words.has(text)) return;
    words.set(text, firstWordId + texts.length);
    texts.push(text);
  };
  for (const word of readableWords) {
    const capitalized = word.charAt(0).toUpperCase() + word.slice(1);
    for (const form of [word, ` ${word}`, capitalized, ` ${capitalized}`, `_${word}`]) add(form);
  }
  for (const piece of readablePunctuation) add(piece);
  for (const piece of ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"]) add(piece);
  const added = new Map([...specialTexts, ...markerTexts].map((text, index) => [text, 256 + index]));
  const addedPattern = /<\|endoftext\|>|<\|im_start\|>|<\|im_end\|>|<\/?tool_call>|<\/?tool_response>|<\/?think>/g;
  const encoder = new TextEncoder();
  const vocabularySize = firstWordId + texts.length;
  const bytesOf = (id: number): Uint8Array =>
    id < 256
      ? Uint8Array.of(id)
      : encoder.encode(
          id < firstWordId ? ([...specialTexts, ...markerTexts][id - 256] ?? "") : (texts[id - firstWordId] ?? ""),
        );
  const isSpecial = (id: number): boolean => id >= 256 && id < 256 + specialTexts.length;
  const startDecoding = (): IncrementalDecoder => {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    return {
      push: (id) => decoder.decode(bytesOf(id), { stream: true }),
      finish: () => decoder.decode(),
    };
  };
  const encodeOrdinary = (text: string, ids: number[]): void => {
    for (const [piece] of text.matchAll(pieces)) {
      const id = words.get(piece);
      if (id === undefined) ids.push(...encoder.encode(piece));
      else ids.push(id);
    }
  };
  return {
    name: "readable",
    vocabularySize,
    isSpecial,
    startDecoding,
    tokenId: (text) =>
      added.get(text) ?? words.get(text) ?? (text.length === 1 && text < "\u0080" ? text.charCodeAt(0) : null),
    encode: (text) => {
      const ids: number[] = [];
      let end = 0;
      for (const match of text.matchAll(addedPattern)) {
        encodeOrdinary(text.slice(end, match.index), ids);
        ids.push(added.get(match[0]) ?? 0);
        end = match.index + match[0].length;
      }
      encodeOrdinary(text.slice(end), ids);
      return Uint32Array.from(ids);
    },
    decode: (ids, options = {}) => {
      const decoder = startDecoding();
      let text = "";
      for (let i = 0; i < ids.length; i++) {
        const id = ids[i] ?? 0;
        if (options.skipSpecialTokens === true && isSpecial(id)) continue;
        text += decoder.push(id);
      }
      return text + decoder.finish();
    },
  };
}
