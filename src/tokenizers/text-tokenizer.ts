// Every kind of tokenizer.json apart from plain byte-level BPE, which has code of its own:
// SentencePiece-like BPE with byte fallback (Llama 2, Mistral, Gemma), Unigram (llm-jp, Sarashina),
// WordPiece, and byte-level BPE with unusual parts. Token for token equal to Hugging Face
// tokenizers, without its post-processing and truncation. Anything that is not proven is refused.

import type { IncrementalDecoder, LiteralEncoding, TextRange, Tokenizer } from "../core/index.ts";
import {
  AddedTokenSplitter,
  isControlToken,
  type LiteralScan,
  normalizedRanges,
  rangesWithin,
  specialTokenIds,
} from "./added-tokens.ts";
import { readDecoder, type TokenDecoder } from "./decoders.ts";
import { readNormalizer } from "./normalizers.ts";
import { type PreTokenizer, readPreTokenizer } from "./pre-tokenizers.ts";
import { readAddedTokens, type TextModel } from "./read-vocabulary.ts";
import { RecentStrings } from "./byte-merger.ts";
import { replaceLoneSurrogates } from "./split-pattern.ts";
import { readModel } from "./text-models.ts";
import { TokenizerJson } from "./tokenizer-json.ts";

/** Number of pieces cached, in each of two generations. */
const pieceGeneration = 16_384;
/** Longest piece that is cached, in UTF-16 units; longer ones hardly repeat. */
const longestRemembered = 64;

/**
 * Reads a parsed tokenizer.json. Throws an `UnsupportedPart` for anything that is not proven, and a
 * `ConfigurationError` that names `source` and the field for a file that is broken.
 */
export function readTextTokenizer(name: string, parsed: unknown, source: string): Tokenizer {
  const json = new TokenizerJson(source);
  const root = json.object(parsed, "its content");
  const normalizer = readNormalizer(root["normalizer"], json);
  const preTokenizer = readPreTokenizer(root["pre_tokenizer"], json);
  const makeDecoder = readDecoder(root["decoder"], json);
  const model = readModel(json.object(root["model"], "model"), json);
  const addedTokens = readAddedTokens(root["added_tokens"], model.vocabulary, json);
  return new TextTokenizer(name, { normalizer, preTokenizer, makeDecoder, model, addedTokens });
}

type Parts = {
  readonly normalizer: ReturnType<typeof readNormalizer>;
  readonly preTokenizer: PreTokenizer;
  readonly makeDecoder: () => TokenDecoder;
  readonly model: TextModel;
  readonly addedTokens: ReturnType<typeof readAddedTokens>;
};

/** A part of a text between added tokens that are not normalized. */
type Section = { readonly start: number; readonly scan: LiteralScan; readonly ids: number[] };

class TextTokenizer implements Tokenizer {
  readonly name: string;
  readonly vocabularySize: number;
  readonly #parts: Parts;
  readonly #names = new Map<number, string>();
  readonly #addedIds: ReadonlyMap<string, number>;
  readonly #specialIds: ReadonlySet<number>;
  readonly #controlIds: ReadonlySet<number>;
  readonly #cutBeforeNormalizing: AddedTokenSplitter;
  readonly #cutAfterNormalizing: AddedTokenSplitter;
  readonly #pieces = new RecentStrings<readonly number[]>(pieceGeneration);

  constructor(name: string, parts: Parts) {
    const { addedTokens, model } = parts;
    this.name = name;
    this.#parts = parts;
    model.vocabulary.names.forEach((text, index) => this.#names.set(model.vocabulary.ids[index]!, text));
    for (const { id, content, normalized } of addedTokens) {
      // A token that is searched in normalized text also decodes as normalized text.
      this.#names.set(id, normalized ? this.#normalize(content) : content);
    }
    let largest = -1;
    for (const id of this.#names.keys()) largest = Math.max(largest, id);
    this.vocabularySize = largest + 1;
    this.#addedIds = new Map(addedTokens.map(({ id, content }) => [content, id]));
    this.#specialIds = specialTokenIds(addedTokens, (content) => this.#normalize(content));
    this.#controlIds = new Set(addedTokens.filter(isControlToken).map(({ id }) => id));
    this.#cutBeforeNormalizing = new AddedTokenSplitter(addedTokens.filter(({ normalized }) => !normalized));
    this.#cutAfterNormalizing = new AddedTokenSplitter(
      addedTokens
        .filter(({ normalized }) => normalized)
        .map((token) => ({ ...token, content: this.#normalize(token.content) }))
        .filter(({ content }) => content !== ""),
    );
  }

  /** Lone surrogates are encoded as U+FFFD. */
  encode(text: string): Uint32Array {
    return this.encodeLiteral(text, []).tokens;
  }

  encodeLiteral(text: string, literal: readonly TextRange[]): LiteralEncoding {
    const scan = { ranges: literal, spelledTokens: 0 };
    const ids: number[] = [];
    const takeText = (part: string, start: number): void => this.#takeText(part, { start, scan, ids });
    const take = { text: takeText, token: (id: number) => void ids.push(id) };
    this.#cutBeforeNormalizing.split(replaceLoneSurrogates(text), take, scan);
    return { tokens: Uint32Array.from(ids), spelledTokens: scan.spelledTokens };
  }

  #normalize(text: string): string {
    return this.#parts.normalizer?.normalize(text) ?? text;
  }

  #takeText(text: string, { start, scan, ids }: Section): void {
    const ranges = rangesWithin(scan.ranges, start, text.length);
    const normalize = (part: string): string => this.#normalize(part);
    const inner = { ranges: normalizedRanges(text, ranges, normalize), spelledTokens: 0 };
    const startsWhole = start === 0 && this.#keepsFirst(text);
    const takeText = (part: string, place: number): void => {
      const isFirst = startsWhole && place === 0;
      for (const piece of this.#parts.preTokenizer.split({ text: part, isFirst })) {
        for (const id of this.#encodePiece(piece.text)) {
          if (ranges.length > 0 && this.#controlIds.has(id)) ids.push(...this.#spellOut(id));
          else ids.push(id);
        }
      }
    };
    this.#cutAfterNormalizing.split(normalize(text), { text: takeText, token: (id) => void ids.push(id) }, inner);
    scan.spelledTokens += inner.spelledTokens;
  }

  /**
   * True if the first character of a text is left after normalizing; called only where pieces
   * depend on it.
   */
  #keepsFirst(text: string): boolean {
    const { normalizer, preTokenizer } = this.#parts;
    if (normalizer === null || !normalizer.removesText || !preTokenizer.looksAtFirst) return true;
    const first = String.fromCodePoint(text.codePointAt(0) ?? 0);
    return normalizer.normalize(`${first}x`) !== normalizer.normalize("x");
  }

  #encodePiece(piece: string): readonly number[] {
    const known = this.#pieces.get(piece);
    if (known !== undefined) return known;
    const ids: number[] = [];
    if (piece !== "") this.#parts.model.encode(piece, ids);
    if (piece.length <= longestRemembered) this.#pieces.set(piece, ids);
    return ids;
  }

  /**
   * Encodes a control token as the text of its spelling: Unigram vocabularies list control tokens
   * among their pieces, and prefer them.
   */
  #spellOut(id: number): readonly number[] {
    const { model } = this.#parts;
    if (id === model.unknownId) return [id];
    return Array.from(this.#names.get(id) ?? "").flatMap((character) => {
      const ids: number[] = [];
      model.encode(character, ids);
      return ids;
    });
  }

  /** Ids that are not tokens decode to nothing. */
  decode(ids: ArrayLike<number>, options: { readonly skipSpecialTokens?: boolean } = {}): string {
    const decoder = this.#parts.makeDecoder();
    let text = "";
    for (let at = 0; at < ids.length; at++) {
      const id = ids[at]!;
      const token = options.skipSpecialTokens === true && this.isSpecial(id) ? undefined : this.#names.get(id);
      if (token !== undefined) text += decoder.push(token);
    }
    return text + decoder.finish();
  }

  tokenId(text: string): number | null {
    return this.#addedIds.get(text) ?? this.#parts.model.vocabulary.idOf(text);
  }

  isSpecial(id: number): boolean {
    return this.#specialIds.has(id);
  }

  startDecoding(): IncrementalDecoder {
    const decoder = this.#parts.makeDecoder();
    return {
      push: (id) => {
        const token = this.#names.get(id);
        return token === undefined ? "" : decoder.push(token);
      },
      finish: () => decoder.finish(),
    };
  }
}
