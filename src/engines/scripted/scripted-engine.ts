// An engine that follows a script: for tests, docs, and loops that need no model. It is not a mock:
// it fulfils the whole contract, operations and faults included, and both a call without a step and
// an unused step are errors.

import {
  type Engine,
  type EngineControl,
  type EngineFailureCode,
  firstStop,
  type SampleOptions,
  type SampleRequest,
  type SampleResult,
} from "../../core/engine.ts";
import type { ConstraintKind } from "../../core/constraint.ts";
import { AttributedError, ConfigurationError } from "../../core/failure.ts";
import type { Tokenizer } from "../../core/tokenizer.ts";
import type { Finish } from "../../core/turn.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { createRandom } from "../../lib/random.ts";

/** Ids, or text that the engine's tokenizer turns into ids; added tokens are written by name. */
export type ScriptedTokens = ArrayLike<number> | string;

type Timing = {
  /** Delay of the answer in milliseconds, on the engine's clock. Default 0. */
  readonly delayMs?: number;
};

type Sampled = Timing & {
  /** One logprob per token; `null` if the engine reports none. Default: -1/8 to -1, repeating. */
  readonly logprobs?: ArrayLike<number> | null;
  /** The version of the weights from this answer on. Default: unchanged. */
  readonly weightVersion?: string;
  /** Default `null`: the engine does not report it. */
  readonly cachedTokens?: number | null;
  /** One allowed mass per token. Default `null`: the engine does not report it. */
  readonly allowedMass?: ArrayLike<number> | null;
};

export type ScriptedStep =
  /**
   * Samples these tokens. Ends with "stop" if the last is a stop token, else with "length";
   * `finish` overrides this.
   */
  | (Sampled & { readonly type: "reply"; readonly tokens: ScriptedTokens; readonly finish?: "stop" | "length" })
  /** The server aborts the request, after some tokens or (default) none. */
  | (Sampled & { readonly type: "abort"; readonly tokens?: ScriptedTokens })
  /** Random tokens drawn from a seed, like those of an untrained policy. Ends with "length". */
  | (Sampled & {
      readonly type: "garbage";
      readonly count: number;
      readonly seed: number;
      readonly vocabularySize: number;
    })
  /**
   * The call fails without a turn. `retryable` defaults to the value that the code has over the
   * wire.
   */
  | (Timing & {
      readonly type: "failure";
      readonly code: EngineFailureCode;
      readonly retryable?: boolean;
      readonly retryAfterMs?: number;
    })
  /**
   * No answer comes until the request is cancelled or aborted; then it ends with these tokens
   * (default: none), which stream at once.
   */
  | { readonly type: "hang"; readonly tokens?: ScriptedTokens };

/** A step, or just the tokens of a reply. */
export type ScriptedAnswer = ScriptedStep | ScriptedTokens;

/** Returns the step for a request; `call` counts from 0. */
export type ScriptedFunction = (
  request: SampleRequest,
  context: { readonly call: number },
) => ScriptedAnswer | Promise<ScriptedAnswer>;

/** A request with a copy of its prompt at the time of the call. */
export type ScriptedRequest = Omit<SampleRequest, "prompt"> & { readonly prompt: Uint32Array };

export type ScriptedEngineOptions = {
  /** Answers, one per call in order, or a function that returns the answer of each call. */
  readonly script: readonly ScriptedAnswer[] | ScriptedFunction;
  /** Turns text into ids. Default `null`: the script has ids only. */
  readonly tokenizer?: Tokenizer | null;
  /** The version of the weights until a step names another. Default `null`: no version. */
  readonly weightVersion?: string | null;
  /**
   * Kinds of constraints that it takes. Its script is then responsible for a text that satisfies
   * them. Default: none.
   */
  readonly constraints?: readonly ConstraintKind[];
  /** Measures delays. Default: the system clock. */
  readonly clock?: Clock;
};

export interface ScriptedEngine extends Engine, EngineControl {
  /**
   * The requests, one per call, in order. Kept for lists only, because a function may be called any
   * number of times.
   */
  readonly requests: readonly ScriptedRequest[];
  /** Throws if a call had no step, or if steps are unused. */
  verifyDone(): void;
}

/**
 * Creates an engine. Throws a `ConfigurationError` if the script has text without a tokenizer.
 *
 * @example
 * const engine = createScriptedEngine({ script: [[5, 6, 9], { type: "failure", code: "overloaded" }, [7, 9]] });
 */
export function createScriptedEngine(options: ScriptedEngineOptions): ScriptedEngine {
  const { script, tokenizer = null } = options;
  if (typeof script !== "function") {
    for (const answer of script) {
      const step = toStep(answer);
      if ("tokens" in step && step.tokens !== undefined) toIds(step.tokens, tokenizer);
    }
  }
  return new Scripted(options);
}

const passing: ReadonlySet<EngineFailureCode> = new Set<EngineFailureCode>([
  "unreachable",
  "connection-lost",
  "timeout",
  "overloaded",
  "server-error",
  "bad-reply",
]);

/** The reason of an abort by the server, as opposed to one by the caller. */
const abortedByServer = new Error("The request was aborted.");

class Scripted implements ScriptedEngine {
  readonly name = "scripted";
  readonly requests: ScriptedRequest[] = [];
  readonly constraints: readonly ConstraintKind[];
  readonly #options: ScriptedEngineOptions;
  readonly #clock: Clock;
  readonly #live = new Map<AbortController, string>();
  readonly #unexpected: string[] = [];
  #calls = 0;
  #version: string | null;
  /** Callbacks for when generation resumes; `null` while it is not paused. */
  #onContinue: (() => void)[] | null = null;

  constructor(options: ScriptedEngineOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.constraints = options.constraints ?? [];
    this.#version = options.weightVersion ?? null;
  }

  async sample(request: SampleRequest, { signal, onTokens }: SampleOptions = {}): Promise<SampleResult> {
    const cancelled = failure("cancelled", "the caller cancelled it");
    if (signal?.aborted === true) throw cancelled;
    const { constraint = null } = request;
    if (constraint !== null && !this.constraints.includes(constraint.text.type)) {
      throw failure("bad-request", `it takes no constraint of kind "${constraint.text.type}"`);
    }
    const dispatchVersion = this.#version;
    const live = new AbortController();
    const onCancel = (): void => live.abort(cancelled);
    signal?.addEventListener("abort", onCancel, { once: true });
    this.#live.set(live, request.requestId);
    let step: ScriptedStep | null = null;
    try {
      // The step is taken before the first await, so that calls and steps pair up in order.
      step = toStep(await this.#next(request));
      await this.#unpaused(live.signal);
      if (step.type === "hang") {
        onTokens?.(this.#tokensOf(step.tokens ?? [], request));
        return await never(live.signal);
      }
      if (step.delayMs !== undefined) await this.#clock.sleep(step.delayMs, live.signal);
      await this.#unpaused(live.signal);
      if ("weightVersion" in step && step.weightVersion !== undefined) this.#version = step.weightVersion;
      const result = this.#resultOf(step, request, dispatchVersion);
      for (const id of result.sampledTokens) onTokens?.(Uint32Array.of(id));
      return result;
    } catch (error) {
      if (error === abortedByServer) {
        const tokens = step?.type === "hang" ? (step.tokens ?? []) : [];
        return this.#resultOf({ type: "abort", tokens }, request, dispatchVersion);
      }
      if (error instanceof AttributedError) throw error;
      // A function that throws is a fault of the script; the caller still gets the failure that the
      // contract promises.
      throw failure("server-error", `its script threw: ${error instanceof Error ? error.message : String(error)}`);
    } finally {
      this.#live.delete(live);
      signal?.removeEventListener("abort", onCancel);
    }
  }

  async health(): Promise<boolean> {
    return true;
  }

  async isReady(): Promise<boolean> {
    return this.#onContinue === null;
  }

  async weightVersion(): Promise<string | null> {
    return this.#version;
  }

  async abort(requestId: string): Promise<void> {
    for (const [live, id] of this.#live) if (id === requestId) live.abort(abortedByServer);
  }

  async pause(mode: "abort" | "retract" | "in-place"): Promise<void> {
    if (mode === "abort") for (const live of this.#live.keys()) live.abort(abortedByServer);
    this.#onContinue ??= [];
  }

  async continue(): Promise<void> {
    for (const wake of this.#onContinue ?? []) wake();
    this.#onContinue = null;
  }

  async close(): Promise<void> {
    const closed = failure("cancelled", "the engine was closed");
    for (const live of this.#live.keys()) live.abort(closed);
  }

  verifyDone(): void {
    const [unexpected] = this.#unexpected;
    if (unexpected !== undefined) throw new Error(unexpected);
    const { script } = this.#options;
    if (typeof script === "function" || this.#calls === script.length) return;
    throw new Error(
      `Cannot accept the script of engine "${this.name}": ${script.length - this.#calls} of ${script.length} steps were never used; make the calls or leave the steps out.`,
    );
  }

  #next(request: SampleRequest): ScriptedAnswer | Promise<ScriptedAnswer> {
    const { script } = this.#options;
    const call = this.#calls++;
    if (typeof script === "function") return script(request, { call });
    this.requests.push({ ...request, prompt: request.prompt.view().slice() });
    const answer = script[call];
    if (answer !== undefined) return answer;
    const state = `call ${call + 1} has no step, the script has ${script.length}; give it one more step`;
    const error = failure("bad-request", state);
    this.#unexpected.push(error.message);
    throw error;
  }

  #resultOf(
    step: Exclude<ScriptedStep, { type: "hang" }>,
    request: SampleRequest,
    dispatch: string | null,
  ): SampleResult {
    if (step.type === "failure") {
      const { code, retryable = passing.has(code), retryAfterMs = null } = step;
      throw failure(code, `the script says "${code}"`, { retryable, retryAfterMs });
    }
    const scripted =
      step.type === "garbage" ? garbage(step) : toIds(step.tokens ?? [], this.#options.tokenizer ?? null);
    const { stopStrings = null } = request;
    const stop = stopStrings === null || step.type === "abort" ? null : firstStop(scripted, stopStrings);
    const said = stop === null ? scripted : scripted.subarray(0, stop.count);
    const tokens = this.#tokensOf(said, request);
    const { logprobs: given, cachedTokens = null, allowedMass = null } = step;
    return {
      sampledTokens: tokens,
      // The values are exact in 32 bits and differ between positions, so that a shift is visible.
      logprobs:
        given === null
          ? null
          : Float32Array.from({ length: tokens.length }, (_, place) => given?.[place] ?? -((place % 8) + 1) / 8),
      finish: finishOf(step, { said, stopString: stop?.matched ?? null }, request),
      weightSpans: [{ tokenCount: tokens.length, dispatch, reply: this.#version }],
      usage: { promptTokens: request.prompt.length, completionTokens: tokens.length, cachedTokens },
      ...(allowedMass === null ? {} : { allowedMass: Float32Array.from(allowedMass).slice(0, tokens.length) }),
    };
  }

  /** A script may contain more tokens than requested; an engine may not return them. */
  #tokensOf(said: ScriptedTokens, { sampling }: SampleRequest): Uint32Array {
    return toIds(said, this.#options.tokenizer ?? null).slice(0, sampling.maxNewTokens ?? Infinity);
  }

  async #unpaused(signal: AbortSignal): Promise<void> {
    while (this.#onContinue !== null) {
      const waiting = this.#onContinue;
      await Promise.race([new Promise<void>((resolve) => void waiting.push(resolve)), never(signal)]);
    }
    signal.throwIfAborted();
  }
}

function finishOf(
  step: { readonly type: string; readonly finish?: "stop" | "length" },
  { said, stopString }: { readonly said: Uint32Array; readonly stopString: string | null },
  request: SampleRequest,
): Finish {
  const { maxNewTokens } = request.sampling;
  if (step.type === "abort") return { reason: "abort", matched: null, raw: null };
  const last = said.at(-1) ?? null;
  const isStop = step.type === "reply" && last !== null && request.stopTokenIds.includes(last);
  if (said.length > (maxNewTokens ?? Infinity)) return { reason: "length", matched: null, raw: null };
  if (stopString !== null) return { reason: "stop", matched: stopString, raw: null };
  if (step.type === "garbage") return { reason: "length", matched: null, raw: null };
  return { reason: step.finish ?? (isStop ? "stop" : "length"), matched: isStop ? last : null, raw: null };
}

function garbage({ count, seed, vocabularySize }: Extract<ScriptedStep, { type: "garbage" }>): Uint32Array {
  const random = createRandom(seed);
  return Uint32Array.from({ length: count }, () => random.integer(vocabularySize));
}

function failure(
  code: EngineFailureCode,
  state: string,
  { retryable = false, retryAfterMs = null as number | null } = {},
): AttributedError {
  const message = `Cannot sample from engine "scripted": ${state}.`;
  return new AttributedError({ boundary: "engine", code, message, retryable, cause: null }, { retryAfterMs });
}

/** Throws a `ConfigurationError` for text without a tokenizer. */
function toIds(tokens: ScriptedTokens, tokenizer: Tokenizer | null): Uint32Array {
  if (typeof tokens !== "string") return Uint32Array.from(tokens);
  if (tokenizer !== null) return tokenizer.encode(tokens);
  throw new ConfigurationError(
    `Cannot encode ${JSON.stringify(tokens.slice(0, 40))}: the scripted engine has no tokenizer; pass one, or script token ids.`,
  );
}

function toStep(answer: ScriptedAnswer): ScriptedStep {
  return typeof answer === "object" && "type" in answer ? answer : { type: "reply", tokens: answer };
}

/** Rejects with the reason of the signal; otherwise never settles. */
function never(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
