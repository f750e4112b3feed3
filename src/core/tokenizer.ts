// Contract of the tokenizer. Implementations are in `tokenizers/`.

import type { Steps } from "../lib/steps.ts";

/**
 * Text to token ids and back, for one vocabulary.
 *
 * Guarantees: `encode` adds no token of its own (no BOS), and cuts added tokens (`<|im_start|>`) out
 * of the text first, as Hugging Face tokenizers do; `decode` never throws on ids of the vocabulary,
 * and incomplete UTF-8 becomes U+FFFD.
 * Not promised: `decode(encode(text)) === text` (normalizers change text).
 */
export interface Tokenizer {
  readonly name: string;
  /** One more than the largest id. */
  readonly vocabularySize: number;
  encode(text: string): Uint32Array;
  /**
   * Encodes like `encode`, but the `literal` ranges are plain text, even where they spell a control
   * token: no control token begins, ends or lies in them. A control token is every added token,
   * special or not, that is more than white space.
   */
  encodeLiteral(text: string, literal: readonly TextRange[]): LiteralEncoding;
  /** `encodeLiteral` in steps, for a text that may be very long. @default one step */
  encodeInSteps?(text: string, literal: readonly TextRange[]): Steps<LiteralEncoding>;
  decode(ids: ArrayLike<number>, options?: { readonly skipSpecialTokens?: boolean }): string;
  /** Id of a whole token by its text, added tokens included; `null` when there is none. */
  tokenId(text: string): number | null;
  /** True for added tokens marked special, which `skipSpecialTokens` omits. */
  isSpecial(id: number): boolean;
  startDecoding(): IncrementalDecoder;
}

/** A part of a text: `[start, end)` in UTF-16 units. Lists of ranges are in order and do not overlap. */
export type TextRange = { readonly start: number; readonly end: number };

export type LiteralEncoding = {
  readonly tokens: Uint32Array;
  /** Number of control tokens that `encode` would have recognised in literal text. */
  readonly spelledTokens: number;
};

/**
 * Decodes a stream of ids without ever splitting a character: incomplete bytes are returned by a
 * later push, or by `finish`.
 */
export interface IncrementalDecoder {
  push(id: number): string;
  finish(): string;
}
