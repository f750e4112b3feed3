// What streaming and repair know about a format beyond its strict reading. Not needed to read finished text: a format with
// no hints is read as well, but its words are streamed too eagerly and little of it is repaired.

export type FormatHints = {
  /** From the first of these on, text may turn out not to be words; streaming shows no more of it until the end. */
  readonly wordsEnd: readonly string[];
  /** The same, but only where it begins the text. */
  readonly wordsEndAtStart: readonly string[];
  /** Behind each of these a call may be complete: streaming looks for calls there. Empty: calls come at the end. */
  readonly callEnds: readonly string[];
  /** What a call consists of, outermost first: repair adds what is missing at the end of the text. */
  readonly nesting: readonly (readonly [opening: string, closing: string])[];
  /** Puts tags where strict reading wants them; `null` for formats that do not mind. */
  readonly straighten: ((text: string) => string) | null;
};

/** Hints of a format; what is left out is empty. */
export function formatHints(hints: Partial<FormatHints>): FormatHints {
  return { wordsEnd: [], wordsEndAtStart: [], callEnds: [], nesting: [], straighten: null, ...hints };
}
