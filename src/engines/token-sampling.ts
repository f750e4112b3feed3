// Common code of the engines that sample in this process: request parsing, token sampling, and the
// result of a call. Tokens are sampled in SGLang's order: penalties and biases, temperature,
// softmax; the logprob is taken from this distribution; then top-k and top-p together, then min-p;
// then a draw among the remaining tokens.

import {
  type Engine,
  type EngineFailureCode,
  type SampleOptions,
  type SampleRequest,
  type SampleResult,
  type SamplingParams,
  type StopStrings,
} from "../core/engine.ts";
import { isTruncated } from "../core/truncation.ts";
import { AttributedError, ConfigurationError } from "../core/failure.ts";
import { scoreProblem, type ScoreOptions, type Scorer, type ScoreRequest, type ScoreResult } from "../core/scoring.ts";
import type { Finish } from "../core/turn.ts";
import { subscribeToAbort } from "../lib/deadline.ts";
import { deriveSeed } from "../lib/random.ts";

export type GenerationParams = {
  /** Already limited by the context length. */
  readonly maxNewTokens: number;
  /** Stop tokens are ignored until this many tokens are sampled. */
  readonly minNewTokens: number;
  /** Never 0: greedy sampling is `topK` 1 at temperature 1. */
  readonly temperature: number;
  readonly topP: number;
  /** -1 stands for the whole vocabulary. */
  readonly topK: number;
  readonly minP: number;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  readonly repetitionPenalty: number;
  readonly stopTokenIds: ReadonlySet<number>;
  /** Added to the logits of a token before sampling. */
  readonly logitBias: ReadonlyMap<number, number>;
  readonly seed: number;
  /** True: the kept ids are reported, and logprobs are over them. @default false */
  readonly keepsMask?: boolean;
};

/** Number of times that each token was sampled so far. */
export type TokenCounts = ReadonlyMap<number, number>;

/** Applies penalties and biases to the logits, based on the tokens sampled so far. */
export function adjustLogits(logits: Float32Array, params: GenerationParams, counts: TokenCounts): void {
  const { frequencyPenalty, presencePenalty, repetitionPenalty } = params;
  if (frequencyPenalty !== 0 || presencePenalty !== 0 || repetitionPenalty !== 1) {
    for (const [token, count] of counts) {
      const logit = logits[token]! - frequencyPenalty * count - presencePenalty;
      logits[token] = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty;
    }
  }
  for (const [token, bias] of params.logitBias) logits[token]! += bias;
  let sampled = 0;
  for (const count of counts.values()) sampled += count;
  if (sampled < params.minNewTokens) for (const token of params.stopTokenIds) logits[token] = -Infinity;
}

/**
 * The reason why a generation ends after these tokens; `null` if it continues. The token limit is
 * checked first, as in SGLang.
 */
export function endingOf(params: GenerationParams, sampled: ArrayLike<number>): "matched" | "length" | null {
  const { maxNewTokens, minNewTokens, stopTokenIds } = params;
  if (sampled.length >= maxNewTokens) return "length";
  if (sampled.length < Math.max(1, minNewTokens)) return null;
  return stopTokenIds.has(sampled[sampled.length - 1]!) ? "matched" : null;
}

export type ChosenToken = {
  readonly token: number;
  readonly logprob: number;
  /** Ids that it was drawn from; `null` unless `keepsMask`. */
  readonly kept: readonly number[] | null;
};

/**
 * Samples a token from probabilities that need not sum to 1: `powers` are e^(logit / temperature)
 * up to a common factor, `sum` their sum. `uniform` returns numbers in [0, 1) and is not called if
 * there is only one candidate.
 */
export function chooseToken(
  powers: Float32Array,
  sum: number,
  params: GenerationParams,
  uniform: () => number,
): ChosenToken {
  const { topK, topP, minP, keepsMask = false } = params;
  const chosen = (token: number, total: number, kept: readonly number[] | null): ChosenToken => ({
    token,
    logprob: Math.min(0, Math.log(powers[token]!) - Math.log(keepsMask && kept !== null ? total : sum)),
    kept: keepsMask ? kept : null,
  });
  if (topK === 1) {
    const token = highest(powers);
    return chosen(token, powers[token]!, [token]);
  }
  const isWhole = topK === -1 && topP >= 1 && minP <= 0;
  if (isWhole) return chosen(drawFrom(powers, null, uniform() * sum), sum, null);
  const candidates = truncate(powers, sum, params);
  const total = candidates.reduce((subtotal, token) => subtotal + powers[token]!, 0);
  return chosen(drawFrom(powers, candidates, uniform() * total), total, candidates);
}

/** The first token (of `tokens`, or of all) at which the running sum exceeds the threshold. */
function drawFrom(powers: Float32Array, tokens: readonly number[] | null, threshold: number): number {
  const count = tokens?.length ?? powers.length;
  let running = 0;
  let last = 0;
  for (let index = 0; index < count; index++) {
    const token = tokens === null ? index : tokens[index]!;
    const power = powers[token]!;
    running += power;
    if (running > threshold) return token;
    if (power > 0) last = token;
  }
  // Reached only if rounding made the running sum smaller than the total.
  return last;
}

/** The remaining tokens, most probable first; ties are ordered by id. */
function truncate(powers: Float32Array, sum: number, { topK, topP, minP }: GenerationParams): readonly number[] {
  const order = Array.from(powers.keys()).sort((a, b) => powers[b]! - powers[a]! || a - b);
  const most = topK === -1 ? order.length : topK;
  const least = powers[order[0]!]! * minP;
  const kept: number[] = [];
  let before = 0;
  for (const token of order) {
    const power = powers[token]!;
    if (kept.length >= most || before > topP * sum || power < least) break;
    kept.push(token);
    before += power;
  }
  return kept;
}

function highest(powers: Float32Array): number {
  let best = 0;
  for (let token = 1; token < powers.length; token++) if (powers[token]! > powers[best]!) best = token;
  return best;
}

/**
 * Creates an error of the boundary; `state` is the part of the message after the colon. Not
 * retryable by default.
 */
type FailureMaker = (
  code: EngineFailureCode,
  state: string,
  options?: { readonly retryable?: boolean; readonly cause?: unknown },
) => AttributedError;

/** `what` completes "Cannot ...". */
function failureMaker(what: string): FailureMaker {
  return (code, state, { retryable = false, cause } = {}) => {
    const message = `Cannot ${what}: ${state}.`;
    const causeText = cause instanceof Error ? cause.message : null;
    return new AttributedError({ boundary: "engine", code, message, retryable, cause: causeText }, { cause });
  };
}

/** The reason why a generation ended. "matched": a stop token was sampled. */
export type Ending = "matched" | "length" | "abort";

export type Generated = {
  readonly reason: Ending;
  readonly ids: Uint32Array;
  /** One logprob per id. */
  readonly logprobs: Float32Array;
  /** `samplingMask` of the engine's result; `null` unless the parameters have `keepsMask`. */
  readonly mask: Uint32Array | null;
  /** Runs of tokens sampled by the same weights, in order. */
  readonly versions: readonly { readonly version: string | null; readonly count: number }[];
  /** Prompt tokens that needed no computation. */
  readonly cachedTokens: number;
};

/** A generation in flight. After `abort` it settles soon, with the tokens so far. */
export type Generating = Live<Generated>;

/** A score in flight. After `abort` it settles soon, with `null`. */
export type Scoring = Live<ScoreResult | null>;

type Live<T> = { readonly finished: Promise<T>; readonly abort: () => void };

/** Options of a generation besides its prompt and parameters. */
export type GenerateOptions = {
  readonly routingKey: string | null;
  /** Receives ids as they are sampled; `null` if they are not needed before the end. */
  readonly onTokens: ((ids: ArrayLike<number>) => void) | null;
};

/**
 * Base of the engines in this process: parses calls, lets `generate` run them, and cancels or
 * aborts them in flight.
 */
export abstract class InProcessEngine implements Engine, Scorer {
  abstract readonly name: string;
  protected readonly failure: FailureMaker;
  protected readonly scoreFailure: FailureMaker;
  /** A different seed for each call without one. */
  protected readonly freshSeed: () => number;
  protected isClosed = false;
  readonly #limits: ModelLimits;
  readonly #live = new Set<Live<unknown> & { readonly requestId: string }>();

  /** `engine` is the name for messages. */
  constructor(engine: string, limits: ModelLimits, seed: number) {
    let calls = 0;
    this.#limits = limits;
    this.freshSeed = () => deriveSeed(seed, "call", calls++);
    this.failure = failureMaker(`sample from ${engine}`);
    this.scoreFailure = failureMaker(`score tokens with ${engine}`);
  }

  samplingMaskProblem(sampling: SamplingParams): string | null {
    return sampling.temperature < 1e-6 || isTruncated(sampling)
      ? null
      : "every id is kept; set top-k, top-p or min-p, or do not request the kept ids";
  }

  async sample(request: SampleRequest, { signal, onTokens }: SampleOptions = {}): Promise<SampleResult> {
    const { failure, freshSeed } = this;
    const maskProblem = request.samplingMask === true ? this.samplingMaskProblem(request.sampling) : null;
    if (maskProblem !== null) throw failure("bad-request", maskProblem);
    if (this.isClosed) throw failure("cancelled", "it was closed");
    if ((request.constraint ?? null) !== null) {
      throw failure("bad-request", "it has no grammars for constraints; remove the constraint, or use SGLang or vLLM");
    }
    const { prompt, params } = readRequest(request, this.#limits, { freshSeed, failure });
    const promptTokens = prompt.length;
    if (signal?.aborted === true) throw failure("cancelled", "the caller cancelled it");
    const stops = new StopWatch(request.stopStrings ?? null);
    const tell = (ids: ArrayLike<number>): void => {
      const kept = stops.take(ids);
      if (stops.isStopped) live.abort();
      // Tokens sampled after a cancellation are discarded.
      if (signal?.aborted !== true && kept > 0) onTokens?.(Uint32Array.from(ids).subarray(0, kept));
    };
    const isWatched = onTokens !== undefined || stops.isWatching;
    const options = { routingKey: request.routingKey, onTokens: isWatched ? tell : null };
    const live = this.#track(this.generate(prompt, params, options), request.requestId);
    const generated = await this.#unlessCancelled(live, signal);
    const { ids, logprobs, mask, finish, versions, cachedTokens } = stops.cut(generated);
    return {
      sampledTokens: ids,
      logprobs,
      ...(mask === null ? {} : { samplingMask: mask, isRenormalized: true }),
      finish,
      weightSpans: versions.map(({ version, count }) => ({ tokenCount: count, dispatch: version, reply: version })),
      usage: { promptTokens, completionTokens: ids.length, cachedTokens },
    };
  }

  async score(request: ScoreRequest, { signal }: ScoreOptions = {}): Promise<ScoreResult> {
    const { scoreFailure: failure } = this;
    if (this.isClosed) throw failure("cancelled", "it was closed");
    const { vocabularySize, contextLength } = this.#limits;
    const problem = scoreProblem(request, vocabularySize);
    if (problem !== null) throw failure("bad-request", problem);
    const { length } = request.tokens;
    if (length > contextLength) {
      throw failure("context-length", `there are ${length} tokens, expected at most ${contextLength}`);
    }
    if (signal?.aborted === true) throw failure("cancelled", "the caller cancelled it");
    const live = this.#track(this.scoreTokens({ ...request, tokens: request.tokens.slice() }), request.requestId);
    const scored = await this.#unlessCancelled(live, signal, failure);
    if (scored === null) throw failure("cancelled", "it was aborted");
    return scored;
  }

  async abort(requestId: string): Promise<void> {
    for (const live of this.#live) if (live.requestId === requestId) live.abort();
  }

  abstract close(): Promise<void>;

  /** `finished` may reject only with an `AttributedError`. */
  protected abstract generate(prompt: Uint32Array, params: GenerationParams, options: GenerateOptions): Generating;

  /** Takes a valid request. `finished` may reject only with an `AttributedError`. */
  protected abstract scoreTokens(request: ScoreRequest): Scoring;

  /** Aborts all calls; settles once none is in flight. */
  protected async abortAll(): Promise<void> {
    for (const live of this.#live) live.abort();
    await Promise.allSettled([...this.#live].map(({ finished }) => finished));
  }

  /** A cancelled call continues until it is aborted, and keeps its slot meanwhile. */
  #track<T>(call: Live<T>, requestId: string): Live<T> {
    const live = { ...call, requestId };
    this.#live.add(live);
    const leave = (): void => void this.#live.delete(live);
    live.finished.then(leave, leave);
    return live;
  }

  /** Rejects as soon as the signal aborts; the call then ends too. */
  #unlessCancelled<T>(
    { finished, abort }: Live<T>,
    signal: AbortSignal | undefined,
    failure: FailureMaker = this.failure,
  ): Promise<T> {
    if (signal === undefined) return finished;
    return new Promise((resolve, reject) => {
      const leave = subscribeToAbort(signal, () => {
        abort();
        reject(failure("cancelled", "the caller cancelled it"));
      });
      finished.then(resolve, reject).finally(leave);
    });
  }
}

/**
 * The stop strings of one generation. Its engine knows only ids, so it samples a little further,
 * and the excess is cut off.
 */
class StopWatch {
  readonly #completes: ReturnType<StopStrings["watch"]> | null;
  #seen = 0;
  #stop: { readonly count: number; readonly matched: string } | null = null;

  constructor(stopStrings: StopStrings | null) {
    this.#completes = stopStrings?.watch() ?? null;
  }

  get isWatching(): boolean {
    return this.#completes !== null;
  }

  get isStopped(): boolean {
    return this.#stop !== null;
  }

  /** Number of these next ids that belong to the result. */
  take(ids: ArrayLike<number>): number {
    for (let at = 0; at < ids.length && this.#stop === null; at++) {
      this.#seen++;
      const matched = this.#completes?.(ids[at]!) ?? null;
      if (matched === null) continue;
      this.#stop = { count: this.#seen, matched };
      return at + 1;
    }
    return this.#stop === null ? ids.length : 0;
  }

  /** The generated tokens, without those after the stop string. */
  cut(generated: Generated): Omit<Generated, "reason"> & { readonly finish: Finish } {
    this.take(generated.ids.subarray(this.#seen));
    const stop = this.#stop;
    if (stop === null) return { ...generated, finish: finishOf(generated.reason, generated.ids) };
    const { ids, logprobs, mask, versions, cachedTokens } = generated;
    let left = stop.count;
    const kept = versions.map(({ version, count }) => {
      const ofThis = Math.min(count, left);
      left -= ofThis;
      return { version, count: ofThis };
    });
    return {
      ids: ids.slice(0, stop.count),
      logprobs: logprobs.slice(0, stop.count),
      mask: mask === null ? null : beginningOfMask(mask, stop.count),
      finish: { reason: "stop", matched: stop.matched, raw: null },
      versions: kept.filter(({ count }) => count > 0),
      cachedTokens,
    };
  }
}

/** The part of a mask that belongs to the first tokens. */
function beginningOfMask(mask: Uint32Array, tokens: number): Uint32Array {
  let end = 0;
  for (let token = 0; token < tokens; token++) end += 1 + mask[end]!;
  return mask.slice(0, end);
}

export type ModelLimits = {
  readonly vocabularySize: number;
  /** Maximum number of tokens of prompt and answer together. */
  readonly contextLength: number;
};

/**
 * Copies the prompt and fills in the parameters. A token limit beyond the context is lowered to it:
 * the generation then ends with "length". Throws an `AttributedError` with code "bad-request" or
 * "context-length".
 */
function readRequest(
  request: SampleRequest,
  limits: ModelLimits,
  { freshSeed, failure }: { readonly freshSeed: () => number; readonly failure: FailureMaker },
): { readonly prompt: Uint32Array; readonly params: GenerationParams } {
  const { sampling, stopTokenIds } = request;
  const { vocabularySize, contextLength } = limits;
  const prompt = request.prompt.view().slice();
  if (prompt.length === 0) throw failure("bad-request", "the prompt is empty");
  const unknown = prompt.findIndex((id) => id >= vocabularySize);
  if (unknown >= 0) {
    const state = `token ${unknown} of the prompt is ${prompt[unknown]}, but the vocabulary has ${vocabularySize} tokens`;
    throw failure("bad-request", `${state}; encode prompts with the tokenizer of this model`);
  }
  if (prompt.length >= contextLength) {
    const state = `the prompt has ${prompt.length} tokens, expected fewer than ${contextLength}`;
    throw failure("context-length", state);
  }
  const room = contextLength - prompt.length;
  const extra = readExtra(sampling.extra, failure);
  const isGreedy = sampling.temperature >= 0 && sampling.temperature < 1e-6;
  const params = {
    maxNewTokens: Math.min(sampling.maxNewTokens ?? room, room),
    minNewTokens: extra.minNewTokens,
    temperature: isGreedy ? 1 : sampling.temperature,
    topP: sampling.topP,
    topK: isGreedy ? 1 : sampling.topK,
    minP: sampling.minP,
    frequencyPenalty: extra.frequencyPenalty,
    presencePenalty: extra.presencePenalty,
    repetitionPenalty: sampling.repetitionPenalty,
    stopTokenIds: new Set(stopTokenIds),
    logitBias: new Map(extra.logitBias.filter(([token]) => token < vocabularySize)),
    seed: sampling.seed ?? freshSeed(),
    ...(request.samplingMask === true ? { keepsMask: true } : {}),
  };
  checkRanges(params, failure);
  return { prompt, params };
}

/** Parameters of SGLang that the core does not define and this engine supports too. */
function readExtra(extra: Readonly<Record<string, unknown>>, failure: FailureMaker) {
  const values = { min_new_tokens: 0, frequency_penalty: 0, presence_penalty: 0 };
  let logitBias: (readonly [number, number])[] = [];
  for (const [name, value] of Object.entries(extra)) {
    if (name in values && typeof value === "number") {
      values[name as keyof typeof values] = value;
    } else if (name === "logit_bias" && typeof value === "object" && value !== null) {
      logitBias = Object.entries(value).map(([id, bias]) => [Number(id), Number(bias)]);
    } else {
      const known = [...Object.keys(values), "logit_bias"].join(", ");
      const shown = JSON.stringify(value) ?? typeof value;
      throw failure("bad-request", `sampling.extra has "${name}": ${shown}; it may only hold numbers for ${known}`);
    }
  }
  return {
    minNewTokens: values.min_new_tokens,
    frequencyPenalty: values.frequency_penalty,
    presencePenalty: values.presence_penalty,
    logitBias,
  };
}

function checkRanges(params: GenerationParams, failure: FailureMaker): void {
  const { temperature, topP, topK, minP, maxNewTokens, repetitionPenalty } = params;
  const ranges: readonly (readonly [name: string, value: number, isFine: boolean, expected: string])[] = [
    ["temperature", temperature, temperature > 0 && temperature < Infinity, "0 or more"],
    ["topP", topP, topP > 0 && topP <= 1, "more than 0 and at most 1"],
    ["topK", topK, topK === -1 || (Number.isInteger(topK) && topK >= 1), "-1 or at least 1"],
    ["minP", minP, minP >= 0 && minP <= 1, "0 to 1"],
    ["maxNewTokens", maxNewTokens, Number.isInteger(maxNewTokens) && maxNewTokens >= 0, "0 or more"],
    [
      "repetitionPenalty",
      repetitionPenalty,
      repetitionPenalty > 0 && repetitionPenalty <= 2,
      "more than 0 and at most 2",
    ],
  ];
  for (const [name, value, isFine, expected] of ranges) {
    if (!isFine) throw failure("bad-request", `${name} is ${value}, expected ${expected}`);
  }
}

function finishOf(ending: Ending, ids: ArrayLike<number>): Finish {
  if (ending !== "matched") return { reason: ending, matched: null, raw: null };
  return { reason: "stop", matched: ids[ids.length - 1] ?? null, raw: null };
}

/** Throws a `ConfigurationError` if an option of `engine` is out of range. */
export function inRange(engine: string, name: string, value: number, [least, most]: readonly [number, number]): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new ConfigurationError(
    `Cannot create ${engine}: ${name} is ${value}, expected an integer from ${least} to ${most}.`,
  );
}
