// One engine call of an episode, with its retries and its deadline. The failed attempts go into the turn's log.

import type { Engine, SampleRequest, SampleResult } from "../core/engine.ts";
import type { Attempt } from "../core/episode.ts";
import { attribute, AttributedError } from "../core/failure.ts";
import type { TokenBuffer } from "../core/token-buffer.ts";
import { DeadlineError, withDeadline } from "../lib/deadline.ts";
import { createRandom, deriveSeed } from "../lib/random.ts";
import { retry } from "../lib/retry.ts";
import type { ResolvedOptions } from "./episode-options.ts";

export type TurnRequest = {
  readonly prompt: TokenBuffer;
  readonly stopTokenIds: readonly number[];
  readonly turn: number;
  /** Sampled tokens that the episode may still spend; `null`: no bound. */
  readonly budget: number | null;
};

/** Rejects with an `AttributedError` at boundary "engine"; `attempts` then holds every failed try but the last. */
export async function sampleTurn(
  engine: Engine,
  request: TurnRequest,
  context: { readonly options: ResolvedOptions; readonly attempts: Attempt[] },
): Promise<SampleResult> {
  const { options, attempts } = context;
  const turnSeed = deriveSeed(options.seed, "turn", request.turn);
  const sampling = {
    ...options.sampling,
    maxNewTokens: newTokens(request, options),
    seed: options.seedTurns ? turnSeed : options.sampling.seed,
  };
  const attempt = async (number: number): Promise<SampleResult> => {
    const asked: SampleRequest = {
      prompt: request.prompt,
      sampling,
      stopTokenIds: request.stopTokenIds,
      // The closing mark keeps one id from being the prefix of another: servers abort by prefix.
      requestId: `${options.episodeId}:${request.turn}:${number}~`,
      routingKey: options.episodeId,
    };
    const { turnTimeoutMs: timeoutMs, clock, signal } = options;
    try {
      return await withDeadline((bounded) => engine.sample(asked, { signal: bounded }), {
        timeoutMs,
        clock,
        ...(signal === null ? {} : { signal }),
      });
    } catch (error) {
      if (!(error instanceof DeadlineError)) throw attribute(error, "engine");
      throw new AttributedError(
        {
          boundary: "engine",
          code: "timeout",
          message: `Cannot finish turn ${request.turn} of episode "${options.episodeId}": engine "${engine.name}" did not answer within ${timeoutMs} ms; raise turnTimeoutMs or lower the concurrency.`,
          retryable: true,
          cause: null,
        },
        { cause: error },
      );
    }
  };
  const { next: random } = createRandom(turnSeed);
  try {
    return await retry(attempt, options.retry, {
      clock: options.clock,
      random,
      signal: options.signal ?? undefined,
      judge: (error) => ({
        retry: error instanceof AttributedError && error.failure.retryable,
        afterMs: error instanceof AttributedError ? error.retryAfterMs : null,
      }),
      onRetry: (error, { delayMs }) => {
        attempts.push({ failure: attribute(error, "engine").failure, waitedMs: delayMs });
      },
    });
  } catch (error) {
    throw attribute(error, "engine");
  }
}

/** How many tokens this call may sample; throws code "context-length" when the context has no room for one. */
function newTokens(request: TurnRequest, options: ResolvedOptions): number | null {
  const { maxContextTokens } = options.limits;
  const bounds = [options.sampling.maxNewTokens, request.budget].filter((bound) => bound !== null);
  if (maxContextTokens !== null) {
    // Servers demand prompt + new tokens < context.
    const room = maxContextTokens - 1 - request.prompt.length;
    if (room < 1) {
      throw new AttributedError({
        boundary: "engine",
        code: "context-length",
        message: `Cannot ask for turn ${request.turn} of episode "${options.episodeId}": the prompt has ${request.prompt.length} tokens, the context ${maxContextTokens}.`,
        retryable: false,
        cause: null,
      });
    }
    bounds.push(room);
  }
  return bounds.length === 0 ? null : Math.min(...bounds);
}
