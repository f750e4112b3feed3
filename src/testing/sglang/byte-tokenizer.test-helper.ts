// One token per byte and two added tokens, one of them special: enough to test where text is split.

import type { Tokenizer } from "../../core/tokenizer.ts";

export const endId = 256;
export const callId = 257;
const added: Readonly<Record<number, string>> = { [endId]: "<|im_end|>", [callId]: "<tool_call>" };

export const byteTokenizer: Tokenizer = {
  name: "bytes",
  vocabularySize: 258,
  encode: (text) => Uint32Array.from(Buffer.from(text)),
  encodeLiteral: (text) => ({ tokens: Uint32Array.from(Buffer.from(text)), spelledTokens: 0 }),
  decode: (ids, options = {}) => {
    const bytes = Array.from(ids).flatMap((id) => {
      if (id < 256) return [id];
      return id === endId && options.skipSpecialTokens === true ? [] : [...Buffer.from(added[id] ?? "")];
    });
    return new TextDecoder().decode(Uint8Array.from(bytes));
  },
  tokenId: (text) => Number(Object.entries(added).find(([, name]) => name === text)?.[0] ?? Number.NaN) || null,
  isSpecial: (id) => id === endId,
  startDecoding: () => {
    throw new Error("The front decodes whole texts.");
  },
};

/** Ids of a text that contains added tokens by their names. */
export function idsOf(text: string): number[] {
  return text
    .split(/(<\|im_end\|>|<tool_call>)/)
    .flatMap((part) => (part === added[endId] ? [endId] : part === added[callId] ? [callId] : [...Buffer.from(part)]));
}
