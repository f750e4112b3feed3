// Byte-level byte-pair encoding, as Qwen, Llama 3, DeepSeek and gpt-oss use it: the tokenizer that
// our token accounting relies on. Token for token equal to Hugging Face tokenizers for the same
// definition, without its post-processing (no BOS) and its truncation; characters assigned by the
// very latest Unicode versions may differ, because tables differ. Not a reader of files: see
// `read-bpe.ts`. No `node:`, so it runs in a browser.

import type { IncrementalDecoder, LiteralEncoding, TextRange, Tokenizer } from "../core/index.ts";
import { copyIds } from "../lib/bytes.ts";
import type { Steps } from "../lib/steps.ts";
import {
  AddedTokenSplitter,
  type AddedToken,
  isControlToken,
  type LiteralScan,
  normalizedRanges,
  rangesWithin,
  specialTokenIds,
} from "./added-tokens.ts";
import { ByteMerger, longestCopied, RecentStrings } from "./byte-merger.ts";
import type { ByteTable, MergeTable } from "./byte-table.ts";
import { encodeInSteps } from "./encode-in-steps.ts";
import { type NormalForm, normalizeText, replaceLoneSurrogates, type SplitStep, splitText } from "./split-pattern.ts";
import { decodeUtf8, incompleteTail, Utf8Joiner } from "./utf8-decoder.ts";

// Caches of text and its ids. Words, because a conversation repeats them. And long stretches
// between added tokens: every episode of a run begins with the same guidelines and tools, and
// encoding those costs more than all its turns.

/** Longest word that is cached, in UTF-16 units. Longer pieces hardly repeat. */
const maxWordLength = longestCopied;
/** Words per generation. Measured: 5.9 MB of tasks, calls and results of τ-bench retail have 3,600 different ones. */
const wordGeneration = 16_384;
/**
 * Lengths of cached stretches: shorter ones are cheap, and hardly any occurs twice; longer texts
 * are documents, not prompts.
 */
const sectionLengths = { min: 512, max: 262_144 };
/** Room for guidelines and tools of a dozen environments, and for other text between them. */
const sectionGeneration = 64;

/** All data that decides ids. */
export type BpeDefinition = {
  /** All tokens, including added ones. */
  readonly tokens: ByteTable;
  readonly merges: MergeTable;
  /** True if a piece that is a token needs no merges. */
  readonly ignoreMerges: boolean;
  readonly normalForms: readonly NormalForm[];
  readonly steps: readonly SplitStep[];
  readonly addedTokens: readonly AddedToken[];
};

export class ByteLevelBpe implements Tokenizer {
  readonly name: string;
  readonly #definition: BpeDefinition;
  readonly #byteIds: Uint32Array;
  readonly #merger: ByteMerger;
  readonly #cutBeforeNormalizing: AddedTokenSplitter;
  readonly #cutAfterNormalizing: AddedTokenSplitter;
  readonly #addedIds: ReadonlyMap<string, number>;
  readonly #specialIds: ReadonlySet<number>;
  /** 1 for ids of control tokens. */
  readonly #isControl: Uint8Array;
  /** A bare number if a word is one id. */
  readonly #words = new RecentStrings<number | readonly number[]>(wordGeneration);
  readonly #sections = new RecentStrings<Uint32Array>(sectionGeneration);
  /** Text of each id; `null` if it ends inside a character. Filled when an id first occurs. */
  #texts: (string | null | undefined)[] = [];
  /** Buffer for the bytes of ids before they are decoded to text. */
  readonly #decoded = new Uint8Array(4096);
  #bytes = new Uint8Array(1024);
  #ids = new Uint32Array(1024);
  #count = 0;

  constructor(name: string, definition: BpeDefinition) {
    const { tokens, merges, addedTokens } = definition;
    this.name = name;
    this.#definition = definition;
    this.#byteIds = Uint32Array.from({ length: 256 }, (_, byte) => tokens.find(Uint8Array.of(byte), 0, 1));
    this.#merger = new ByteMerger(this.#byteIds, merges);
    this.#cutBeforeNormalizing = new AddedTokenSplitter(addedTokens.filter((token) => !token.normalized));
    this.#cutAfterNormalizing = new AddedTokenSplitter(
      addedTokens
        .filter((token) => token.normalized)
        .map((token) => ({ ...token, content: this.#normalize(token.content) })),
    );
    this.#addedIds = new Map(addedTokens.map((token) => [token.content, token.id]));
    this.#specialIds = specialTokenIds(addedTokens, (content) => this.#normalize(content));
    this.#isControl = new Uint8Array(tokens.size);
    for (const token of addedTokens) if (isControlToken(token)) this.#isControl[token.id] = 1;
  }

  get vocabularySize(): number {
    return this.#definition.tokens.size;
  }

  /** Lone surrogates are encoded as U+FFFD. */
  encode(text: string): Uint32Array {
    this.#count = 0;
    this.#cutBeforeNormalizing.split(replaceLoneSurrogates(text), { text: this.#takeRawText, token: this.#takeId });
    return this.#finish();
  }

  encodeLiteral(text: string, literal: readonly TextRange[]): LiteralEncoding {
    this.#count = 0;
    const scan = { ranges: literal, spelledTokens: 0 };
    const takeText = (part: string, start: number): void => this.#takePartlyLiteral(part, start, scan);
    this.#cutBeforeNormalizing.split(replaceLoneSurrogates(text), { text: takeText, token: this.#takeId }, scan);
    return { tokens: this.#finish(), spelledTokens: scan.spelledTokens };
  }

  encodeInSteps(text: string, literal: readonly TextRange[]): Steps<LiteralEncoding> {
    /** The scratch is free at the end of a step: others encode between two steps. */
    const written = (write: () => void): Uint32Array => {
      this.#count = 0;
      write();
      return this.#finish();
    };
    return encodeInSteps(replaceLoneSurrogates(text), literal, {
      cutBeforeNormalizing: this.#cutBeforeNormalizing,
      cutAfterNormalizing: this.#cutAfterNormalizing,
      normalize: (part) => this.#normalize(part),
      steps: this.#definition.steps,
      encodePart: (part, start, scan) => written(() => this.#takePartlyLiteral(part, start, scan)),
      encodeText: (part) => written(() => this.#takeText(part)),
      encodePieces: (pieces) => written(() => pieces.forEach(this.#takePiece)),
      encodeLongPiece: (piece) => this.#mergeInSteps(piece),
      spellOut: (ids) =>
        written(() => {
          for (const id of ids) this.#takeId(id);
          this.#spellOut(0);
        }),
    });
  }

  *#mergeInSteps(piece: string): Steps<Uint32Array> {
    const bytes = encoder.encode(piece);
    const whole = this.#definition.ignoreMerges ? this.#definition.tokens.find(bytes, 0, bytes.length) : -1;
    if (whole >= 0) return Uint32Array.of(whole);
    const ids = new Uint32Array(bytes.length);
    return ids.slice(0, yield* this.#merger.mergeInSteps(bytes, ids));
  }

  #finish(): Uint32Array {
    const ids = copyIds(this.#ids, this.#count);
    // The memory for one huge text must not be kept for ever.
    if (this.#ids.length > 2 ** 20) this.#ids = new Uint32Array(1024);
    return ids;
  }

  /** Ids that are not tokens decode to nothing. */
  decode(ids: ArrayLike<number>, options: { readonly skipSpecialTokens?: boolean } = {}): string {
    const { tokens } = this.#definition;
    const skipped = options.skipSpecialTokens === true ? this.#specialIds : null;
    let length = 0;
    for (let at = 0; at < ids.length; at++) length += tokens.lengthOf(ids[at] ?? 0);
    const bytes = length <= this.#decoded.length ? this.#decoded : new Uint8Array(length);
    let end = 0;
    for (let at = 0; at < ids.length; at++) {
      const id = ids[at] ?? 0;
      if (skipped === null || !skipped.has(id)) end = tokens.copyTo(id, bytes, end);
    }
    return decodeUtf8(bytes.subarray(0, end));
  }

  tokenId(text: string): number | null {
    const added = this.#addedIds.get(text);
    if (added !== undefined) return added;
    const id = this.#definition.tokens.find(this.#bytes, 0, this.#writeUtf8(text));
    return id < 0 ? null : id;
  }

  isSpecial(id: number): boolean {
    return this.#specialIds.has(id);
  }

  startDecoding(): IncrementalDecoder {
    const { tokens } = this.#definition;
    // Allocated whole: growing it by one late id would turn it into a slow dictionary.
    if (this.#texts.length === 0) this.#texts = Array.from({ length: tokens.size });
    const joiner = new Utf8Joiner();
    return {
      push: (id) => {
        const text = joiner.isClean ? this.#textOf(id) : null;
        return text ?? joiner.push(tokens.lengthOf(id), (target, offset) => tokens.copyTo(id, target, offset));
      },
      finish: () => joiner.finish(),
    };
  }

  #textOf(id: number): string | null {
    const known = this.#texts[id];
    if (known !== undefined) return known;
    const bytes = this.#bytesOf(id);
    const text = incompleteTail(bytes, bytes.length) === 0 ? decodeUtf8(bytes) : null;
    if (this.#definition.tokens.has(id)) this.#texts[id] = text;
    return text;
  }

  #bytesOf(id: number): Uint8Array {
    const { tokens } = this.#definition;
    const bytes = new Uint8Array(tokens.lengthOf(id));
    tokens.copyTo(id, bytes, 0);
    return bytes;
  }

  readonly #takeId = (id: number): void => {
    this.#reserve(1);
    this.#ids[this.#count++] = id;
  };

  readonly #takeRawText = (text: string): void => {
    const isSection = text.length >= sectionLengths.min && text.length <= sectionLengths.max;
    const known = isSection ? this.#sections.get(text) : undefined;
    if (known !== undefined) {
      this.#reserve(known.length);
      this.#ids.set(known, this.#count);
      this.#count += known.length;
      return;
    }
    const start = this.#count;
    this.#cutAfterNormalizing.split(this.#normalize(text), { text: this.#takeText, token: this.#takeId });
    if (isSection) this.#sections.set(text, this.#ids.slice(start, this.#count));
  };

  #takePartlyLiteral(text: string, start: number, scan: LiteralScan): void {
    const ranges = rangesWithin(scan.ranges, start, text.length);
    const takeLiteral = (part: string, take: (part: string) => void): void => {
      const from = this.#count;
      take(part);
      this.#spellOut(from);
    };
    if (ranges.length === 0) {
      this.#takeRawText(text);
    } else if (this.#cutAfterNormalizing.isEmpty) {
      takeLiteral(text, this.#takeRawText);
    } else {
      const normalized = this.#normalize(text);
      const places = normalized === text ? ranges : normalizedRanges(text, ranges, (part) => this.#normalize(part));
      const inner = { ranges: places, spelledTokens: 0 };
      const takeText = (part: string): void => takeLiteral(part, this.#takeText);
      this.#cutAfterNormalizing.split(normalized, { text: takeText, token: this.#takeId }, inner);
      scan.spelledTokens += inner.spelledTokens;
    }
  }

  /**
   * Writes control tokens that resulted from merges as their bytes, because no added token may be
   * recognised there.
   */
  #spellOut(from: number): void {
    const isControl = this.#isControl;
    let at = from;
    while (at < this.#count && isControl[this.#ids[at]!] === 0) at++;
    if (at === this.#count) return;
    const ids = this.#ids.slice(at, this.#count);
    this.#count = at;
    for (const id of ids) {
      if (isControl[id] === 0) this.#takeId(id);
      else for (const byte of this.#bytesOf(id)) this.#takeId(this.#byteIds[byte]!);
    }
  }

  readonly #takeText = (text: string): void => {
    splitText(text, this.#definition.steps, this.#takePiece);
  };

  readonly #takePiece = (piece: string): void => {
    const known = this.#words.get(piece);
    if (typeof known === "number") {
      this.#takeId(known);
    } else if (known !== undefined) {
      this.#reserve(known.length);
      for (const id of known) this.#ids[this.#count++] = id;
    } else {
      this.#mergePiece(piece);
    }
  };

  #mergePiece(piece: string): void {
    const length = this.#writeUtf8(piece);
    const whole = this.#definition.ignoreMerges ? this.#definition.tokens.find(this.#bytes, 0, length) : -1;
    const start = this.#count;
    this.#reserve(length);
    if (whole >= 0) this.#ids[this.#count++] = whole;
    else this.#count += this.#merger.merge(this.#bytes, length, this.#ids.subarray(start));
    if (piece.length <= maxWordLength) {
      const isOne = this.#count === start + 1;
      this.#words.set(piece, isOne ? this.#ids[start]! : Array.from(this.#ids.subarray(start, this.#count)));
    }
    if (this.#bytes.length > 2 ** 20) this.#bytes = new Uint8Array(1024);
  }

  #normalize(text: string): string {
    return normalizeText(text, this.#definition.normalForms);
  }

  /** Fills the scratch bytes; returns their number. */
  #writeUtf8(text: string): number {
    if (this.#bytes.length < text.length * 3) this.#bytes = new Uint8Array(text.length * 3);
    return writeUtf8(text, this.#bytes);
  }

  #reserve(count: number): void {
    if (this.#count + count <= this.#ids.length) return;
    const grown = new Uint32Array(Math.max(this.#ids.length * 2, this.#count + count));
    grown.set(this.#ids.subarray(0, this.#count));
    this.#ids = grown;
  }
}

const encoder = new TextEncoder();

function writeUtf8(text: string, target: Uint8Array): number {
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit > 0x7f) return encoder.encodeInto(text, target).written;
    target[at] = unit;
  }
  return text.length;
}
