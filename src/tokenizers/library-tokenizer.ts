// Every other kind of tokenizer (SentencePiece-like BPE, Unigram, WordPiece, ...) through the library. The only file that
// imports it. Slower than our own code and without a decoder for streams, so that one is made here from whole decodes.

import * as library from "@huggingface/tokenizers";
import { z } from "zod";

import {
  ConfigurationError,
  type IncrementalDecoder,
  type LiteralEncoding,
  type TextRange,
  type Tokenizer,
} from "../core/index.ts";
import {
  type AddedToken,
  AddedTokenSplitter,
  isControlToken,
  type LiteralScan,
  normalizedRanges,
  rangesWithin,
} from "./added-tokens.ts";
import { largestId } from "./read-bpe.ts";
import { decodeUtf8 } from "./utf8-decoder.ts";

/** What is used of the library's class. Its own declarations do not resolve under Node's module rules. */
type LibraryModel = {
  encode(text: string, options: { readonly add_special_tokens: boolean }): { readonly ids: readonly number[] };
  decode(ids: readonly number[], options: { readonly clean_up_tokenization_spaces: boolean }): string;
  token_to_id(token: string): number | undefined;
  id_to_token(id: number): string | undefined;
  get_added_tokens_decoder(): ReadonlyMap<number, LibraryAddedToken>;
  get_vocab(withAddedTokens: boolean): ReadonlyMap<string, number>;
  readonly normalizer: ((text: string) => string) | null;
  readonly pre_tokenizer: ((text: string, options: { readonly section_index: number }) => readonly string[]) | null;
  readonly model: ((pieces: readonly string[]) => readonly string[]) & {
    readonly tokens_to_ids: ReadonlyMap<string, number>;
    readonly unk_token_id?: number;
  };
};

type LibraryAddedToken = {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
  readonly single_word: boolean;
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  readonly normalized: boolean;
};

const { Tokenizer: Model } = library as unknown as {
  readonly Tokenizer: new (tokenizerJson: object, tokenizerConfig: object) => LibraryModel;
};

/**
 * Wraps the library. Throws a `ConfigurationError` that names `source` when the library cannot read the definition.
 *
 * `because` says why our own code did not take it.
 */
export function createLibraryTokenizer(
  name: string,
  definition: { readonly tokenizerJson: object; readonly tokenizerConfig: object },
  options: { readonly source: string; readonly because: string },
): Tokenizer {
  try {
    const loose = definition.tokenizerJson as LooseDefinition;
    checkDefinition(loose);
    const model = new Model(definition.tokenizerJson, definition.tokenizerConfig);
    const tokenizer = new LibraryTokenizer(name, model, readByteFallbackDecoder(loose.decoder));
    tokenizer.encode("a b");
    return tokenizer;
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new ConfigurationError(
      `Cannot read tokenizer "${options.source}": it is not byte-level BPE (${options.because}), and the tokenizer library ` +
        `refuses it (${problem}); give the tokenizer.json that Hugging Face tokenizers wrote for the model.`,
      { cause: error },
    );
  }
}

type LooseDefinition = {
  readonly model?: { readonly type?: unknown; readonly vocab?: object } | null;
  readonly added_tokens?: unknown;
  readonly decoder?: unknown;
};

function checkDefinition({ model, added_tokens: added }: LooseDefinition): void {
  // The library takes a type it does not know for whatever the fields look like; files from before 2021 name none.
  const type = model?.type;
  if (typeof type === "string" && !["BPE", "Unigram", "WordPiece"].includes(type)) {
    throw new Error(`there is no model type "${type}"`);
  }
  // The library walks all ids up to the largest.
  const vocab: readonly unknown[] = Array.isArray(model?.vocab) ? [] : Object.values(model?.vocab ?? {});
  const entries: readonly unknown[] = Array.isArray(added) ? added : [];
  for (const id of [...vocab, ...entries.map((entry) => (entry as { readonly id?: unknown } | null)?.id)]) {
    if (typeof id === "number" && !(Number.isInteger(id) && id >= 0 && id <= largestId)) {
      throw new Error(`there is a token with the id ${id}, an integer from 0 to ${largestId} expected`);
    }
  }
}

class LibraryTokenizer implements Tokenizer {
  readonly name: string;
  readonly vocabularySize: number;
  readonly #model: LibraryModel;
  readonly #specialIds: ReadonlySet<number>;
  readonly #controlIds: ReadonlySet<number>;
  readonly #cutBeforeNormalizing: AddedTokenSplitter;
  readonly #cutAfterNormalizing: AddedTokenSplitter;
  /** `null`: the library decodes. */
  readonly #decodeTokens: ByteFallbackDecoder | null;

  constructor(name: string, model: LibraryModel, decodeTokens: ByteFallbackDecoder | null) {
    this.name = name;
    this.#model = model;
    this.#decodeTokens = decodeTokens;
    let largest = -1;
    for (const id of model.get_vocab(true).values()) largest = Math.max(largest, id);
    this.vocabularySize = largest + 1;
    const added = [...model.get_added_tokens_decoder().values()];
    this.#specialIds = new Set(added.filter(({ special }) => special).map(({ id }) => id));
    this.#controlIds = new Set(added.filter(isControlToken).map(({ id }) => id));
    const { normalizer } = model;
    // The library looks for every token in the text as it is where nothing normalizes.
    const isLate = (token: LibraryAddedToken): boolean => normalizer !== null && token.normalized;
    this.#cutBeforeNormalizing = new AddedTokenSplitter(added.filter((token) => !isLate(token)).map(toAddedToken));
    this.#cutAfterNormalizing = new AddedTokenSplitter(
      added.filter(isLate).map((token) => ({ ...toAddedToken(token), content: normalizer!(token.content) })),
    );
  }

  encode(text: string): Uint32Array {
    return Uint32Array.from(this.#model.encode(text, { add_special_tokens: false }).ids);
  }

  /** By the steps of the library's own encoding, which knows no literal text. */
  encodeLiteral(text: string, literal: readonly TextRange[]): LiteralEncoding {
    const scan = { ranges: literal, spelledTokens: 0 };
    const ids: number[] = [];
    let sections = 0;
    const takeToken = (id: number): void => {
      sections++;
      ids.push(id);
    };
    const takeText = (part: string, start: number): void =>
      this.#takeText(part, { start, section: sections++, scan, ids });
    this.#cutBeforeNormalizing.split(text, { text: takeText, token: takeToken }, scan);
    return { tokens: Uint32Array.from(ids), spelledTokens: scan.spelledTokens };
  }

  #takeText(text: string, { start, section, scan, ids }: LiteralSection): void {
    const ranges = rangesWithin(scan.ranges, start, text.length);
    const normalize = (part: string): string => this.#model.normalizer?.(part) ?? part;
    const inner = { ranges: normalizedRanges(text, ranges, normalize), spelledTokens: 0 };
    const takeText = (part: string): void => {
      for (const id of this.#merge(part, section)) {
        if (ranges.length > 0 && this.#controlIds.has(id)) ids.push(...this.#spellOut(id));
        else ids.push(id);
      }
    };
    this.#cutAfterNormalizing.split(normalize(text), { text: takeText, token: (id) => void ids.push(id) }, inner);
    scan.spelledTokens += inner.spelledTokens;
  }

  /** Unigram vocabularies list control tokens among their pieces, and prefer them. */
  #spellOut(id: number): readonly number[] {
    const { model } = this.#model;
    if (id === model.unk_token_id) return [id];
    return Array.from(this.#model.id_to_token(id) ?? "").flatMap((character) => this.#idsOf(model([character])));
  }

  #merge(text: string, section: number): readonly number[] {
    const { model, pre_tokenizer: cut } = this.#model;
    return this.#idsOf(model(cut === null ? [text] : cut(text, { section_index: section })));
  }

  #idsOf(tokens: readonly string[]): readonly number[] {
    const { tokens_to_ids: ids, unk_token_id: unknown } = this.#model.model;
    return tokens.flatMap((token) => ids.get(token) ?? unknown ?? []);
  }

  decode(ids: ArrayLike<number>, options: { readonly skipSpecialTokens?: boolean } = {}): string {
    const known = Array.from(ids).filter(
      (id) => this.#model.id_to_token(id) !== undefined && !(options.skipSpecialTokens === true && this.isSpecial(id)),
    );
    if (this.#decodeTokens !== null) return this.#decodeTokens(known.map((id) => this.#model.id_to_token(id) ?? ""));
    // The library refuses an empty list.
    if (known.length === 0) return "";
    return this.#model.decode(known, { clean_up_tokenization_spaces: false });
  }

  tokenId(text: string): number | null {
    return this.#model.token_to_id(text) ?? null;
  }

  isSpecial(id: number): boolean {
    return this.#specialIds.has(id);
  }

  startDecoding(): IncrementalDecoder {
    return new WindowDecoder((ids) => this.decode(ids));
  }
}

type LiteralSection = {
  readonly start: number;
  /** Place among the parts that added tokens cut the text into; some pre-tokenizers treat the first one differently. */
  readonly section: number;
  readonly scan: LiteralScan;
  readonly ids: number[];
};

function toAddedToken(token: LibraryAddedToken): AddedToken {
  const { id, content, special, lstrip, rstrip, normalized } = token;
  return { id, content, special, lstrip, rstrip, normalized, singleWord: false };
}

/** Tokens kept as context, because some decoders drop the space of the first token. */
const contextTokens = 4;

/** Decodes the last few tokens with and without the new one, and puts out the difference. */
class WindowDecoder implements IncrementalDecoder {
  readonly #decode: (ids: readonly number[]) => string;
  #ids: number[] = [];
  /** How many of `#ids` are put out already. */
  #done = 0;

  constructor(decode: (ids: readonly number[]) => string) {
    this.#decode = decode;
  }

  push(id: number): string {
    this.#ids.push(id);
    const whole = this.#decode(this.#ids);
    // A replacement character at the end may still become a character.
    return whole.endsWith("\ufffd") ? "" : this.#advance(whole);
  }

  finish(): string {
    return this.#advance(this.#decode(this.#ids));
  }

  #advance(whole: string): string {
    const before = this.#decode(this.#ids.slice(0, this.#done));
    this.#ids = this.#ids.slice(-contextTokens);
    this.#done = this.#ids.length;
    return whole.slice(before.length);
  }
}

type ByteFallbackDecoder = (tokens: readonly string[]) => string;

/** The parts of a decoder that is run here: replacements, bytes, all as one text, and perhaps white space taken from its start. */
const byteFallbackChain = z.object({
  decoders: z.array(
    z.discriminatedUnion("type", [
      z.object({ type: z.literal("Replace"), pattern: z.object({ String: z.string() }), content: z.string() }),
      z.object({ type: z.literal("ByteFallback") }),
      z.object({ type: z.literal("Fuse") }),
      z.object({ type: z.literal("Strip"), content: z.string(), start: z.number(), stop: z.literal(0) }),
    ]),
  ),
});

/** `null` when the decoder in a tokenizer.json is another chain than Replace, ByteFallback, Fuse and perhaps Strip. */
export function readByteFallbackDecoder(decoder: unknown): ByteFallbackDecoder | null {
  const steps = byteFallbackChain.safeParse(decoder).data?.decoders ?? [];
  const types = steps.map(({ type }) => type);
  const [fallback, fuse] = [types.indexOf("ByteFallback"), types.indexOf("Fuse")];
  const isStripEarly = types.includes("Strip") && types.indexOf("Strip") < fuse;
  if (fallback === -1 || fuse === -1 || types.lastIndexOf("Replace") > fallback || isStripEarly) return null;
  const replacements = steps.filter((step) => step.type === "Replace");
  const { content, start } = steps.findLast((step) => step.type === "Strip") ?? { content: "", start: 0 };
  return (tokens) => {
    let text = "";
    let bytes: number[] = [];
    const flush = (): void => {
      text += decodeUtf8(Uint8Array.from(bytes));
      bytes = [];
    };
    for (const token of tokens) {
      const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(token)?.[1];
      if (byte !== undefined) bytes.push(Number.parseInt(byte, 16));
      else {
        flush();
        text += replacements.reduce((made, step) => made.replaceAll(step.pattern.String, () => step.content), token);
      }
    }
    flush();
    if (content === "") return text;
    let at = 0;
    for (let times = 0; times < start && text.startsWith(content, at); times++) at += content.length;
    return text.slice(at);
  };
}
