// Searches a text for a pattern and cuts it at the matches, with the five split behaviours of Hugging Face tokenizers. The cut
// of byte-level BPE in `split-pattern.ts` is the fast path for two of them.

import { translatePattern } from "./split-pattern.ts";

/**
 * A part of a text, `[start, end)` in UTF-16 units; `isMatch` distinguishes matches from the text
 * between them.
 */
export type TextPart = { readonly start: number; readonly end: number; readonly isMatch: boolean };

export const splitBehaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"] as const;
export type SplitBehavior = (typeof splitBehaviors)[number];

/** A global regular expression that matches what Oniguruma would. Throws an `UnsupportedPattern`. */
export function globalPattern(pattern: string): RegExp {
  return new RegExp(translatePattern(pattern).source, "gu");
}

/**
 * Covers the text with matches and the parts between them, in order. An empty match counts unless
 * it is at the end of the previous match.
 */
export function findParts(text: string, pattern: RegExp): TextPart[] {
  const parts: TextPart[] = [];
  let done = 0;
  let matchEnd = -1;
  let at = 0;
  while (at <= text.length) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match === null) break;
    const start = match.index;
    const end = start + match[0].length;
    if (start === end && matchEnd === end) {
      // The search continues one character later.
      at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
      continue;
    }
    if (done < start) parts.push({ start: done, end: start, isMatch: false });
    parts.push({ start, end, isMatch: true });
    done = end;
    matchEnd = end;
    at = end;
  }
  if (done < text.length) parts.push({ start: done, end: text.length, isMatch: false });
  return parts;
}

/** The ranges that remain of `parts`, in order; some may be empty. */
export function applyBehavior(parts: readonly TextPart[], behavior: SplitBehavior): readonly TextPart[] {
  switch (behavior) {
    case "Removed":
      return parts.filter(({ isMatch }) => !isMatch);
    case "Isolated":
      return parts;
    case "Contiguous":
      return joinParts(parts, (part, previous) => part.isMatch === (previous?.isMatch ?? false));
    case "MergedWithPrevious":
      return joinParts(parts, (part, previous) => part.isMatch && previous?.isMatch !== true);
    case "MergedWithNext": {
      const joined = joinParts(parts.toReversed(), (part, next) => part.isMatch && next?.isMatch !== true);
      return joined.toReversed();
    }
    default:
      return behavior satisfies never;
  }
}

/**
 * Joins each part to the one listed before it if `joins` says so. Works in both directions of the
 * text.
 */
function joinParts(
  parts: readonly TextPart[],
  joins: (part: TextPart, before: TextPart | undefined) => boolean,
): TextPart[] {
  const joined: TextPart[] = [];
  parts.forEach((part, index) => {
    const last = joined.at(-1);
    if (last === undefined || !joins(part, parts[index - 1])) {
      joined.push(part);
      return;
    }
    const [start, end] = [Math.min(last.start, part.start), Math.max(last.end, part.end)];
    joined[joined.length - 1] = { start, end, isMatch: last.isMatch };
  });
  return joined;
}
