// Counts of the work of an engine, unfinished calls included, for people who wait for a slow model.

import type { EngineActivity } from "../../core/local-engine.ts";

type Call = { promptTokens: number; readonly ofPromptTokens: number; sampledTokens: number };

/** Progress of one call. */
export type CallProgress = {
  prompt(this: void, tokens: number): void;
  token(this: void): void;
  end(this: void): void;
};

export class ActivityCounter {
  #promptTokens = 0;
  #sampledTokens = 0;
  /** Calls in flight, the one that advanced last at the end. */
  readonly #calls = new Set<Call>();

  /** A call begins; `tokens` is the number of prompt tokens that it has to compute. */
  begin(ofPromptTokens: number): CallProgress {
    const call: Call = { promptTokens: 0, ofPromptTokens, sampledTokens: 0 };
    const advance = (): void => {
      this.#calls.delete(call);
      this.#calls.add(call);
    };
    advance();
    return {
      prompt: (tokens) => {
        call.promptTokens += tokens;
        this.#promptTokens += tokens;
        advance();
      },
      token: () => {
        call.sampledTokens++;
        this.#sampledTokens++;
        advance();
      },
      end: () => void this.#calls.delete(call),
    };
  }

  get current(): EngineActivity {
    const newest = [...this.#calls].at(-1);
    return {
      promptTokens: this.#promptTokens,
      sampledTokens: this.#sampledTokens,
      newest: newest === undefined ? null : { ...newest },
    };
  }
}
