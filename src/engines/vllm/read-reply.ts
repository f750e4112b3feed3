// An answer of either endpoint, read into a result or refused. Nothing in it is believed: see `reply-choice.ts` for tokens.
// A prompt of another length, or with other ids, than ours refuses the reply for good, because the tokens then continue
// something else; usage that makes no sense is null.

import type { SampleResult } from "../../core/engine.ts";
import type { TokenBuffer } from "../../core/token-buffer.ts";
import type { Finish, FinishReason } from "../../core/turn.ts";
import {
  asFields,
  badReply,
  engineFailure,
  checkSampled,
  messageIn,
  rawText,
  readCount,
  readTokenIds,
  readWeightSpans,
  readWeightVersion,
  refusalFailure,
  type FailureContext,
  type Fields,
  type SampledRules,
} from "../../http/index.ts";
import { readTokens } from "./reply-choice.ts";

/** What was asked, as far as the reply must fit it. */
export type ExpectedReply = SampledRules & {
  /** As it was sent. */
  readonly prompt: TokenBuffer;
  /** The weight version known when the request left. */
  readonly dispatchVersion: string | null;
};

/** Throws an `AttributedError`. `version` is the weight version known now; a reply that names one overrules it. */
export function readReply(
  value: unknown,
  expected: ExpectedReply,
  options: { readonly version: string | null; readonly context: FailureContext },
): SampleResult {
  const { context } = options;
  const body = asFields(value);
  const choices = body?.["choices"];
  const error = body === null ? null : errorIn(body);
  if (error !== null) throw errorInside(error, context);
  if (body === null || !Array.isArray(choices)) throw badReply(context, "choices are missing");
  if (choices.length !== 1) {
    throw badReply(context, `it has ${choices.length} choices`, {
      retryable: choices.length === 0,
      ...(choices.length === 0 ? {} : { remedy: 'leave "n" out of sampling.extra' }),
    });
  }
  const choice = asFields(choices[0]);
  if (choice === null) throw badReply(context, "its choice is no object");
  const reason = readReason(choice["finish_reason"], context);
  const sampled = readTokens(choice, context);
  const { sampledTokens, logprobs } = sampled;
  checkSampled(sampled, expected, context);
  const finish = readFinish(choice, { reason, sampledTokens, expected, context });
  checkPrompt(choice, expected, context);
  const usage = asFields(body["usage"]);
  checkCount(sampledTokens.length, { finish, usage, context });
  checkPromptCount(usage, expected, context);
  const count = sampledTokens.length;
  const reply = readWeightVersion(body["weight_version"], context) ?? options.version;
  const isAborted = reason === "abort";
  const spans = readWeightSpans(choice["weight_versions"], { count, reply, isAborted }, context);
  return {
    sampledTokens,
    logprobs,
    finish,
    weightSpans: spans ?? [{ tokenCount: count, dispatch: expected.dispatchVersion, reply }],
    usage: {
      promptTokens: expected.prompt.length,
      completionTokens: sampledTokens.length,
      cachedTokens: readCount(asFields(usage?.["prompt_tokens_details"])?.["cached_tokens"]),
    },
  };
}

/** The error in a body or chunk, nested as new servers write it or flat as old ones; `null` when it is none. */
export function errorIn(body: Fields): unknown {
  return body["error"] ?? (body["object"] === "error" ? body : null);
}

/** The failure of an error that came with HTTP 200, in the body or in a stream. */
export function errorInside(error: unknown, context: FailureContext): Error {
  const code = asFields(error)?.["code"];
  const status = typeof code === "number" ? code : null;
  return refusalFailure(context, { status, message: messageIn(error) ?? "", retryAfterMs: null });
}

const finishReasons: readonly FinishReason[] = ["stop", "length", "abort"];

function readReason(value: unknown, context: FailureContext): FinishReason {
  if (value === null || value === undefined) throw badReply(context, "finish_reason is missing");
  if (value === "error") {
    throw engineFailure(context, {
      code: "server-error",
      retryable: true,
      state: "the server lost the request on its way (finish_reason is error)",
    });
  }
  const reason = finishReasons.find((known) => known === value);
  if (reason === undefined) {
    throw badReply(context, `finish_reason ${JSON.stringify(value).slice(0, 100)} is unknown`);
  }
  return reason;
}

function readFinish(
  choice: Fields,
  input: {
    readonly reason: FinishReason;
    readonly sampledTokens: Uint32Array;
    readonly expected: ExpectedReply;
    readonly context: FailureContext;
  },
): Finish {
  const { reason, sampledTokens, expected, context } = input;
  const said = choice["stop_reason"] ?? null;
  const last = sampledTokens.at(-1) ?? null;
  if (typeof said === "number" && reason === "stop" && said !== last) {
    throw badReply(context, `it stopped at token ${said}, but its last token is ${last}`);
  }
  const words = {
    finish_reason: choice["finish_reason"],
    ...("stop_reason" in choice ? { stop_reason: choice["stop_reason"] } : {}),
  };
  const raw = rawText(words, "stop_reason", context);
  if (reason !== "stop") return { reason, matched: null, raw };
  if (typeof said === "number" || typeof said === "string") return { reason, matched: said, raw };
  // Of the model's own end token, and on the endpoint of ids, vLLM says nothing; the ids do.
  return { reason, matched: last !== null && expected.stopTokenIds.includes(last) ? last : null, raw };
}

function checkPrompt(choice: Fields, expected: ExpectedReply, context: FailureContext): void {
  const echoed = choice["prompt_token_ids"] ?? null;
  if (echoed === null) return;
  const ids = readTokenIds(echoed, "prompt_token_ids", context);
  const promptIds = expected.prompt.view();
  const isOurs = ids.length === promptIds.length && ids.every((id, index) => id === promptIds[index]);
  if (!isOurs) throw badReply(context, "it continues another prompt than was sent", { retryable: false });
}

function checkCount(
  sampled: number,
  input: {
    readonly finish: Finish;
    readonly usage: Fields | null;
    readonly context: FailureContext;
  },
): void {
  const { finish, usage, context } = input;
  if (finish.reason === "stop" && sampled === 0) throw badReply(context, "it stopped without a token");
  // An aborted request may be counted a step later than its tokens were taken.
  const count = usage?.["completion_tokens"] ?? null;
  if (finish.reason !== "abort" && count !== null && count !== sampled) {
    throw badReply(context, `completion_tokens is ${JSON.stringify(count)}, but it has ${sampled} tokens`);
  }
}

function checkPromptCount(usage: Fields | null, expected: ExpectedReply, context: FailureContext): void {
  const count = usage?.["prompt_tokens"];
  const sent = expected.prompt.length;
  if (typeof count !== "number" || count === sent) return;
  throw badReply(context, `the server read ${count} prompt tokens, but was sent ${sent}`, {
    retryable: false,
    remedy: "leave truncate_prompt_tokens out of sampling.extra",
  });
}
