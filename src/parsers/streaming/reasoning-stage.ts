// Splits a stream into reasoning and the rest as `split` does with the whole text, as far as that can be known on the way.

import { pythonLstrip, pythonRstrip } from "../../python-semantics/index.ts";
import { beginningOfOne } from "./words-stage.ts";

export type ReasoningPiece = { readonly reasoning: string; readonly rest: string };

/** One text on its way through; both kinds of pieces join to what `split` gives, white space at the ends aside. */
export interface ReasoningStage {
  push(piece: string): ReasoningPiece;
}

const nothing: ReasoningPiece = { reasoning: "", rest: "" };

/** Knows nothing before the end. */
export const silentStage: ReasoningStage = { push: () => nothing };

/** Reasons nothing: all is rest. `prefix` stands before it. */
export function restStage(prefix = ""): ReasoningStage {
  let before = prefix;
  return {
    push: (piece) => {
      const rest = before + piece;
      before = "";
      return { reasoning: "", rest };
    },
  };
}

/**
 * Reasoning between two tags. Unless it is forced, text that does not begin with the opening tag is taken for the rest; if
 * the tag comes later, nothing more is known, because then all before it was reasoning.
 */
export function tagStage(start: string, end: string, isForced: boolean): ReasoningStage {
  let mode: "unknown" | "reasoning" | "rest" | "lost" = isForced ? "reasoning" : "unknown";
  const starts = deleting(start);
  const late = until(start);
  const closing = until(end);
  const blanks = stripping();
  let hasRest = false;
  /** White space at the very beginning, kept apart so that a long run is not searched again with every piece. */
  const indent: string[] = [];
  let opening = "";

  const reason = (piece: string): ReasoningPiece => {
    const { before, after } = closing(starts(piece));
    const reasoning = blanks(before, after !== null);
    if (after === null) return { reasoning, rest: "" };
    mode = "rest";
    return { reasoning, rest: beginning(after) };
  };
  /** The rest is stripped after reasoning. */
  const beginning = (piece: string): string => {
    const rest = hasRest ? piece : pythonLstrip(piece);
    hasRest ||= rest !== "";
    return rest;
  };

  let isTagged = isForced;
  return {
    push: (piece) => {
      if (mode === "unknown") {
        const text = opening === "" ? pythonLstrip(piece) : piece;
        indent.push(piece.slice(0, piece.length - text.length));
        opening += text;
        if (opening.length < start.length && start.startsWith(opening)) return nothing;
        isTagged = opening.startsWith(start);
        mode = isTagged ? "reasoning" : "rest";
        return isTagged ? reason(opening) : restUntilStart(indent.join("") + opening);
      }
      if (mode === "reasoning") return reason(piece);
      if (mode === "lost") return nothing;
      return isTagged ? { reasoning: "", rest: beginning(starts(piece)) } : restUntilStart(piece);
    },
  };

  function restUntilStart(piece: string): ReasoningPiece {
    const { before, after } = late(piece);
    if (after !== null) mode = "lost";
    return { reasoning: "", rest: before };
  }
}

/** Deletes a text from a stream. */
function deleting(deleted: string): (piece: string) => string {
  let held = "";
  return (piece) => {
    const pieces = (held + piece).split(deleted);
    const last = pieces.pop()!;
    const length = beginningOfOne(last, last.length, [deleted]);
    held = last.slice(last.length - length);
    return pieces.join("") + last.slice(0, last.length - length);
  };
}

/** Cuts a stream at a text; `after` is `null` before it has come. */
function until(end: string): (piece: string) => { readonly before: string; readonly after: string | null } {
  let held = "";
  return (piece) => {
    const text = held + piece;
    const at = text.indexOf(end);
    if (at !== -1) return { before: text.slice(0, at), after: text.slice(at + end.length) };
    const length = beginningOfOne(text, text.length, [end]);
    held = text.slice(text.length - length);
    return { before: text.slice(0, text.length - length), after: null };
  };
}

/** Drops white space at the beginning of a stream, and holds it back at its end unless the piece is the last. */
function stripping(): (piece: string, isLast: boolean) => string {
  let blanks: string[] = [];
  let hasBegun = false;
  return (piece, isLast) => {
    const shown = hasBegun ? piece : pythonLstrip(piece);
    const words = isLast ? shown : pythonRstrip(shown);
    const blank = shown.slice(words.length);
    if (words === "" && !(isLast && hasBegun)) {
      if (hasBegun) blanks.push(blank);
      return "";
    }
    const all = blanks.join("") + words;
    blanks = [blank];
    hasBegun = true;
    return all;
  };
}
