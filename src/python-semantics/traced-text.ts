// Python's `str` as templates compute with it: text that knows, piece by piece, where it came from. The origins ride along
// with concatenation, slicing and replacement; they never change what the text is. Offsets are UTF-16 units; whatever counts
// characters as Python does converts first (`strings.ts`).

/**
 * Where a piece of text was written: by the template, in a message (`message`: its place), in a tool's definition; "unknown":
 * computed from messages or tools in a way that is not followed.
 */
export type Origin = {
  readonly source: "template" | "message" | "tools" | "unknown";
  readonly message: number | null;
};

/** So many UTF-16 units of one origin. */
export type Run = { readonly origin: Origin; readonly length: number };

/** A literal of the template, or a variable that is neither message nor tool. */
export const templateOrigin: Origin = Object.freeze({ source: "template", message: null });
/** Data of unknown place: computed from messages in a way that is not followed. Never attributed to the template. */
export const unknownOrigin: Origin = Object.freeze({ source: "unknown", message: null });
export const toolsOrigin: Origin = Object.freeze({ source: "tools", message: null });

/** Repetitions beyond which origins would cost more memory than the text. */
const maxRepeatedRuns = 1000;

export class TracedText {
  readonly text: string;
  /** One origin of all of it, or runs that cover the text; neighbouring runs differ. */
  readonly origins: Origin | readonly Run[];
  /** What Python calls Markup: made by the filters `escape` and `safe`, it escapes what it is added to. */
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

  /** Other text of the same origin, such as its upper case. Mixed origins survive only when no length changes. */
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

/** A literal of the template, or text that the engine itself makes. */
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

/** The text repeated. A long repetition of a text of many origins has an unknown one. */
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

/** The one origin of a text, or "unknown" for a mixed one. */
export function originOf(text: TracedText): Origin {
  return isRuns(text.origins) ? unknownOrigin : text.origins;
}

/** Adds a run, joining it with the one before when both have one origin. */
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

/** HTML escaping as Jinja's markupsafe does it; chat templates only use it by the filter `escape`. */
const replacements: ReadonlyMap<string, string> = new Map([
  ["&", "&amp;"],
  [">", "&gt;"],
  ["<", "&lt;"],
  ["'", "&#39;"],
  ['"', "&#34;"],
]);

/** The text as Markup, its HTML characters escaped; Markup stays as it is. */
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
