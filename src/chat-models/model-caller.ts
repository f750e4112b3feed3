// Calls a chat model until its reply can be parsed, within limits: a deadline per call, retries
// with backoff, concurrent calls, and calls per minute. One caller represents one provider and is
// shared by all its episodes; a call that waits for a retry holds no permit, so it delays no other.

import { type Attempt, AttributedError, attribute, ConfigurationError, type ModelUsage } from "../core/index.ts";
import { createHttpPool, type HttpClient } from "../http/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { DeadlineError, withDeadline } from "../lib/deadline.ts";
import { createRateLimit, createSemaphore, checkRetryPolicy, noRetry, retry, type RetryPolicy } from "../lib/limits.ts";
import type { ChatMessage, ChatModel, ChatOptions, ChatReply } from "./chat-model.ts";
import { askingOf, boundaryOf, cancelledFailure, modelFailure, type ModelPart } from "./model-failure.ts";

export type CallLimits = {
  /** Deadline of one call, in milliseconds. Default 120,000. */
  readonly timeoutMs?: number;
  /**
   * Retry policy of one answer, over all its calls. Default: 10 attempts within 180 seconds, 0.5 to
   * 20 seconds apart.
   */
  readonly retry?: RetryPolicy;
  /**
   * Maximum number of times that an empty or unparsable reply is requested again, within `retry`.
   * Default 2.
   */
  readonly maxReasks?: number;
  /** Maximum number of concurrent calls. Default 256. */
  readonly maxConcurrency?: number;
  /**
   * Maximum number of calls started per minute, evenly spaced; a function is called at every call.
   * Default: unlimited.
   */
  readonly requestsPerMinute?: number | (() => number);
  /** Default: the system clock. */
  readonly clock?: Clock;
  /** Jitter, uniform in [0, 1). Default: `Math.random`. */
  readonly random?: () => number;
};

/** Enough for a local server's batch; hosted providers allow most accounts less. */
export const defaultMaxConcurrency = 256;

export const defaultModelRetry: RetryPolicy = Object.freeze({
  maxAttempts: 10,
  maxElapsedMs: 180_000,
  baseDelayMs: 500,
  maxDelayMs: 20_000,
});

export type AskOptions = ChatOptions & {
  /** Receives the usage of every call, failed ones too. */
  readonly meter: (usage: ModelUsage) => void;
  /** Called for each failed call that is repeated. */
  readonly onRetry?: (attempt: Attempt) => void;
  /** False: only one attempt. Default: as many as the policy allows. */
  readonly retries?: boolean;
};

export type ModelCaller = {
  readonly model: string;
  /**
   * Completes the chat and parses the reply; if `read` throws a retryable failure, the call is
   * repeated.
   */
  ask<T>(messages: readonly ChatMessage[], read: (reply: ChatReply) => T, options: AskOptions): Promise<T>;
};

const failedCall: ModelUsage = Object.freeze({ modelCalls: 1, inputTokens: 0, outputTokens: 0, cost: 0 });

/** The limits on the calls of one provider, independent of their content. */
export type CallBounds = {
  /** Deadline of one call, in milliseconds. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /**
   * Runs a call within the limits, and again if its failure is retryable. For a call whose value is
   * still arriving (a stream), `holds` returns a promise of when its permit is free again; by
   * default the permit is free once the call has resolved.
   */
  run<T>(call: () => Promise<T>, options: RunOptions<T>): Promise<T>;
};

type RunOptions<T> = {
  readonly signal?: AbortSignal | undefined;
  readonly onRetry?: ((attempt: Attempt) => void) | undefined;
  /** False: only one attempt. Default: as many as the policy allows. */
  readonly retries?: boolean | undefined;
  /** The action for messages, as in "get a reply from agent model \"m\"". */
  readonly what: string;
  readonly holds?: (value: T) => Promise<void> | null;
};

/** Throws a `ConfigurationError` for limits that allow no calls. */
export function createCallBounds(part: ModelPart, limits: CallLimits = {}): CallBounds {
  const { timeoutMs = 120_000, maxReasks = 2, clock = systemClock, random = Math.random } = limits;
  const { maxConcurrency = defaultMaxConcurrency, requestsPerMinute = Infinity } = limits;
  requireLimit(part, "timeoutMs", timeoutMs, timeoutMs > 0);
  requireLimit(part, "maxReasks", maxReasks, maxReasks >= 0);
  requireLimit(part, "maxConcurrency", maxConcurrency, maxConcurrency >= 1);
  const perMinute = typeof requestsPerMinute === "number" ? requestsPerMinute : requestsPerMinute();
  requireLimit(part, "requestsPerMinute", perMinute, perMinute > 0);
  const policy = limits.retry ?? defaultModelRetry;
  checkRetryPolicy(policy);
  const permits = createSemaphore(maxConcurrency === Infinity ? Infinity : Math.floor(maxConcurrency));
  const rate = createRateLimit(requestsPerMinute, clock);
  return {
    timeoutMs,
    clock,
    run: async (call, { signal, onRetry, retries = true, what, holds }) => {
      let reasks = 0;
      let release: (() => void) | null = null;
      try {
        // The first permit is acquired before the time of the retry policy starts: waiting in the
        // queue is not a fault.
        release = await permits.acquire(signal);
        return await retry(
          async () => {
            const held = (release ??= await permits.acquire(signal));
            let until: Promise<void> | null = null;
            try {
              await rate.wait(signal);
              const value = await call();
              until = holds?.(value) ?? null;
              return value;
            } finally {
              release = null;
              if (until === null) held();
              else until.finally(held).catch(() => undefined);
            }
          },
          retries ? policy : noRetry,
          {
            classify: (error) => {
              if (!(error instanceof AttributedError)) return { retry: false, afterMs: null };
              const { code, retryable } = error.failure;
              const isUnreadable = code === "empty-reply" || code === "malformed-reply";
              return { retry: retryable && (!isUnreadable || ++reasks <= maxReasks), afterMs: error.retryAfterMs };
            },
            clock,
            random,
            signal,
            onRetry: (error, { delayMs }) =>
              onRetry?.({ failure: attribute(error, boundaryOf(part)).failure, waitedMs: delayMs }),
          },
        );
      } catch (error) {
        if (signal?.aborted) throw cancelledFailure(part, what, signal);
        throw error;
      } finally {
        release?.();
      }
    },
  };
}

/**
 * Throws a `ConfigurationError` for limits that allow no calls. `bounds` are limits shared with
 * other callers. Default: its own, from `limits`.
 */
export function createModelCaller(
  model: ChatModel,
  part: ModelPart,
  limits: CallLimits = {},
  bounds: CallBounds = createCallBounds(part, limits),
): ModelCaller {
  const { timeoutMs, clock } = bounds;
  const what = askingOf(part, `"${model.name}"`);

  const callOnce = async (messages: readonly ChatMessage[], options: AskOptions): Promise<ChatReply> => {
    const { meter, onRetry: _, retries: __, signal, ...asked } = options;
    try {
      const reply = await withDeadline((ends) => model.complete(messages, { ...asked, signal: ends }), {
        timeoutMs,
        clock,
        signal,
      });
      meter(reply.usage);
      return reply;
    } catch (error) {
      meter(failedCall);
      if (!(error instanceof DeadlineError)) throw error;
      throw modelFailure(part, "timeout", {
        message: `Cannot ${what}: no answer came within ${timeoutMs} ms.`,
      });
    }
  };

  return {
    model: model.name,
    ask: (messages, read, options) =>
      bounds.run(async () => read(await callOnce(messages, options)), {
        signal: options.signal,
        onRetry: options.onRetry,
        retries: options.retries,
        what,
      }),
  };
}

function requireLimit(part: ModelPart, name: string, value: number, isEnough: boolean): void {
  if (isEnough) return;
  throw new ConfigurationError(
    `Cannot call the ${part} model: ${name} is ${value}, which allows no calls; use a larger number.`,
  );
}

const mostConnections = 65_535;

export function modelPool(part: ModelPart, maxConcurrency: number = defaultMaxConcurrency): HttpClient {
  return createHttpPool({ boundary: boundaryOf(part), connections: Math.min(maxConcurrency, mostConnections) });
}
