// Watches the tokens of one completion as they come and finds where it ends, in the order in which vLLM looks: end tokens,
// then stop tokens, then the bound; so an end token as the last permitted one reports "stop".

import { VersionSpans, type VersionSpan } from "../front/version-spans.ts";
import type { VllmCall } from "./read-call.ts";

export type ChoiceFinish = {
  readonly reason: "stop" | "length" | "abort";
  /** The stop token that was asked for; `null` for the model's own end tokens. */
  readonly stopReason: number | null;
};

export class ChoiceTracker {
  readonly ids: number[] = [];
  readonly logprobs: number[] = [];
  readonly #call: VllmCall;
  readonly #versions = new VersionSpans();
  #finish: ChoiceFinish | null = null;

  constructor(call: VllmCall) {
    this.#call = call;
  }

  /** `null` while it goes on. */
  get finish(): ChoiceFinish | null {
    return this.#finish;
  }

  /** Which weights sampled which tokens, in order and without gaps. */
  get versions(): readonly VersionSpan[] {
    return this.#versions.spans;
  }

  /** Takes tokens up to the end, sampled by weights of this version; what comes after it is thrown away. */
  push(ids: ArrayLike<number>, logprobs: ArrayLike<number>, version: string): void {
    for (let index = 0; index < ids.length && this.#finish === null; index++) {
      this.ids.push(ids[index]!);
      this.logprobs.push(logprobs[index] ?? 0);
      this.#finish = this.#look(ids[index]!);
    }
    this.#versions.extend(version, this.ids.length);
  }

  /** All tokens so far are of this version, whatever was said as they came. */
  attributeTo(version: string): void {
    this.#versions.replace(version, this.ids.length);
  }

  /** Ends what no rule ended. */
  end(reason: ChoiceFinish["reason"]): void {
    this.#finish ??= { reason, stopReason: null };
  }

  #look(last: number): ChoiceFinish | null {
    const { sampler, endTokenIds } = this.#call;
    const { length } = this.ids;
    if (length >= sampler.minNewTokens) {
      if (endTokenIds.has(last)) return { reason: "stop", stopReason: null };
      if (sampler.stopTokenIds.has(last)) return { reason: "stop", stopReason: last };
    }
    return length >= sampler.maxNewTokens ? { reason: "length", stopReason: null } : null;
  }
}
