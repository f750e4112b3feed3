// What every server's reply must keep, whatever its shape: ids that the model has, logprobs that are probabilities, nothing
// after a stop token, and weight versions that cover the tokens. A reply that breaks one of these was not sampled by the
// model we know, and nothing of it is trained.

import type { WeightSpan } from "../core/turn.ts";
import { badReply, type FailureContext } from "./engine-failure.ts";
import { asFields, readWeightVersion } from "./reply-fields.ts";

/** Rounding lifts the logprob of a certain token a little above 0. As the logprobs themselves are kept. */
const mostLogprob = Math.fround(1e-3);

export type SampledTokens = {
  readonly sampledTokens: Uint32Array;
  /** Aligned with `sampledTokens`. Low ones pass: grammars and biases make tokens of nearly no probability. */
  readonly logprobs: Float32Array;
};

export type SampledRules = {
  /** Tokens that end a turn; empty when the request told the server to sample on. */
  readonly stopTokenIds: readonly number[];
  /** Ids are below it; `null`: not known. */
  readonly vocabularySize: number | null;
  readonly maxTokens: number | null;
};

/** Throws an `AttributedError` with code "bad-reply". */
export function checkSampled(sampled: SampledTokens, rules: SampledRules, context: FailureContext): void {
  const { sampledTokens, logprobs } = sampled;
  const { stopTokenIds, maxTokens } = rules;
  const vocabularySize = rules.vocabularySize ?? Infinity;
  const count = sampledTokens.length;
  if (maxTokens !== null && count > maxTokens) {
    throw badReply(context, `it has ${count} tokens, wanted at most ${maxTokens}`);
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

/** Whether the request told the server to sample past stop tokens. Both SGLang and vLLM know the name. */
export function ignoresStopTokens(extra: Readonly<Record<string, unknown>>): boolean {
  return extra["ignore_eos"] === true;
}

/**
 * The spans of a reply that names the version of every token (`[{version, start, end}]`); `null` when it does not. They lie
 * end to end and cover the tokens, or the reply is refused. An aborted reply is written in the middle of a step: its spans
 * are cut at the tokens, and tokens behind them are of the last span's version or of one between that and `reply`.
 */
export function readWeightSpans(
  value: unknown,
  sampled: { readonly count: number; readonly reply: string | null; readonly isAborted: boolean },
  context: FailureContext,
): readonly WeightSpan[] | null {
  if (value === undefined || value === null) return null;
  if (!Array.isArray(value)) throw badReply(context, "weight_versions is no list");
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
