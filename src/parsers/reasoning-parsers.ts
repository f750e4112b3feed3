// Splits sampled text into reasoning and the rest, exactly as SGLang's reasoning parser of the same name does; `seed_oss` is ours.
// Runs before the tool-call parser: a call inside reasoning is a thought, not a call. A table: most differ in their tags and in
// who may force reasoning. Streaming splits a text as `split` does with the whole, as far as that can be known on the way.

import { ConfigurationError } from "../core/index.ts";
import { pythonLstrip, pythonStrip } from "../python-semantics/index.ts";
import { harmonyMarkers, readHarmony } from "./harmony.ts";
import { beginningOfOne, stripping } from "./text-pieces.ts";
import { remedyFor } from "../lib/nearest.ts";

export type ReasoningSplit = { readonly reasoning: string; readonly normalText: string };

export type ReasoningOptions = {
  /** Read the text as if it began inside reasoning; for templates whose generation prompt opens it. Default false. */
  readonly forceReasoning?: boolean;
};

/** Never throws on text. */
export interface ReasoningParser {
  /** As SGLang names it in `--reasoning-parser`. */
  readonly name: string;
  /** Texts that open and close reasoning; a tokenizer may have them as single tokens. */
  readonly markers: readonly string[];
  split(text: string, options?: ReasoningOptions): ReasoningSplit;
  /** Splits a text on its way, as far as that can be known before its end. */
  startSplitting(options?: ReasoningOptions): ReasoningStep;
}

export type TagReasoningFormat = {
  readonly name: string;
  readonly start: string;
  readonly end: string;
  /** "always": the model never writes the opening tag. "never": the caller cannot force it either. */
  readonly forced: "always" | "on-request" | "never";
};

/**
 * Reasoning between two tags. All opening tags are deleted, the whole is stripped, and the first closing tag splits it, so
 * text before the opening tag counts as reasoning and unclosed reasoning swallows everything.
 */
export function createTagReasoningParser(format: TagReasoningFormat): ReasoningParser {
  const { name, start, end, forced } = format;
  const isForcedBy = (options: ReasoningOptions): boolean =>
    forced === "always" || (forced === "on-request" && options.forceReasoning === true);
  return {
    name,
    markers: [start, end],
    startSplitting: (options = {}) => tagStage(start, end, isForcedBy(options)),
    split: (text, options = {}) => {
      if (!isForcedBy(options) && !text.includes(start)) return { reasoning: "", normalText: text };
      const stripped = pythonStrip(text.replaceAll(start, ""));
      const at = stripped.indexOf(end);
      if (at === -1) return { reasoning: stripped, normalText: "" };
      return { reasoning: stripped.slice(0, at), normalText: pythonStrip(stripped.slice(at + end.length)) };
    },
  };
}

const think = { start: "<think>", end: "</think>" };

const formats: readonly TagReasoningFormat[] = [
  { name: "deepseek-r1", ...think, forced: "always" },
  { name: "deepseek-v3", ...think, forced: "on-request" },
  { name: "deepseek-v4", ...think, forced: "on-request" },
  { name: "glm45", ...think, forced: "on-request" },
  { name: "interns1", ...think, forced: "on-request" },
  { name: "kimi", start: "◁think▷", end: "◁/think▷", forced: "never" },
  { name: "kimi_k2", ...think, forced: "on-request" },
  { name: "minimax", ...think, forced: "always" },
  { name: "minimax-m3", start: "<mm:think>", end: "</mm:think>", forced: "on-request" },
  { name: "nano_v3", ...think, forced: "on-request" },
  { name: "qwen3", ...think, forced: "on-request" },
  { name: "qwen3-thinking", ...think, forced: "always" },
  { name: "seed_oss", start: "<seed:think>", end: "</seed:think>", forced: "on-request" },
  { name: "step3", ...think, forced: "always" },
  { name: "step3p5", ...think, forced: "always" },
];

/** Marks everything as thought in the text itself, and splits nothing. */
const minimaxAppendThink: ReasoningParser = {
  name: "minimax-append-think",
  markers: [think.start, think.end],
  split: (text) => ({ reasoning: "", normalText: think.start + text }),
  startSplitting: () => restStage(think.start),
};

const gptOss: ReasoningParser = {
  name: "gpt-oss",
  markers: harmonyMarkers,
  // What a block is shows at its end only.
  startSplitting: () => silentStage,
  split: (text) => {
    const events = readHarmony(text);
    const join = (pieces: readonly string[]): string => pieces.join("");
    return {
      reasoning: join(events.filter(({ type }) => type === "reasoning").map(({ content }) => content)),
      // Calls keep their markers, because the tool-call parser reads them next.
      normalText: join(
        events.flatMap(({ type, content, raw }) => (type === "reasoning" ? [] : type === "tool-call" ? raw : content)),
      ),
    };
  },
};

const parsers: ReadonlyMap<string, ReasoningParser> = new Map(
  [...formats.map(createTagReasoningParser), minimaxAppendThink, gptOss].map((parser) => [parser.name, parser]),
);

export const reasoningParserNames: readonly string[] = [...parsers.keys()];

/** The reasoning parser of a name. Throws a `ConfigurationError` that lists the names there are. */
export function reasoningParser(name: string): ReasoningParser {
  const parser = parsers.get(name);
  if (parser !== undefined) return parser;
  throw new ConfigurationError(
    `Cannot split reasoning with parser "${name}": there is none of that name; ${remedyFor(name, reasoningParserNames)}`,
  );
}

type ReasoningPiece = { readonly reasoning: string; readonly rest: string };

/** One text on its way through; both kinds of pieces join to what `split` gives, white space at the ends aside. */
export interface ReasoningStep {
  push(piece: string): ReasoningPiece;
}

const nothing: ReasoningPiece = { reasoning: "", rest: "" };

/** Knows nothing before the end. */
const silentStage: ReasoningStep = { push: () => nothing };

/** Reasons nothing: all is rest, behind `prefix`. */
function restStage(prefix: string): ReasoningStep {
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
function tagStage(start: string, end: string, isForced: boolean): ReasoningStep {
  let mode: "unknown" | "reasoning" | "rest" | "lost" = isForced ? "reasoning" : "unknown";
  const starts = deleting(start);
  const untilStart = until(start);
  const closing = until(end);
  const blanks = stripping();
  let hasRest = false;
  /** White space at the very beginning, held apart so that a long run is not searched again with every piece. */
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
    const { before, after } = untilStart(piece);
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
