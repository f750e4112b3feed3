// The contract of reasoning parsers, and the most common one: reasoning between two tags. Streaming
// splits a text as `split` does with the whole, as far as the result is certain before the end.

import { pythonLstrip } from "../python-semantics/index.ts";
import { beginningOfOne } from "./text-pieces.ts";

export type ReasoningSplit = { readonly reasoning: string; readonly normalText: string };

export type ReasoningOptions = {
  /**
   * Reads the text as if it began inside reasoning; for templates whose generation prompt opens it.
   * Default false.
   */
  readonly forceReasoning?: boolean;
};

/** Splits sampled text into reasoning and the rest. Never throws on text. */
export interface ReasoningParser {
  /** Name in SGLang's `--reasoning-parser`. */
  readonly name: string;
  /** Strings that open and close reasoning; a tokenizer may have them as single tokens. */
  readonly markers: readonly string[];
  /** True if reasoning is between two tags, the first two of `markers`. */
  readonly hasTags: boolean;
  split(text: string, options?: ReasoningOptions): ReasoningSplit;
  /** Starts splitting a streamed text, as far as the result is certain before its end. */
  startSplitting(options?: ReasoningOptions): ReasoningStep;
}

export type TagReasoningFormat = {
  readonly name: string;
  readonly start: string;
  readonly end: string;
  /** "always": the model never writes the opening tag. "never": the caller cannot force it either. */
  readonly forced: "always" | "on-request" | "never";
  /** Label that follows the opening tag and is dropped with it. Default "". */
  readonly label?: string;
  /**
   * String that opens a call, which ends unclosed reasoning. Default: unclosed reasoning extends to
   * the end.
   */
  readonly callStart?: string;
  /**
   * Drops a closing tag that begins the text, white space aside, unless reasoning is forced.
   * Default false.
   */
  readonly dropsStrayEnd?: boolean;
  /** Drops line feeds after the closing tag. Default false. */
  readonly dropsLineFeeds?: boolean;
  /** Treats reasoning with nothing after it as content, if no call opens in it. Default false. */
  readonly reasoningAsContent?: boolean;
};

/**
 * Reasoning between two tags. Opening tags that begin the text are dropped, and the first closing
 * tag splits the rest, so text before a later opening tag counts as reasoning. Unclosed reasoning
 * ends where a call opens, if the format defines how calls open, and extends to the end of the text
 * otherwise. White space stays.
 */
export function createTagReasoningParser(format: TagReasoningFormat): ReasoningParser {
  const {
    name,
    start,
    end,
    forced,
    callStart = "",
    dropsStrayEnd,
    dropsLineFeeds,
    reasoningAsContent: speaksReasoning,
  } = format;
  const opening = start + (format.label ?? "");
  const isForcedBy = (options: ReasoningOptions): boolean =>
    forced === "always" || (forced === "on-request" && options.forceReasoning === true);
  const splitTags = (text: string, isForced: boolean): ReasoningSplit => {
    if (!isForced && !text.includes(start)) return { reasoning: "", normalText: text };
    let at = 0;
    while (text.startsWith(opening, at)) at += opening.length;
    const inside = text.slice(at);
    const closing = inside.indexOf(end);
    if (closing !== -1) {
      return { reasoning: inside.slice(0, closing), normalText: inside.slice(closing + end.length) };
    }
    const call = callStart === "" ? -1 : inside.indexOf(callStart);
    return call === -1
      ? { reasoning: inside, normalText: "" }
      : { reasoning: inside.slice(0, call), normalText: inside.slice(call) };
  };
  return {
    name,
    markers: [start, end],
    hasTags: true,
    startSplitting: (options = {}) => {
      const isForced = isForcedBy(options);
      const stage = tagStage({
        start,
        opening,
        end,
        callStart,
        isForced,
        straysEnd: dropsStrayEnd === true && !isForced,
      });
      return speaksReasoning === true ? reasoningWithRest(stage) : stage;
    },
    split: (text, options = {}) => {
      const isForced = isForcedBy(options);
      const bare = dropsStrayEnd === true && !isForced ? pythonLstrip(text) : "";
      const split = splitTags(bare.startsWith(end) ? bare.slice(end.length) : text, isForced);
      if (speaksReasoning === true && split.normalText === "" && !text.includes(callStart)) {
        return { reasoning: "", normalText: split.reasoning };
      }
      if (dropsLineFeeds !== true || !text.includes(end)) return split;
      return { ...split, normalText: split.normalText.replace(/^\n+/, "") };
    },
  };
}

type ReasoningPiece = { readonly reasoning: string; readonly rest: string };

/**
 * Splitting of one streamed text; the pieces of each kind join to a prefix of the result of
 * `split`.
 */
export interface ReasoningStep {
  push(piece: string): ReasoningPiece;
}

const nothing: ReasoningPiece = { reasoning: "", rest: "" };

/** Returns nothing before the end. */
export const silentStep: ReasoningStep = { push: () => nothing };

/** Step without reasoning: all text is rest, after `prefix`. */
export function restStep(prefix: string): ReasoningStep {
  let before = prefix;
  return {
    push: (piece) => {
      const rest = before + piece;
      before = "";
      return { reasoning: "", rest };
    },
  };
}

/** Shows reasoning only once text follows it. */
function reasoningWithRest(stage: ReasoningStep): ReasoningStep {
  let held: string[] | null = [];
  return {
    push: (piece) => {
      const { reasoning, rest } = stage.push(piece);
      if (held === null) return { reasoning, rest };
      held.push(reasoning);
      if (rest === "") return nothing;
      const all = held.join("");
      held = null;
      return { reasoning: all, rest };
    },
  };
}

type Tags = {
  readonly start: string;
  /** The opening tag with its label. */
  readonly opening: string;
  readonly end: string;
  readonly callStart: string;
  readonly isForced: boolean;
  readonly straysEnd: boolean;
};

/**
 * Reasoning between two tags. Unless reasoning is forced, text that does not begin with the opening
 * tag is taken for the rest; if the tag comes later, nothing more is certain, because all text
 * before it was then reasoning. After a call opens nothing is certain until the closing tag comes:
 * it decides whether reasoning ended there.
 */
function tagStage({ start, opening, end, callStart, isForced, straysEnd }: Tags): ReasoningStep {
  let mode: "beginning" | "reasoning" | "open-call" | "rest" | "rest-until-start" | "lost" = "beginning";
  let isTagged = isForced;
  let mayStray = straysEnd;
  let held = "";
  const starts = [start];
  const stops = callStart === "" ? [end] : [end, callStart];

  const begin = (): ReasoningPiece => {
    if (mayStray) {
      const bare = pythonLstrip(held);
      if (end.startsWith(bare) && bare.length < end.length) return nothing;
      mayStray = false;
      if (bare.startsWith(end)) held = bare.slice(end.length);
    }
    while (held.startsWith(opening)) {
      held = held.slice(opening.length);
      isTagged = true;
    }
    if (opening.startsWith(held)) return nothing;
    isTagged ||= held.startsWith(start);
    mode = isTagged ? "reasoning" : "rest-until-start";
    return isTagged ? reason() : restUntilStart();
  };

  /**
   * Returns the certain part of `held` before the first of the stops; text that may become a stop
   * stays held.
   */
  const sure = (markers: readonly string[]): { readonly before: string; readonly found: boolean } => {
    const places = markers.map((marker) => held.indexOf(marker)).filter((at) => at !== -1);
    const found = places.length > 0;
    const at = found ? Math.min(...places) : held.length - beginningOfOne(held, held.length, markers);
    const before = held.slice(0, at);
    held = held.slice(at);
    return { before, found };
  };

  const reason = (): ReasoningPiece => {
    const { before, found } = sure(stops);
    if (!found) return { reasoning: before, rest: "" };
    if (!held.startsWith(end)) {
      mode = "open-call";
      const { reasoning, rest } = inCall();
      return { reasoning: before + reasoning, rest };
    }
    mode = "rest";
    const rest = held.slice(end.length);
    held = "";
    return { reasoning: before, rest };
  };

  /** Pieces since the call opened; a long call is not searched again with every piece. */
  let call: string[] = [];
  const inCall = (): ReasoningPiece => {
    const at = held.indexOf(end);
    if (at === -1) {
      const kept = beginningOfOne(held, held.length, [end]);
      call.push(held.slice(0, held.length - kept));
      held = held.slice(held.length - kept);
      return nothing;
    }
    const reasoning = call.join("") + held.slice(0, at);
    const rest = held.slice(at + end.length);
    call = [];
    held = "";
    mode = "rest";
    return { reasoning, rest };
  };

  const restUntilStart = (): ReasoningPiece => {
    const { before, found } = sure(starts);
    if (found) mode = "lost";
    return { reasoning: "", rest: before };
  };

  return {
    push: (piece) => {
      if (mode === "lost") return nothing;
      if (mode === "rest") return { reasoning: "", rest: piece };
      held += piece;
      if (mode === "beginning") return begin();
      if (mode === "reasoning") return reason();
      return mode === "open-call" ? inCall() : restUntilStart();
    },
  };
}
