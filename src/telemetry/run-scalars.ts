// A run as a few curves over the number of ended episodes: what event files and log lines show. Counts since the last
// reading, so that a curve shows what happens and not what happened long ago.

import { type EpisodeEvent, outcomeOf } from "../core/index.ts";

type Sums = {
  episodes: number;
  graded: number;
  reward: number;
  passed: number;
  failed: number;
  truncated: number;
  turns: number;
  sampledTokens: number;
  promptTokens: number;
  cachedTokens: number;
  problems: number;
  retries: number;
  engineMs: number;
  userMs: number;
};

const nothing: Sums = {
  episodes: 0,
  graded: 0,
  reward: 0,
  passed: 0,
  failed: 0,
  truncated: 0,
  turns: 0,
  sampledTokens: 0,
  promptTokens: 0,
  cachedTokens: 0,
  problems: 0,
  retries: 0,
  engineMs: 0,
  userMs: 0,
};

/** Adds events up; `read` takes what came since the last `read`. */
export class RunScalars {
  #sums: Sums = { ...nothing };
  #since: number;
  #ended = 0;
  readonly #now: () => number;

  /** `now`: milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
    this.#since = now();
  }

  /** Episodes ended since the beginning. */
  get endedEpisodes(): number {
    return this.#ended;
  }

  /** Episodes ended since the last reading. */
  get newEpisodes(): number {
    return this.#sums.episodes;
  }

  /** An episode that ended in an earlier process: the curves go on after it. */
  skip(): void {
    this.#ended += 1;
  }

  add(event: EpisodeEvent): void {
    const sums = this.#sums;
    switch (event.type) {
      case "turn":
        sums.turns += 1;
        sums.engineMs += event.durationMs;
        sums.retries += event.attempts.length;
        sums.sampledTokens += event.usage.completionTokens;
        sums.promptTokens += event.usage.promptTokens;
        sums.cachedTokens += event.usage.cachedTokens ?? 0;
        return;
      case "agent-reply":
        sums.turns += 1;
        sums.engineMs += event.durationMs;
        sums.retries += event.attempts.length;
        sums.sampledTokens += event.usage.outputTokens;
        sums.promptTokens += event.usage.inputTokens;
        return;
      case "decision":
        sums.problems += event.decision.problems.length;
        return;
      case "user-line":
        sums.userMs += event.durationMs;
        return;
      case "grade":
        sums.graded += 1;
        sums.reward += event.grade.reward;
        sums.passed += event.grade.reward === 1 ? 1 : 0;
        return;
      case "episode-end": {
        const outcome = outcomeOf(event.stopReason);
        this.#ended += 1;
        sums.episodes += 1;
        sums.failed += outcome === "failed" ? 1 : 0;
        sums.truncated += outcome === "truncated" ? 1 : 0;
        return;
      }
      case "episode-start":
      case "tool-result":
        return;
      default:
        event satisfies never;
    }
  }

  /** Name and value. What had no episode, turn or token to be counted over is left out: absent is not zero. */
  read(): (readonly [name: string, value: number])[] {
    const sums = this.#sums;
    const now = this.#now();
    const seconds = (now - this.#since) / 1000;
    this.#sums = { ...nothing };
    this.#since = now;
    const scalars: (readonly [string, number])[] = [];
    const ratio = (name: string, part: number, whole: number): void => {
      if (whole > 0) scalars.push([name, part / whole]);
    };
    ratio("reward/mean", sums.reward, sums.graded);
    ratio("reward/pass_rate", sums.passed, sums.graded);
    ratio("episodes/failed", sums.failed, sums.episodes);
    ratio("episodes/truncated", sums.truncated, sums.episodes);
    ratio("episodes/turns", sums.turns, sums.episodes);
    ratio("episodes/sampled_tokens", sums.sampledTokens, sums.episodes);
    ratio("actions/problems_per_turn", sums.problems, sums.turns);
    ratio("engine/retries_per_turn", sums.retries, sums.turns);
    ratio("engine/cached_prompt_tokens", sums.cachedTokens, sums.promptTokens);
    ratio("time/engine_ms_per_turn", sums.engineMs, sums.turns);
    ratio("time/user_ms_per_turn", sums.userMs, sums.turns);
    ratio("speed/turns_per_second", sums.turns, seconds);
    ratio("speed/sampled_tokens_per_second", sums.sampledTokens, seconds);
    return scalars;
  }
}
