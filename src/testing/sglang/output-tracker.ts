// Watches the tokens of one sequence as they come and finds where it ends, in the order in which SGLang looks: the bound
// first (so an end token as the last permitted one reports "length"), then stop tokens, then stop strings and patterns.
// Builds the text that clients see.

import type { Tokenizer } from "../../core/renderer.ts";
import { VersionSpans, type VersionSpan } from "../front/version-spans.ts";
import type { SequenceCall } from "./generate-body.ts";

/** As the wire shows it. */
export type WireFinish =
  | { readonly type: "stop"; readonly matched: number | string | null }
  | { readonly type: "length"; readonly length: number }
  | {
      readonly type: "abort";
      readonly message: string;
      readonly status_code: number | null;
      readonly err_type: string | null;
    };

export const abortedFinish: WireFinish = { type: "abort", message: "Aborted", status_code: null, err_type: null };

export class OutputTracker {
  readonly ids: number[] = [];
  readonly logprobs: number[] = [];
  readonly #call: SequenceCall;
  readonly #tokenizer: Tokenizer | null;
  readonly #trimsStopPattern: boolean;
  #finish: WireFinish | null = null;
  readonly #versions = new VersionSpans();

  constructor(call: SequenceCall, tokenizer: Tokenizer | null, options: { readonly trimsStopPattern: boolean }) {
    this.#call = call;
    this.#tokenizer = tokenizer;
    this.#trimsStopPattern = options.trimsStopPattern;
    if (call.sampler.maxNewTokens === 0) this.#finish = { type: "length", length: 0 };
  }

  /** Why the sequence ended; `null` while it goes on. */
  get finish(): WireFinish | null {
    return this.#finish;
  }

  /** Which weights sampled which tokens, in order and without gaps. */
  get versions(): readonly VersionSpan[] {
    return this.#versions.spans;
  }

  /** Takes tokens up to the end of the sequence, sampled by weights of this version; what comes after it is thrown away. */
  push(ids: ArrayLike<number>, logprobs: ArrayLike<number>, version: string): void {
    for (let index = 0; index < ids.length && this.#finish === null; index++) {
      this.ids.push(ids[index]!);
      this.logprobs.push(logprobs[index] ?? 0);
      this.#finish = this.#look();
    }
    this.#versions.extend(version, this.ids.length);
  }

  /** All tokens so far are of this version, whatever was said as they came. */
  attributeTo(version: string): void {
    this.#versions.replace(version, this.ids.length);
  }

  /** Ends a sequence that no rule ended. */
  end(finish: WireFinish): void {
    this.#finish ??= finish;
  }

  /** The text so far, without what may still become part of a character or of a stop string; `null` without a tokenizer. */
  text(): string | null {
    if (this.#tokenizer === null) return null;
    const { output } = this.#call;
    const finish = this.#finish;
    const endsWithStop = finish?.type === "stop" && typeof finish.matched === "number";
    const text = this.#decode(endsWithStop && !output.noStopTrim ? this.ids.slice(0, -1) : this.ids);
    if (finish?.type === "stop" && typeof finish.matched === "string" && !output.noStopTrim) {
      return cutAtStop(text, finish.matched, this.#trimsStopPattern ? output.stopPatterns : []);
    }
    if (finish !== null) return text;
    return holdBack(text.replace(/\ufffd+$/, ""), output.stopStrings);
  }

  #look(): WireFinish | null {
    const { sampler, output } = this.#call;
    const { length } = this.ids;
    if (length >= sampler.maxNewTokens) return { type: "length", length: sampler.maxNewTokens };
    if (length < sampler.minNewTokens) return null;
    const last = this.ids[length - 1]!;
    if (sampler.stopTokenIds.has(last)) return { type: "stop", matched: last };
    if (this.#tokenizer === null || output.stopStrings.length + output.stopPatterns.length === 0) return null;
    const text = this.#decode(this.ids);
    const found =
      output.stopStrings.find((stop) => text.includes(stop)) ??
      output.stopPatterns.find((pattern) => pattern.test(text))?.source;
    return found === undefined ? null : { type: "stop", matched: found };
  }

  #decode(ids: readonly number[]): string {
    const { skipSpecialTokens } = this.#call.output;
    return ids.length === 0 ? "" : (this.#tokenizer?.decode(ids, { skipSpecialTokens }) ?? "");
  }
}

function cutAtStop(text: string, matched: string, patterns: readonly RegExp[]): string {
  const pattern = patterns.find(({ source }) => source === matched);
  const place = pattern === undefined ? text.indexOf(matched) : text.search(pattern);
  return place < 0 ? text : text.slice(0, place);
}

/** Leaves out the longest end of the text with which a stop string may begin. */
function holdBack(text: string, stops: readonly string[]): string {
  let held = 0;
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > held; length--) {
      if (text.endsWith(stop.slice(0, length))) held = length;
    }
  }
  return text.slice(0, text.length - held);
}
