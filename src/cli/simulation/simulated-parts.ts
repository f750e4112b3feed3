// The expert and the agenda user of the bookshop, as slow as a model on a server and a model behind an API: what they say is
// real, how long they take is drawn from log-normal distributions. The engine counts weight versions as a server does.

import type { Engine, Tokenizer, UserSource } from "../../core/index.ts";
import { createExpertEngine } from "../../environments/bookshop/index.ts";
import type { Clock } from "../../lib/clock.ts";
import { createRandom, deriveSeed } from "../../lib/random.ts";

/** Of a log-normal distribution. */
export type Duration = {
  readonly medianMs: number;
  /** Standard deviation of the logarithm: 0 is always the median, 1 is a long tail. */
  readonly sigma: number;
};

export type SimulatedEngineOptions = {
  readonly tokenizer: Tokenizer;
  readonly noise: number;
  readonly turn: Duration;
  readonly clock: Clock;
};

/** An engine whose weights have the version that was set last. */
export interface SimulatedEngine extends Engine {
  version: string;
}

export function createSimulatedEngine({ tokenizer, noise, turn, clock }: SimulatedEngineOptions): SimulatedEngine {
  const expert = createExpertEngine({ tokenizer, noise });
  return {
    name: "simulated",
    version: "0",
    async sample(request, options = {}) {
      const dispatch = this.version;
      await clock.sleep(draw(turn, deriveSeed(0, "engine", request.requestId)), options.signal);
      const result = await expert.sample(request);
      return {
        ...result,
        weightSpans: result.weightSpans.map((span) => ({ ...span, dispatch, reply: this.version })),
      };
    },
    close: () => expert.close(),
  };
}

/** The same user, who takes a while. */
export function slowUser(source: UserSource, line: Duration, clock: Clock): UserSource {
  return {
    name: source.name,
    create(task, options) {
      const user = source.create(task, options);
      let lines = 0;
      const wait = (signal?: AbortSignal): Promise<void> =>
        clock.sleep(draw(line, deriveSeed(options.seed, "line", lines++)), signal);
      return {
        async open(asked) {
          await wait(asked?.signal);
          return user.open(asked);
        },
        async reply(words, asked) {
          await wait(asked?.signal);
          return user.reply(words, asked);
        },
      };
    },
  };
}

function draw({ medianMs, sigma }: Duration, seed: number): number {
  const random = createRandom(seed);
  const [u, v] = [1 - random.next(), random.next()];
  return medianMs * Math.exp(sigma * Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * v));
}
