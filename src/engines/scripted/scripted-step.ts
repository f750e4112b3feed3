// The steps of a scripted engine, and what comes of each as a result or a failure.

import { AttributedError, ConfigurationError } from "../../core/failure.ts";
import type { EngineFailureCode, SampleRequest, SampleResult } from "../../core/engine.ts";
import type { Tokenizer } from "../../core/renderer.ts";
import type { Finish } from "../../core/turn.ts";
import { createRandom } from "../../lib/random.ts";

/** Ids, or text that the engine's tokenizer turns into ids; added tokens stand by their names. */
export type ScriptedTokens = ArrayLike<number> | string;

type Timing = {
  /** How long the answer takes, on the engine's clock. Default 0. */
  readonly delayMs?: number;
};

type Sampled = Timing & {
  /** One per token; `null`: the engine reports none. Default: -1/8 to -1, again and again. */
  readonly logprobs?: ArrayLike<number> | null;
  /** The version of the weights from this answer on. Default: as before. */
  readonly weightVersion?: string;
  /** Default `null`: the engine does not say. */
  readonly cachedTokens?: number | null;
};

export type ScriptedStep =
  /** Tokens are sampled. Ends with "stop" when the last is a stop token, else with "length"; `finish` says otherwise. */
  | (Sampled & { readonly type: "reply"; readonly tokens: ScriptedTokens; readonly finish?: "stop" | "length" })
  /** The server aborts it, after some tokens or (default) none. */
  | (Sampled & { readonly type: "abort"; readonly tokens?: ScriptedTokens })
  /** Tokens that mean nothing, drawn from a seed: what an untrained policy says. Ends with "length". */
  | (Sampled & {
      readonly type: "garbage";
      readonly count: number;
      readonly seed: number;
      readonly vocabularySize: number;
    })
  /** No turn happens. `retryable` defaults to what the code means over the wire. */
  | (Timing & {
      readonly type: "failure";
      readonly code: EngineFailureCode;
      readonly retryable?: boolean;
      readonly retryAfterMs?: number;
    })
  /** No answer comes until the request is cancelled, or aborted; then with these tokens (default: none). */
  | { readonly type: "hang"; readonly tokens?: ScriptedTokens };

/** Everything an outcome depends on beside its step. */
export type PlayContext = {
  readonly engine: string;
  readonly tokenizer: Tokenizer | null;
  readonly dispatchVersion: string | null;
  readonly replyVersion: string | null;
};

const passing: ReadonlySet<EngineFailureCode> = new Set<EngineFailureCode>([
  "unreachable",
  "connection-lost",
  "timeout",
  "overloaded",
  "server-error",
  "bad-reply",
]);

/** Throws an `AttributedError` for a failure. */
export function playStep(
  step: Exclude<ScriptedStep, { type: "hang" }>,
  request: SampleRequest,
  context: PlayContext,
): SampleResult {
  switch (step.type) {
    case "reply": {
      const tokens = toIds(step.tokens, context.tokenizer);
      const last = tokens.at(-1);
      const isStop = last !== undefined && request.stopTokenIds.includes(last);
      const finish = finishOf(step.finish ?? (isStop ? "stop" : "length"), isStop ? last : null);
      return result({ tokens, finish, sampled: step }, request, context);
    }
    case "abort":
      return result(
        { tokens: toIds(step.tokens ?? [], context.tokenizer), finish: finishOf("abort", null), sampled: step },
        request,
        context,
      );
    case "garbage": {
      const random = createRandom(step.seed);
      const tokens = Uint32Array.from({ length: step.count }, () => random.integer(step.vocabularySize));
      return result({ tokens, finish: finishOf("length", null), sampled: step }, request, context);
    }
    case "failure":
      throw failure(step.code, {
        engine: context.engine,
        state: `the script says "${step.code}"`,
        retryable: step.retryable ?? passing.has(step.code),
        retryAfterMs: step.retryAfterMs ?? null,
      });
    default:
      return step satisfies never;
  }
}

export function failure(
  code: EngineFailureCode,
  options: {
    readonly engine: string;
    readonly state: string;
    readonly retryable: boolean;
    readonly retryAfterMs?: number | null;
  },
): AttributedError {
  const message = `Cannot sample from engine "${options.engine}": ${options.state}.`;
  return new AttributedError(
    { boundary: "engine", code, message, retryable: options.retryable, cause: null },
    { retryAfterMs: options.retryAfterMs ?? null },
  );
}

/** Throws a `ConfigurationError` for text without a tokenizer. */
export function toIds(tokens: ScriptedTokens, tokenizer: Tokenizer | null): Uint32Array {
  if (typeof tokens !== "string") return Uint32Array.from(tokens);
  if (tokenizer !== null) return tokenizer.encode(tokens);
  throw new ConfigurationError(
    `Cannot run the text ${JSON.stringify(tokens.slice(0, 40))}: the scripted engine has no tokenizer; give it one, or give ids.`,
  );
}

function finishOf(reason: Finish["reason"], matched: number | null): Finish {
  return { reason, matched, raw: null };
}

function result(
  outcome: { readonly tokens: Uint32Array; readonly finish: Finish; readonly sampled: Sampled },
  request: SampleRequest,
  context: PlayContext,
): SampleResult {
  const { sampled } = outcome;
  // A script may say more than was requested; an engine may not.
  const most = request.sampling.maxNewTokens ?? Infinity;
  const isCut = outcome.tokens.length > most;
  const tokens = isCut ? outcome.tokens.slice(0, most) : outcome.tokens;
  return {
    sampledTokens: tokens,
    logprobs: logprobsOf(sampled.logprobs, tokens.length),
    finish: isCut && outcome.finish.reason !== "abort" ? finishOf("length", null) : outcome.finish,
    weightSpans: [{ tokenCount: tokens.length, dispatch: context.dispatchVersion, reply: context.replyVersion }],
    usage: {
      promptTokens: request.prompt.length,
      completionTokens: tokens.length,
      cachedTokens: sampled.cachedTokens ?? null,
    },
  };
}

function logprobsOf(given: ArrayLike<number> | null | undefined, count: number): Float32Array | null {
  if (given === null) return null;
  // Exact in 32 bits, and different from place to place, so that a shift shows.
  return Float32Array.from({ length: count }, (_, place) => given?.[place] ?? -((place % 8) + 1) / 8);
}
