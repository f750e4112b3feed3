// Harmony text in pieces: its markers and what stands between them. Text is cut wherever "<|" stands, and pieces of text that
// nothing separates stay apart, since the words of a reply are joined with blanks.

const names = ["start", "channel", "message", "constrain", "end", "call", "return"] as const;

export const harmonyMarkers: readonly string[] = names.map((name) => `<|${name}|>`);

export type HarmonyPiece = {
  /** `null`: text. */
  readonly marker: (typeof names)[number] | null;
  readonly start: number;
  readonly end: number;
};

const opening = "<|";

export function splitHarmony(text: string): readonly HarmonyPiece[] {
  const pieces: HarmonyPiece[] = [];
  const add = (marker: HarmonyPiece["marker"], start: number, end: number): void => {
    if (end > start) pieces.push({ marker, start, end });
  };
  const cuts = cutsOf(text);
  // Found once: a text without it would otherwise be searched to its end for every unknown marker.
  const lastClose = text.lastIndexOf("|>");
  add(null, 0, cuts[0]!);
  for (let index = 0; index < cuts.length - 1; index++) {
    const start = cuts[index]!;
    const end = cuts[index + 1]!;
    const marker = names.find((name) => text.startsWith(`${name}|>`, start + opening.length));
    if (marker !== undefined) {
      const behind = start + marker.length + 4;
      add(marker, start, behind);
      add(null, behind, end);
    } else if (end === text.length && isCutMarker(text.slice(start, start + 16))) {
      add(null, start, end);
    } else {
      const body = start + opening.length;
      add(null, start, body);
      // What looks like a marker and is none reaches over all that stands before its "|>", markers too.
      if (lastClose >= body) index = closingCut(text, cuts, index);
      add(null, body, cuts[index + 1]!);
    }
  }
  return pieces;
}

/** Every place of "<|", and the end. */
function cutsOf(text: string): readonly number[] {
  const cuts: number[] = [];
  for (let at = text.indexOf(opening); at !== -1; at = text.indexOf(opening, at + opening.length)) cuts.push(at);
  return [...cuts, text.length];
}

const isCutMarker = (tail: string): boolean => harmonyMarkers.some((marker) => marker.startsWith(tail));

/** The last cut before the first "|>" behind the one at `index`. */
function closingCut(text: string, cuts: readonly number[], index: number): number {
  const close = text.indexOf("|>", cuts[index]! + opening.length);
  let last = index;
  while (last + 2 < cuts.length && cuts[last + 1]! <= close) last++;
  return last;
}
