// One turn of an episode: an engine call with its retries and its deadline, and further calls when the server aborts it for
// new weights. Failed attempts and aborts go into the turn's log. Environment and user are not involved.
//
//   call ─┬─ reply ──────────────────────────► whole
//    ▲    ├─ retryable fault: wait, call again
//    │    ├─ other fault ────────────────────► fails; its tokens are recorded, and dropped with the episode
//    │    └─ abort ──┬─ continue: wait until the server takes requests ─┐
//    │               ├─ restart ──────────────────────────────────────► discarded
//    │               └─ end, or once too often ───────────────────────► the episode ends
//    └── prompt + the tokens so far ◄───────────────────────────────────┘

import type { Engine, SampleOptions, SampleRequest, SampleResult, StopStrings } from "../../core/engine.ts";
import { type Attempt, attribute, AttributedError, type Failure, faultAt } from "../../core/failure.ts";
import type { TokenBuffer } from "../../core/token-buffer.ts";
import type { Finish, Turn } from "../../core/turn.ts";
import { DeadlineError, type DeadlineRunner } from "../../lib/deadline.ts";
import { retry } from "../../lib/limits.ts";
import { createRandom, deriveSeed } from "../../lib/random.ts";
import type { ResolvedOptions, TurnExperts } from "./episode-options.ts";
import { type Ending, endingOf, stop } from "./step-deadlines.ts";

export type TurnRequest = {
  readonly prompt: TokenBuffer;
  readonly stopTokenIds: readonly number[];
  /**
   * Stop strings as in the engine's request; a string may begin in one part and end in the next.
   * @default null
   */
  readonly stopStrings?: StopStrings | null;
  readonly turn: number;
  /** Sampled tokens that the episode may still spend; `null`: no bound. */
  readonly budget: number | null;
  /** Number of times that this turn was sampled before, and discarded. */
  readonly discarded: number;
  /**
   * Receives the tokens of all parts as they are sampled. Emitted tokens cannot be retracted, so a
   * call that has streamed is never retried. `null`: tokens are only needed at the end.
   */
  readonly onTokens: SampleOptions["onTokens"] | null;
  /** Constraint as in the engine's request; a turn that the server aborts is then sampled again. @default null */
  readonly constraint?: SampleRequest["constraint"];
  /** Takes the experts that the calls report. @default null */
  readonly experts?: TurnExperts | null;
  /** Requests the kept ids of each token. @default false */
  readonly samplingMask?: boolean;
};

/** Result of a turn, and its consequence for the episode. */
export type SampledTurn = {
  readonly result: SampleResult & Pick<Turn, "truncated">;
  /** Ids of its calls, as in `Turn`. */
  readonly requestIds: readonly string[];
  readonly next:
    | { readonly type: "read" }
    /** An aborted attempt, to be dropped. */
    | { readonly type: "again" }
    /** The tokens so far belong to a turn that is never read, because the episode ends. */
    | { readonly type: "end"; readonly ending: Ending };
};

type TurnContext = {
  readonly options: ResolvedOptions;
  /** Deadlines of this episode. */
  readonly deadlines: DeadlineRunner;
  readonly attempts: Attempt[];
};

/**
 * Rejects with an `AttributedError` at boundary "engine" when nothing was sampled; `attempts` then
 * holds every failed attempt but the last.
 */
export async function sampleTurn(engine: Engine, request: TurnRequest, context: TurnContext): Promise<SampledTurn> {
  const sampled = await sampleParts(engine, request, context);
  const { topP, topK, minP, extra } = context.options.sampling;
  if (topP === 1 && topK === -1 && minP === 0 && Object.keys(extra).length === 0) return sampled;
  const { withTruncation } = await import("./kept-ids.ts");
  return { ...sampled, result: withTruncation(sampled.result, context.options.sampling) };
}

async function sampleParts(engine: Engine, request: TurnRequest, context: TurnContext): Promise<SampledTurn> {
  const { options, attempts } = context;
  const { onAbort, maxAborts } = options.engineAbort;
  const bound = newTokens(request, options);
  const parts: SampleResult[] = [];
  const requestIds: string[] = [];
  const calls = turnCalls(engine, request, context);
  const { experts = null } = request;
  const isConstrained = (request.constraint ?? null) !== null;
  let { prompt } = request;
  for (let aborts = request.discarded; ; aborts++) {
    try {
      if (aborts > 0) {
        const sampled = sampledIn(parts);
        const { untilReady } = await import("./until-ready.ts");
        const waitedMs = await untilReady(engine, options, calls.random);
        attempts.push({ failure: abortFailure(engine, sampled), waitedMs });
      }
      const { part, requestId } = await calls.sample(prompt, {
        maxNewTokens: bound === null ? null : bound - sampledIn(parts),
        stopStrings: stopStringsAfter(parts, request.stopStrings ?? null),
      });
      experts?.take(part, prompt.length);
      parts.push(part);
      if (part.sampledTokens.length > 0) requestIds.push(requestId);
    } catch (error) {
      const fault = attribute(error, "engine");
      if (sampledIn(parts) === 0) throw fault;
      // The tokens so far have filled the context.
      if (fault.failure.code === "context-length") return { ...(await truncated(parts)), requestIds };
      return {
        result: await joinParts(parts),
        requestIds,
        next: { type: "end", ending: endingOf(fault, options.signal) },
      };
    }
    const part = parts.at(-1)!;
    if (part.finish.reason !== "abort") return { result: await joinParts(parts), requestIds, next: { type: "read" } };
    const end = part.sampledTokens.at(-1);
    if (end !== undefined && request.stopTokenIds.includes(end)) {
      // The server aborted after the stop token, before checking for it.
      const result = await joinParts(parts, { ...part.finish, reason: "stop", matched: end });
      return { result, requestIds, next: { type: "read" } };
    }
    const sampled = sampledIn(parts);
    if (bound !== null && sampled >= bound) return { ...(await truncated(parts)), requestIds };
    if (onAbort === "end" || aborts >= maxAborts) {
      return { result: await joinParts(parts), requestIds, next: { type: "end", ending: stop("engine_abort") } };
    }
    if (sampled === 0) continue;
    // A grammar would begin again in the middle of its text.
    if (onAbort === "restart" || isConstrained)
      return { result: await joinParts(parts), requestIds, next: { type: "again" } };
    // A fork, because the tokens so far belong to the record only once the turn is whole.
    if (prompt === request.prompt) {
      const fork = prompt.fork(prompt.length);
      prompt.whenClosed(() => fork.close());
      prompt = fork;
    }
    prompt.append(part.sampledTokens);
  }
}

/**
 * Stop strings for a part that continues others: a string may begin at the end of the earlier
 * parts.
 */
function stopStringsAfter(parts: readonly SampleResult[], stopStrings: StopStrings | null): StopStrings | null {
  if (stopStrings === null || parts.length === 0) return stopStrings;
  const before = parts.map(({ sampledTokens }) => sampledTokens);
  const watch = (): ReturnType<StopStrings["watch"]> => {
    const completes = stopStrings.watch();
    for (const tokens of before) for (const id of tokens) completes(id);
    return completes;
  };
  return { strings: stopStrings.strings, watch };
}

async function truncated(parts: readonly SampleResult[]): Promise<Omit<SampledTurn, "requestIds">> {
  const { raw } = parts.at(-1)!.finish;
  return { result: await joinParts(parts, { reason: "length", matched: null, raw }), next: { type: "read" } };
}

type TurnCalls = {
  readonly random: () => number;
  /** One call, retried after transient faults. `requestId`: as in `Turn`. */
  sample(prompt: TokenBuffer, part: PartOptions): Promise<{ readonly part: SampleResult; readonly requestId: string }>;
};

type PartOptions = { readonly maxNewTokens: number | null; readonly stopStrings: StopStrings | null };

/** The engine calls of one turn. */
function turnCalls(engine: Engine, request: TurnRequest, { options, deadlines, attempts }: TurnContext): TurnCalls {
  const { turn, discarded, stopTokenIds, onTokens } = request;
  const { episodeId, requestTag, turnTimeoutMs: timeoutMs, clock, seedTurns } = options;
  const turnSeed = deriveSeed(options.seed, "turn", turn);
  const random = createRandom(turnSeed).next;
  let calls = 0;
  let parts = 0;
  /** Emitted tokens of the current part. */
  let told = 0;
  /**
   * Tokens of the last part that the engine sampled without streaming them: they are emitted before
   * the next part.
   */
  let untold: Uint32Array = new Uint32Array(0);
  const tell = (tokens: Uint32Array): void => {
    told += tokens.length;
    onTokens?.(tokens);
  };
  const streaming = onTokens === null ? {} : { onTokens: tell };

  const attempt = async (
    prompt: TokenBuffer,
    { sampling, stopStrings }: Required<Pick<SampleRequest, "sampling" | "stopStrings">>,
  ): ReturnType<TurnCalls["sample"]> => {
    const place = { turn, call: discarded * 1000 + ++calls };
    const recordedId = requestIdOf(episodeId, place);
    const requestId = requestTag === "" ? recordedId : requestIdOf(`${episodeId}@${requestTag}`, place);
    const routedExpertsFrom = request.experts?.from ?? null;
    const call: SampleRequest = {
      prompt,
      sampling,
      stopTokenIds,
      requestId,
      routingKey: shortKey(episodeId),
      ...(routedExpertsFrom === null ? {} : { routedExpertsFrom }),
      ...(request.samplingMask === true ? { samplingMask: true } : {}),
      ...(stopStrings === null ? {} : { stopStrings }),
      ...(request.constraint === undefined ? {} : { constraint: request.constraint }),
    };
    try {
      const result = await deadlines.run((signal) => engine.sample(call, { ...streaming, signal }), timeoutMs);
      untold = result.sampledTokens.subarray(told);
      return { part: result, requestId: recordedId };
    } catch (error) {
      if (!(error instanceof DeadlineError)) throw attribute(error, "engine");
      const message = `Cannot finish turn ${turn} of episode "${episodeId}": engine "${engine.name}" did not answer within ${timeoutMs} ms; raise turnTimeoutMs or lower the concurrency.`;
      throw faultAt("engine", "timeout", message, { retryable: true, cause: error });
    }
  };
  /**
   * A separate seed for every part, so that a later part does not repeat the draws of an earlier
   * one.
   */
  const partSeed = (): number | null => {
    const seed = seedTurns ? turnSeed : options.sampling.seed;
    return seed === null || discarded + parts === 0 ? seed : deriveSeed(seed, "part", discarded, parts);
  };

  return {
    random,
    sample(prompt, { maxNewTokens, stopStrings }) {
      const sampling = { ...options.sampling, maxNewTokens, seed: partSeed() };
      parts++;
      if (untold.length > 0) onTokens?.(untold);
      told = 0;
      return retry(() => attempt(prompt, { sampling, stopStrings }), options.retry, {
        clock,
        random,
        signal: options.signal ?? undefined,
        classify: (error) => ({
          retry: error instanceof AttributedError && error.failure.retryable && told === 0,
          afterMs: error instanceof AttributedError ? error.retryAfterMs : null,
        }),
        onRetry: (error, { delayMs }) => {
          attempts.push({ failure: attribute(error, "engine").failure, waitedMs: delayMs });
        },
      });
    },
  };
}

/**
 * Request id in the form that routers read: they take a sticky key from an id by stripping `_r<n>`
 * and `_t<n>`, in that order. No id is the prefix of another, because servers abort by prefix:
 * numbers have four digits, and larger ones have nine and begin with 9.
 */
export function requestIdOf(key: string, { turn, call }: { readonly turn: number; readonly call: number }): string {
  return `${shortKey(key)}_t${digits(turn)}_r${digits(call)}`;
}

function digits(count: number): string {
  return count < 9000 ? String(count).padStart(4, "0") : `9${String(count).padStart(8, "0")}`;
}

/** Routers skip keys longer than 128 bytes, and header values have few characters. */
export function shortKey(text: string): string {
  return [0, 1].map((half) => deriveSeed(half, text).toString(16).padStart(8, "0")).join("");
}

/**
 * Number of tokens that this turn may sample; throws code "context-length" when the context has no
 * space for one.
 */
function newTokens(request: TurnRequest, options: ResolvedOptions): number | null {
  const { maxContextTokens } = options.limits;
  const bounds = [options.sampling.maxNewTokens, request.budget].filter((bound) => bound !== null);
  if (maxContextTokens !== null) {
    // Servers demand prompt + new tokens < context.
    const space = maxContextTokens - 1 - request.prompt.length;
    if (space < 1) {
      throw faultAt(
        "engine",
        "context-length",
        `Cannot request turn ${request.turn} of episode "${options.episodeId}": the prompt has ${request.prompt.length} tokens, but the context has ${maxContextTokens}.`,
      );
    }
    bounds.push(space);
  }
  return bounds.length === 0 ? null : Math.min(...bounds);
}

/**
 * Joins the parts, of which there is at least one. Its finish is that of the last part, or
 * `finish`; its prompt usage is that of the first.
 */
async function joinParts(parts: readonly SampleResult[], finish: Finish | null = null): Promise<SampleResult> {
  const first = parts[0]!;
  const last = parts.at(-1)!;
  if (parts.length === 1) return finish === null ? first : { ...first, finish };
  const total = sampledIn(parts);
  const sampledTokens = new Uint32Array(total);
  const hasLogprobs = parts.every((part) => part.logprobs !== null || part.sampledTokens.length === 0);
  const logprobs = hasLogprobs ? new Float32Array(total) : null;
  let at = 0;
  for (const part of parts) {
    sampledTokens.set(part.sampledTokens, at);
    if (part.logprobs !== null) logprobs?.set(part.logprobs, at);
    at += part.sampledTokens.length;
  }
  return {
    sampledTokens,
    logprobs,
    finish: finish ?? last.finish,
    weightSpans: parts.flatMap(({ weightSpans }) => weightSpans.filter(({ tokenCount }) => tokenCount > 0)),
    usage: { ...first.usage, completionTokens: total },
    ...(parts.some(({ isRenormalized }) => isRenormalized) ? (await import("./kept-ids.ts")).joinMasks(parts) : {}),
  };
}

/** Number of tokens of all parts together. */
function sampledIn(parts: readonly SampleResult[]): number {
  return parts.reduce((sum, part) => sum + part.sampledTokens.length, 0);
}

/** The abort as a failed attempt in the log of a turn. */
function abortFailure(engine: Engine, sampled: number): Failure {
  return {
    boundary: "engine",
    code: "aborted",
    message: `Engine "${engine.name}" aborted the call after ${sampled} tokens.`,
    retryable: true,
    cause: null,
  };
}
