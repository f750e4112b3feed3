// Python's `str` as used in templates: text that tracks the origin of each piece. The origins
// follow concatenation, slicing and replacement; they never change the text. Offsets are UTF-16
// units; code that counts characters like Python converts them first (`strings.ts`).

/**
 * Origin of a piece of text: the template, a message (`message` is its index), a tool's definition,
 * or "unknown": computed from messages or tools in a way that is not tracked.
 */
export type Origin = {
  readonly source: "template" | "message" | "tools" | "unknown";
  readonly message: number | null;
};

/** A number of UTF-16 units of one origin. */
export type Run = { readonly origin: Origin; readonly length: number };

/** A literal of the template, or a variable other than messages and tools. */
export const templateOrigin: Origin = Object.freeze({ source: "template", message: null });
/**
 * Data of unknown origin: computed from messages in a way that is not tracked. Never attributed to
 * the template.
 */
export const unknownOrigin: Origin = Object.freeze({ source: "unknown", message: null });
export const toolsOrigin: Origin = Object.freeze({ source: "tools", message: null });

/** Number of repetitions beyond which origins would need more memory than the text. */
const maxRepeatedRuns = 1000;

export class TracedText {
  readonly text: string;
  /** The origin of the whole text, or runs that cover it; adjacent runs differ. */
  readonly origins: Origin | readonly Run[];
  /**
   * True for Python's Markup, created by the filters `escape` and `safe`: it escapes the text that
   * it is joined with.
   */
  readonly isMarkup: boolean;

  constructor(text: string, origins: Origin | readonly Run[] = templateOrigin, isMarkup = false) {
    this.text = text;
    this.origins = origins;
    this.isMarkup = isMarkup;
  }

  /** The piece `[start, end)`, in UTF-16 units. */
  slice(start: number, end: number = this.text.length): TracedText {
    const text = this.text.slice(start, end);
    if (!isRuns(this.origins)) return new TracedText(text, this.origins, this.isMarkup);
    return new TracedText(text, sliceRuns(this.origins, start, end), this.isMarkup);
  }

  /**
   * Derived text of the same origin, such as its upper case. Mixed origins are kept only if the
   * length does not change.
   */
  with(text: string): TracedText {
    const isFollowed = !isRuns(this.origins) || text.length === this.text.length;
    return new TracedText(text, isFollowed ? this.origins : unknownOrigin, this.isMarkup);
  }

  get typeName(): string {
    return this.isMarkup ? "Markup" : "str";
  }

  asMarkup(isMarkup: boolean): TracedText {
    return this.isMarkup === isMarkup ? this : new TracedText(this.text, this.origins, isMarkup);
  }
}

export const emptyText = new TracedText("", templateOrigin);

/** A literal of the template, or text created by the engine itself. */
export function templateText(text: string): TracedText {
  return text === "" ? emptyText : new TracedText(text, templateOrigin);
}

export function concatStrings(parts: readonly TracedText[]): TracedText {
  if (parts.length === 1) return parts[0]!;
  let text = "";
  const runs: Run[] = [];
  for (const part of parts) {
    if (part.text === "") continue;
    text += part.text;
    for (const run of runsOf(part)) pushRun(runs, run);
  }
  if (runs.length === 0) return emptyText;
  return new TracedText(text, runs.length === 1 ? runs[0]!.origin : runs);
}

/** The text repeated. A long repetition of a text with several origins gets an unknown one. */
export function repeatText(text: TracedText, count: number): TracedText {
  const runs = runsOf(text);
  if (count <= 0 || runs.length === 0) return new TracedText("", templateOrigin, text.isMarkup);
  if (runs.length === 1) return new TracedText(text.text.repeat(count), runs[0]!.origin, text.isMarkup);
  if (count > maxRepeatedRuns) return new TracedText(text.text.repeat(count), unknownOrigin, text.isMarkup);
  return concatStrings(Array.from({ length: count }, () => text)).asMarkup(text.isMarkup);
}

export function runsOf(text: TracedText): readonly Run[] {
  if (isRuns(text.origins)) return text.origins;
  return text.text === "" ? [] : [{ origin: text.origins, length: text.text.length }];
}

/** The single origin of a text, or "unknown" for a mixed one. */
export function originOf(text: TracedText): Origin {
  return isRuns(text.origins) ? unknownOrigin : text.origins;
}

/** Appends a run, merging it with the previous one if both have the same origin. */
export function pushRun(runs: Run[], run: Run): void {
  const last = runs.at(-1);
  if (last !== undefined && last.origin === run.origin) {
    runs[runs.length - 1] = { origin: run.origin, length: last.length + run.length };
  } else if (run.length > 0) {
    runs.push(run);
  }
}

function isRuns(origins: Origin | readonly Run[]): origins is readonly Run[] {
  return Array.isArray(origins);
}

function sliceRuns(runs: readonly Run[], start: number, end: number): Origin | readonly Run[] {
  const inside: Run[] = [];
  let offset = 0;
  for (const { origin, length } of runs) {
    const from = Math.max(start, offset);
    const to = Math.min(end, offset + length);
    if (to > from) inside.push({ origin, length: to - from });
    offset += length;
  }
  return inside.length === 1 ? inside[0]!.origin : inside.length === 0 ? templateOrigin : inside;
}

/** HTML escaping like Jinja's markupsafe; chat templates use it only through the filter `escape`. */
const replacements: ReadonlyMap<string, string> = new Map([
  ["&", "&amp;"],
  [">", "&gt;"],
  ["<", "&lt;"],
  ["'", "&#39;"],
  ['"', "&#34;"],
]);

/** The text as Markup, with its HTML characters escaped; Markup is unchanged. */
export function escapeText(text: TracedText): TracedText {
  if (text.isMarkup || !/[&<>'"]/.test(text.text)) return text.asMarkup(true);
  let offset = 0;
  const parts = Array.from(text.text, (character) => {
    const piece = text.slice(offset, (offset += character.length));
    const replacement = replacements.get(character);
    return replacement === undefined ? piece : new TracedText(replacement, piece.origins);
  });
  return concatStrings(parts).asMarkup(true);
}
