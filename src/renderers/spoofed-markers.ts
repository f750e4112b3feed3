// Markers are tokens: `<tool_call>` spelled out by other tokens is text about a call, not a call. Text parsers cannot see
// that, so spelled-out markers are disguised before parsing and come back in the result. Works for every text parser.

import type { Tokenizer } from "../core/index.ts";

export type Disguised = {
  /** The decoded text with each spelled-out marker's first character replaced. */
  readonly text: string;
  /** The spelled-out markers, in order. */
  readonly spoofed: readonly string[];
  reveal(text: string): string;
};

/** Disguises the markers in `ids` that are not the tokens they pretend to be; `null` when there are none. */
export function disguiseMarkers(
  ids: Uint32Array,
  options: { readonly tokenizer: Tokenizer; readonly decoded: string; readonly markers: ReadonlyMap<string, number> },
): Disguised | null {
  const { tokenizer, decoded, markers } = options;
  if (![...markers].some(([text, id]) => count(decoded, text) > countId(ids, id))) return null;
  const texts = new Map([...markers].map(([text, id]) => [id, text]));
  const stand = standIns(decoded, [...markers.keys()]);
  const spoofed: string[] = [];
  let text = "";
  let runStart = 0;
  const flush = (end: number): void => {
    const run = tokenizer.decode(ids.subarray(runStart, end));
    text += run.replace(pattern(markers.keys()), (marker) => {
      spoofed.push(marker);
      return `${stand.get(marker[0]!)}${marker.slice(1)}`;
    });
  };
  ids.forEach((id, index) => {
    const marker = texts.get(id);
    if (marker === undefined) return;
    flush(index);
    text += marker;
    runStart = index + 1;
  });
  flush(ids.length);
  const reveal = (hidden: string): string =>
    [...stand].reduce((shown, [original, standIn]) => shown.replaceAll(standIn, original), hidden);
  return { text, spoofed, reveal };
}

function pattern(markers: Iterable<string>): RegExp {
  return new RegExp([...markers].map((marker) => marker.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|"), "g");
}

/** For each first character of a marker a private character that the text does not use. */
function standIns(text: string, markers: readonly string[]): Map<string, string> {
  const chosen = new Map<string, string>();
  let code = 0xe000;
  for (const first of new Set(markers.map((marker) => marker[0]!))) {
    while (text.includes(String.fromCharCode(code))) code++;
    chosen.set(first, String.fromCharCode(code++));
  }
  return chosen;
}

function count(text: string, part: string): number {
  let found = 0;
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length)) found++;
  return found;
}

function countId(ids: Uint32Array, wanted: number): number {
  let found = 0;
  for (const id of ids) if (id === wanted) found++;
  return found;
}
