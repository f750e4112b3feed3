// Watches the tokens of one completion as they come and finds where it ends, in the order in which vLLM looks: end tokens,
// then stop tokens, then the bound; so an end token as the last permitted one reports "stop".

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
  #finish: ChoiceFinish | null = null;

  constructor(call: VllmCall) {
    this.#call = call;
  }

  /** `null` while it goes on. */
  get finish(): ChoiceFinish | null {
    return this.#finish;
  }

  /** Takes tokens up to the end; what comes after it is thrown away. */
  push(ids: ArrayLike<number>, logprobs: ArrayLike<number>): void {
    for (let index = 0; index < ids.length && this.#finish === null; index++) {
      this.ids.push(ids[index]!);
      this.logprobs.push(logprobs[index] ?? 0);
      this.#finish = this.#look(ids[index]!);
    }
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
