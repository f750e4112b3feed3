// Checks that every server's reply must pass, in any format: values have the right type, ids belong
// to the model, logprobs are log probabilities, nothing follows a stop token, counts agree, and
// weight versions cover the tokens. A reply that fails one of them was not sampled by the model we
// know, so none of it is used for training.

import type { EngineLoad, SampleResult } from "../core/engine.ts";
import type { Finish, FinishReason, WeightSpan } from "../core/turn.ts";
import { copyIds } from "../lib/bytes.ts";
import { badReply, type FailureContext } from "./engine-failure.ts";
import { jsonOf } from "../lib/text.ts";

/** Maximum length, because names in replies are recorded with every turn. */
const longestName = 1000;

export type Fields = Readonly<Record<string, unknown>>;

/** `null` if the value is not an object. */
export function asFields(value: unknown): Fields | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : null;
}

export function isTokenId(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 32;
}

/** Throws an `AttributedError` with code "bad-reply" whose message contains `name`. */
export function readTokenIds(value: unknown, name: string, context: FailureContext): Uint32Array {
  if (!Array.isArray(value)) throw badReply(context, `${name} is not a list`);
  const ids = value as readonly unknown[];
  const wrong = ids.findIndex((id) => !isTokenId(id));
  if (wrong >= 0) throw badReply(context, `${name}[${wrong}] is not a token id`);
  return copyIds(ids as readonly number[]);
}

/** A weight version in the formats of servers: text, or a number in some; `null` if absent. */
export function readWeightVersion(value: unknown, context: FailureContext): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" && value.length <= longestName) return value;
  if (typeof value === "number" && Number.isFinite(value)) return String(value);
  throw badReply(context, `weight_version is not a string of at most ${longestName} characters`);
}

/**
 * A part of a reply as recorded, in JSON. Throws an `AttributedError` with code "bad-reply" if it
 * is too long.
 */
export function rawText(value: unknown, name: string, context: FailureContext): string {
  const raw = JSON.stringify(value);
  if (raw.length <= longestRaw) return raw;
  throw badReply(context, `${name} has ${raw.length} characters, at most ${longestRaw} are expected`);
}

const longestRaw = 10_000;

/** A count; `null` if the value is not a valid one. For numbers that are only displayed. */
export function readCount(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : null;
}

/** Requests are summed, and the fullest cache is the result; `null` if no server reports a load. */
export function sumLoads(loads: readonly (EngineLoad | null)[]): EngineLoad | null {
  const known = loads.filter((load) => load !== null);
  if (known.length === 0) return null;
  const sum = (field: "servers" | "running" | "waiting"): number =>
    known.reduce((total, load) => total + load[field], 0);
  const uses = known.flatMap(({ kvUse }) => (kvUse === null ? [] : [kvUse]));
  const kvUse = uses.length === 0 ? null : Math.max(...uses);
  return { servers: sum("servers"), running: sum("running"), waiting: sum("waiting"), kvUse };
}

/**
 * Rounding raises the logprob of a certain token slightly above 0. In 32 bits, like stored
 * logprobs.
 */
export const mostLogprob = Math.fround(1e-3);

type SampledTokens = {
  readonly sampledTokens: Uint32Array;
  /**
   * Aligned with `sampledTokens`. Very low ones are valid: grammars and biases force tokens of
   * almost zero probability.
   */
  readonly logprobs: Float32Array;
};

type SampledRules = {
  /** Tokens that end a turn; empty if the request made the server sample past them. */
  readonly stopTokenIds: readonly number[];
  /** Upper bound of ids (exclusive); `null` if not known. */
  readonly vocabularySize: number | null;
  readonly maxTokens: number | null;
};

function checkSampled(sampled: SampledTokens, rules: SampledRules, context: FailureContext): void {
  const { sampledTokens, logprobs } = sampled;
  const { stopTokenIds, maxTokens } = rules;
  const vocabularySize = rules.vocabularySize ?? Infinity;
  const count = sampledTokens.length;
  if (maxTokens !== null && count > maxTokens) {
    throw badReply(context, `it has ${count} tokens, expected at most ${maxTokens}`);
  }
  for (let index = 0; index < count; index++) {
    const id = sampledTokens[index] ?? 0;
    const logprob = logprobs[index] ?? Number.NaN;
    if (id >= vocabularySize) {
      throw badReply(context, `sampled token ${index} is ${id}, but the vocabulary has ${vocabularySize} tokens`, {
        remedy: "check that the server serves the model of --model",
      });
    }
    if (!(logprob <= mostLogprob && logprob > -Infinity)) {
      throw badReply(context, `the logprob of sampled token ${index} is ${logprob}`);
    }
    if (index < count - 1 && stopTokenIds.includes(id)) {
      throw badReply(context, `${count - 1 - index} tokens follow the stop token ${id}`);
    }
  }
}

/** True if the request made the server sample past stop tokens. Both SGLang and vLLM use this name. */
export function ignoresStopTokens(extra: Readonly<Record<string, unknown>>): boolean {
  return extra["ignore_eos"] === true;
}

/**
 * The spans of a reply that gives the version of every token (`[{version, start, end}]`); `null` if
 * it gives none. They must be contiguous and cover the tokens, or the reply is refused. An aborted
 * reply is written in the middle of a step: its spans are cut at the last token, and tokens after
 * the last span get a version range from that of the last span to `reply`.
 */
function readWeightSpans(
  value: unknown,
  sampled: { readonly count: number; readonly reply: string | null; readonly isAborted: boolean },
  context: FailureContext,
): readonly WeightSpan[] | null {
  if (value === undefined || value === null) return null;
  if (!Array.isArray(value)) throw badReply(context, "weight_versions is not a list");
  const { count, reply, isAborted } = sampled;
  const spans: WeightSpan[] = [];
  let end = 0;
  let version: string | null = null;
  for (const [index, entry] of (value as readonly unknown[]).entries()) {
    const fields = asFields(entry);
    const { start, end: next } = fields ?? {};
    if (start !== end || typeof next !== "number" || !Number.isInteger(next) || next < end) {
      throw badReply(context, `weight_versions[${index}] does not begin where the last one ends`);
    }
    version = readWeightVersion(fields?.["version"], context);
    if (version === null) throw badReply(context, `weight_versions[${index}] has no version`);
    const tokenCount = Math.min(next, count) - Math.min(end, count);
    if (tokenCount > 0) spans.push({ tokenCount, dispatch: version, reply: version });
    end = next;
  }
  if (end !== count && !isAborted) {
    throw badReply(context, `weight_versions cover ${end} tokens, but it has ${count}`);
  }
  if (version === null || count === 0) return null;
  if (end < count) spans.push({ tokenCount: count - end, dispatch: version, reply: reply ?? version });
  return spans;
}

/** The parts of the request that the reply must match. */
export type ExpectedReply = SampledRules & {
  readonly promptTokens: number;
  /** The last known weight version when the request was sent. */
  readonly dispatchVersion: string | null;
};

/**
 * A reply in a server-independent form. Fields of type `unknown` are unchanged from the server, and
 * are checked here.
 */
export type ReplyClaims = {
  readonly sampled: SampledTokens;
  readonly finish: Finish;
  readonly promptTokens: unknown;
  readonly completionTokens: unknown;
  readonly cachedTokens: unknown;
  /** Version of the reply as a whole. */
  readonly weightVersion: string | null;
  /** Version of every token: see {@link readWeightSpans}. */
  readonly weightVersions: unknown;
  /** Advice against a server that shortens prompts. */
  readonly truncationRemedy: string;
};

/**
 * Throws an `AttributedError` with code "bad-reply" if the claims contradict each other or the
 * request.
 */
export function readSampledReply(claims: ReplyClaims, expected: ExpectedReply, context: FailureContext): SampleResult {
  const { sampled, finish, promptTokens, completionTokens, weightVersion: reply } = claims;
  const { sampledTokens, logprobs } = sampled;
  checkSampled(sampled, expected, context);
  const count = sampledTokens.length;
  const last = sampledTokens.at(-1) ?? null;
  const isAborted = finish.reason === "abort";
  if (finish.reason === "stop" && last === null) throw badReply(context, "it stopped without a token");
  if (finish.reason === "stop" && typeof finish.matched === "number" && finish.matched !== last) {
    throw badReply(context, `it stopped at token ${finish.matched}, but its last token is ${last}`);
  }
  // An aborted request is reported mid-step: its count and its tokens may differ by one step.
  if (!isAborted && completionTokens !== undefined && completionTokens !== null && completionTokens !== count) {
    throw badReply(context, `completion_tokens is ${JSON.stringify(completionTokens)}, but it has ${count} tokens`);
  }
  // A different prompt length means that the tokens continue another prompt.
  if (typeof promptTokens === "number" && promptTokens !== expected.promptTokens) {
    throw badReply(context, `the server read ${promptTokens} prompt tokens, but was sent ${expected.promptTokens}`, {
      retryable: false,
      remedy: claims.truncationRemedy,
    });
  }
  const spans = readWeightSpans(claims.weightVersions, { count, reply, isAborted }, context);
  return {
    sampledTokens,
    logprobs,
    finish,
    weightSpans: spans ?? [{ tokenCount: count, dispatch: expected.dispatchVersion, reply }],
    usage: {
      promptTokens: expected.promptTokens,
      completionTokens: count,
      cachedTokens: readCount(claims.cachedTokens),
    },
  };
}

/** Largest difference of the logprobs of two answers; infinite if their tokens differ. */
export function answerDistance(one: SampleResult, other: SampleResult): number {
  const { sampledTokens: ids, logprobs } = one;
  if (ids.length !== other.sampledTokens.length) return Infinity;
  let largest = 0;
  for (const [index, id] of ids.entries()) {
    if (id !== other.sampledTokens[index]) return Infinity;
    largest = Math.max(largest, Math.abs((logprobs?.[index] ?? 0) - (other.logprobs?.[index] ?? 0)));
  }
  return largest;
}

/** Logprobs, and the ids of their tokens if the server wrote ids. */
export type LoggedTokens = { readonly ids: Uint32Array | null; readonly logprobs: Float32Array };

/**
 * Joins the tokens of the id list (`name`) and of the logprob list, each of which may be missing;
 * if both have ids, they must agree.
 */
export function joinTokens(
  listed: Uint32Array | null,
  logged: LoggedTokens | null,
  { name, context }: { readonly name: string; readonly context: FailureContext },
): SampledTokens {
  const sampledTokens = listed ?? logged?.ids ?? null;
  if (sampledTokens === null) throw badReply(context, `${name} and logprobs are missing`);
  if (logged === null) {
    if (sampledTokens.length > 0) throw badReply(context, "logprobs are missing");
    return noTokens;
  }
  const { ids, logprobs } = logged;
  if (logprobs.length !== sampledTokens.length) {
    throw badReply(context, `it has ${sampledTokens.length} ${name} and ${logprobs.length} logprobs`);
  }
  const wrong = ids?.findIndex((id, index) => id !== sampledTokens[index]) ?? -1;
  if (wrong >= 0) {
    throw badReply(context, `${name}[${wrong}] is ${sampledTokens[wrong]}, but its logprob is of ${ids?.[wrong]}`);
  }
  return { sampledTokens, logprobs };
}

export const noTokens: SampledTokens = { sampledTokens: new Uint32Array(0), logprobs: new Float32Array(0) };

/**
 * A logprob that is finite in 32 bits; the server lost any other, and training would use an
 * invented number.
 */
export function readLogprob(value: unknown, index: number, context: FailureContext): number {
  if (typeof value === "number" && Number.isFinite(Math.fround(value))) return value;
  throw badReply(context, `the logprob of sampled token ${index} is ${JSON.stringify(value)?.slice(0, 40)}`);
}

const finishReasons: readonly unknown[] = ["stop", "length", "abort"] satisfies FinishReason[];

/** `shown` is the whole field as written by the server, for the message. */
export function readFinishReason(value: unknown, shown: unknown, context: FailureContext): FinishReason {
  if (shown === null || shown === undefined) throw badReply(context, "finish_reason is missing");
  if (finishReasons.includes(value)) return value as FinishReason;
  throw badReply(context, `finish_reason ${JSON.stringify(shown).slice(0, 100)} is unknown`);
}

/**
 * Maximum number of consecutive frames without a new token; a server that sends more would never
 * end.
 */
const mostIdleFrames = 1000;

/**
 * Folds the frames of a streamed answer into the answer that the same request would get without
 * streaming, so that one reader handles both. Every method throws an `AttributedError` for invalid
 * data.
 */
export abstract class StreamFold {
  protected readonly context: FailureContext;
  protected frames = 0;
  /** True once the stream has reported that it is complete. */
  protected isDone = false;
  readonly #maxTokens: number;
  #idleFrames = 0;

  /** Tokens beyond `maxTokens` are refused as they arrive; `null` for no limit. */
  constructor(maxTokens: number | null, context: FailureContext) {
    this.context = context;
    this.#maxTokens = maxTokens ?? Infinity;
  }

  /** Takes the data of one event. */
  take(data: string): void {
    if (data === "[DONE]") this.isDone = true;
    if (this.isDone) return;
    const value = jsonOf(data);
    if (value === undefined) throw badReply(this.context, `frame ${this.frames} of the stream is not JSON`);
    const frame = asFields(value);
    if (frame === null) throw badReply(this.context, `frame ${this.frames} is not an object`);
    const before = this.tokenCount;
    this.takeFrame(frame);
    const count = this.tokenCount;
    if (count > this.#maxTokens) {
      throw badReply(this.context, `it has ${count} tokens, expected at most ${this.#maxTokens}`);
    }
    this.#idleFrames = count > before ? 0 : this.#idleFrames + 1;
    if (this.#idleFrames > mostIdleFrames) {
      throw badReply(this.context, `${mostIdleFrames} frames in a row brought no token`);
    }
    this.frames += 1;
  }

  /** The whole answer. Throws if the stream ended early. */
  abstract whole(): Fields;
  /**
   * Number of tokens so far: the length of the longest list, because a frame may contain any of
   * them.
   */
  protected abstract readonly tokenCount: number;
  protected abstract takeFrame(frame: Fields): void;

  protected unfinished(): Error {
    return badReply(this.context, `the stream ended after ${this.frames} frames without a finish reason`);
  }
}

/** Maximum number of kept ids in one reply: more cannot be the result of a useful truncation. */
const mostIds = 2 ** 26;

/**
 * Kept ids in the reply of a server, in the form of `SampleResult.samplingMask`. Throws an
 * `AttributedError` with code "bad-reply" unless there is one list of distinct ids for each sampled
 * token, with that token in it: a trainer renormalizes over them.
 */
export function readSamplingMask(
  value: unknown,
  sampled: Uint32Array,
  options: {
    /** Name of the field, for messages. */
    readonly name: string;
    readonly vocabularySize: number | null;
    /** Action that makes the server send the field. */
    readonly remedy: string;
    readonly context: FailureContext;
  },
): Uint32Array {
  const { name, vocabularySize, remedy, context } = options;
  const refuse = (state: string) => badReply(context, `${name} ${state}`, { retryable: false, remedy });
  // A call that ended before its first token has no list.
  if (value === undefined || value === null) {
    if (sampled.length === 0) return new Uint32Array(0);
    throw refuse("is missing, and was requested");
  }
  if (!Array.isArray(value)) throw refuse("is not a list");
  const lists = value as readonly unknown[];
  if (lists.length !== sampled.length) throw refuse(`has ${lists.length} lists for ${sampled.length} sampled tokens`);
  let size = 0;
  for (const list of lists) size += 1 + (Array.isArray(list) ? list.length : 0);
  if (size > mostIds) throw refuse(`has ${size} entries, expected at most ${mostIds}`);
  const mask = new Uint32Array(size);
  const most = vocabularySize ?? Number.POSITIVE_INFINITY;
  let at = 0;
  for (const [token, list] of lists.entries()) {
    if (!Array.isArray(list)) throw refuse(`has no list for token ${token}`);
    mask[at++] = list.length;
    const seen = new Set<unknown>();
    for (const id of list as readonly unknown[]) {
      if (!isTokenId(id) || id >= most)
        throw refuse(`has ${JSON.stringify(id).slice(0, 40)} for token ${token}, which is not a token id`);
      seen.add(id);
      mask[at++] = id;
    }
    if (seen.size !== list.length) throw refuse(`repeats an id for token ${token}`);
    if (!seen.has(sampled[token])) throw refuse(`does not have token ${token}, which was drawn from it`);
  }
  return mask;
}
