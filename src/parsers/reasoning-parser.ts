// Splits sampled text into reasoning and the rest, exactly as SGLang's reasoning parser of the same name does. Runs
// before the tool-call parser: a call inside reasoning is a thought, not a call.

import { pythonStrip } from "../python-semantics/index.ts";
import { type ReasoningStage, tagStage } from "./streaming/reasoning-stage.ts";

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
  startSplitting(options?: ReasoningOptions): ReasoningStage;
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
 * words before the opening tag count as reasoning and unclosed reasoning swallows everything.
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
