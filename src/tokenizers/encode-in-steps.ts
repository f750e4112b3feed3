// Encodes a long text in steps: the same cuts, pieces and merges as at once, with pauses between
// them. Not a tokenizer: the given tokenizer handles short text.

import type { LiteralEncoding, TextRange } from "../core/index.ts";
import { copyIds, joinIds } from "../lib/bytes.ts";
import { type Steps, stepItems } from "../lib/steps.ts";
import { type AddedTokenSplitter, type LiteralScan, normalizedRanges, rangesWithin, uncut } from "./added-tokens.ts";
import { longText, type SplitStep, splitInSteps } from "./split-pattern.ts";

/**
 * Parts of a tokenizer that work without pauses. Texts and pieces are at most as long as {@link
 * longText} says.
 */
export type EncodingParts = {
  readonly cutBeforeNormalizing: AddedTokenSplitter;
  readonly cutAfterNormalizing: AddedTokenSplitter;
  readonly normalize: (text: string) => string;
  readonly steps: readonly SplitStep[];
  /** Encodes a text between added tokens that are not normalized; `start` is its place. */
  readonly encodePart: (part: string, start: number, scan: LiteralScan) => Uint32Array;
  /** Encodes a normalized text between all added tokens. */
  readonly encodeText: (text: string) => Uint32Array;
  readonly encodePieces: (pieces: readonly string[]) => Uint32Array;
  /** Encodes a longer piece. */
  readonly encodeLongPiece: (piece: string) => Steps<Uint32Array>;
  /** The same ids, with control tokens as their bytes. */
  readonly spellOut: (ids: Uint32Array) => Uint32Array;
};

type Take = (ids: Uint32Array) => void;

export function* encodeInSteps(
  text: string,
  literal: readonly TextRange[],
  parts: EncodingParts,
): Steps<LiteralEncoding> {
  const scan = { ranges: literal, spelledTokens: 0 };
  const encoded: Uint32Array[] = [];
  const take: Take = (ids) => void encoded.push(ids);
  yield* cutInSteps(text, parts.cutBeforeNormalizing, scan, {
    token: take,
    short: (part, start) => take(parts.encodePart(part, start, scan)),
    long: (part, start) => encodePartInSteps(part, { start, scan, parts, take }),
  });
  return { tokens: joinIds(encoded), spelledTokens: scan.spelledTokens };
}

type CutTakers = {
  readonly token: Take;
  readonly short: (part: string, start: number) => void;
  readonly long: (part: string, start: number) => Steps<void>;
};

/** Cuts a text at added tokens, a few at a time. */
function* cutInSteps(
  text: string,
  splitter: AddedTokenSplitter,
  literal: LiteralScan | null,
  take: CutTakers,
): Steps<void> {
  const progress = uncut();
  for (let isEnded = false; !isEnded;) {
    const cuts: (number | { readonly part: string; readonly start: number })[] = [];
    const note = {
      text: (part: string, start: number) => void cuts.push({ part, start }),
      token: (id: number) => void cuts.push(id),
    };
    isEnded = splitter.splitSome(text, note, { literal, progress, mostMatches: stepItems });
    let length = 0;
    for (const cut of cuts) {
      if (typeof cut === "number") take.token(copyIds([cut]));
      else if (cut.part.length > longText) yield* take.long(cut.part, cut.start);
      else {
        take.short(cut.part, cut.start);
        length += cut.part.length;
      }
      if (length > longText) {
        yield;
        length = 0;
      }
    }
    yield;
  }
}

/** Encodes a long text between added tokens that are not normalized. */
function* encodePartInSteps(
  text: string,
  options: { readonly start: number; readonly scan: LiteralScan; readonly parts: EncodingParts; readonly take: Take },
): Steps<void> {
  const { start, scan, parts } = options;
  const ranges = rangesWithin(scan.ranges, start, text.length);
  const isLiteral = ranges.length > 0;
  const take: Take = (ids) => options.take(isLiteral ? parts.spellOut(ids) : ids);
  const normalized = parts.normalize(text);
  const places = normalized === text ? ranges : normalizedRanges(text, ranges, parts.normalize);
  const inner = isLiteral ? { ranges: places, spelledTokens: 0 } : null;
  yield* cutInSteps(normalized, parts.cutAfterNormalizing, inner, {
    token: options.take,
    short: (part) => take(parts.encodeText(part)),
    long: (part) =>
      splitInSteps(part, parts.steps, {
        short: (pieces) => take(parts.encodePieces(pieces)),
        *long(piece) {
          take(yield* parts.encodeLongPiece(piece));
        },
      }),
  });
  scan.spelledTokens += inner?.spelledTokens ?? 0;
}
