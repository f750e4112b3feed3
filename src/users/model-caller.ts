// Asks a chat model for something readable, come what may within bounds: a deadline per call, retries with backoff, so
// many calls at once, so many per minute. One caller stands for one provider and is shared by all its episodes; a call
// that waits for its retry holds no permit, so it delays nobody.

import { AttributedError, ConfigurationError, type UserUsage } from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { DeadlineError, withDeadline } from "../lib/deadline.ts";
import { createRateLimit } from "../lib/rate-limit.ts";
import { checkRetryPolicy, retry, type RetryPolicy } from "../lib/retry.ts";
import { createSemaphore } from "../lib/semaphore.ts";
import type { ChatMessage, ChatModel, ChatReply } from "./chat-model.ts";
import { cancelledFailure, userFailure } from "./user-failure.ts";

export type CallLimits = {
  /** Deadline of one call, in milliseconds. Default 120,000. */
  readonly timeoutMs?: number;
  /** For one answer, all its calls together. Default: 10 attempts within 180 seconds, 0.5 to 20 seconds apart. */
  readonly retry?: RetryPolicy;
  /** How often a reply that is empty or cannot be read is asked for again, within `retry`. Default 2. */
  readonly maxReasks?: number;
  /** Calls at once. Default 256. */
  readonly maxConcurrency?: number;
  /** Calls begun per minute, evenly spaced. Default: no limit. */
  readonly requestsPerMinute?: number;
  /** Default: the real clock. */
  readonly clock?: Clock;
  /** Jitter, uniform in [0, 1). Default: `Math.random`. */
  readonly random?: () => number;
};

/** Enough for a local server's batch; hosted providers refuse more from most accounts. */
export const defaultMaxConcurrency = 256;

export const defaultUserRetry: RetryPolicy = Object.freeze({
  maxAttempts: 10,
  maxElapsedMs: 180_000,
  baseDelayMs: 500,
  maxDelayMs: 20_000,
});

export type AskOptions = {
  readonly signal?: AbortSignal | undefined;
  /** Is given the usage of every call, failed ones too. */
  readonly meter: (usage: UserUsage) => void;
};

export type ModelCaller = {
  readonly model: string;
  /** Completes the chat and reads the reply; what `read` throws as a retryable failure is asked for again. */
  ask<T>(messages: readonly ChatMessage[], read: (reply: string) => T, options: AskOptions): Promise<T>;
};

const failedCall: UserUsage = Object.freeze({ modelCalls: 1, inputTokens: 0, outputTokens: 0, cost: 0 });

/** Throws a `ConfigurationError` for limits that allow nothing. */
export function createModelCaller(model: ChatModel, limits: CallLimits = {}): ModelCaller {
  const { timeoutMs = 120_000, maxReasks = 2, clock = systemClock, random = Math.random } = limits;
  const { maxConcurrency = defaultMaxConcurrency, requestsPerMinute = Infinity } = limits;
  requireLimit("timeoutMs", timeoutMs, timeoutMs > 0);
  requireLimit("maxReasks", maxReasks, maxReasks >= 0);
  requireLimit("maxConcurrency", maxConcurrency, maxConcurrency >= 1);
  requireLimit("requestsPerMinute", requestsPerMinute, requestsPerMinute > 0);
  const policy = limits.retry ?? defaultUserRetry;
  checkRetryPolicy(policy);
  const permits = createSemaphore(maxConcurrency === Infinity ? Infinity : Math.floor(maxConcurrency));
  const rate = createRateLimit(requestsPerMinute, clock);

  const callOnce = async (messages: readonly ChatMessage[], { signal, meter }: AskOptions): Promise<ChatReply> => {
    try {
      const reply = await withDeadline((ends) => model.complete(messages, { signal: ends }), {
        timeoutMs,
        clock,
        signal,
      });
      meter(reply.usage);
      return reply;
    } catch (error) {
      meter(failedCall);
      if (!(error instanceof DeadlineError)) throw error;
      throw userFailure(
        "timeout",
        `Cannot get a line from user model "${model.name}": no answer came within ${timeoutMs} ms.`,
      );
    }
  };

  const ask = async <T>(
    messages: readonly ChatMessage[],
    read: (reply: string) => T,
    options: AskOptions,
  ): Promise<T> => {
    const { signal } = options;
    let reasks = 0;
    let release: (() => void) | null = null;
    try {
      // The first permit is waited for before the retry policy's time begins: a queue is not a fault.
      release = await permits.acquire(signal);
      return await retry(
        async () => {
          release ??= await permits.acquire(signal);
          try {
            await rate.wait(signal);
            return read((await callOnce(messages, options)).text);
          } finally {
            release();
            release = null;
          }
        },
        policy,
        {
          judge: (error) => {
            if (!(error instanceof AttributedError)) return { retry: false, afterMs: null };
            const { code, retryable } = error.failure;
            const isUnreadable = code === "empty-reply" || code === "malformed-reply";
            return { retry: retryable && (!isUnreadable || ++reasks <= maxReasks), afterMs: error.retryAfterMs };
          },
          clock,
          random,
          signal,
        },
      );
    } catch (error) {
      if (signal?.aborted) throw cancelledFailure(`get a line from user model "${model.name}"`, signal);
      throw error;
    } finally {
      release?.();
    }
  };
  return { model: model.name, ask };
}

function requireLimit(name: string, value: number, isEnough: boolean): void {
  if (isEnough) return;
  throw new ConfigurationError(
    `Cannot call the user model: ${name} is ${value}, which allows no call; give a larger number.`,
  );
}
