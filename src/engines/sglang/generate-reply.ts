// One item of a /generate answer, read into a result or refused. Nothing in it is believed: ids and logprobs that training
// will use must be there, agree and be finite, or there was no turn.
//
// Decisions: a null or NaN logprob refuses the reply (the server lost it, and a made-up number would be trained on); ids
// missing (servers before mid-2025) are taken from the logprob list; a prompt of another length than ours refuses the
// reply for good, because the tokens then continue something else; usage that makes no sense is null.

import type { EngineUsage, SampleResult } from "../../core/engine.ts";
import type { Finish, FinishReason } from "../../core/turn.ts";
import {
  asFields,
  badReply,
  isTokenId,
  parseJson,
  rawText,
  readCount,
  readTokenIds,
  messageIn,
  readWeightSpans,
  readWeightVersion,
  refusalFailure,
  checkSampled,
  type FailureContext,
  type Fields,
  type SampledRules,
} from "../../http/index.ts";
import { scanLogprobs, type Logged } from "./scan-logprobs.ts";

/** What was asked, as far as the reply must fit it. */
export type ExpectedReply = SampledRules & {
  readonly promptTokens: number;
  /** The weight version known when the request left. */
  readonly dispatchVersion: string | null;
};

/** A reply as it came out of its bytes. */
export type ParsedReply = {
  readonly value: unknown;
  /** Its logprobs, when they were read ahead; the list in `value` is empty then. */
  readonly logged: Logged | null;
};

/** Reads the bytes of a reply. Throws an `AttributedError` with code "bad-reply" when they are not JSON. */
export function parseReply(bytes: Buffer, context: FailureContext): ParsedReply {
  const scanned = scanLogprobs(bytes);
  if (scanned !== null) {
    const rest = parseJson(bytes.toString("utf8", 0, scanned.start) + bytes.toString("utf8", scanned.end), context);
    const list = asFields(asFields(rest)?.["meta_info"])?.["output_token_logprobs"];
    // Elsewhere in the reply, the list is not the one of its tokens.
    if (Array.isArray(list) && list.length === 0) return { value: rest, logged: scanned };
  }
  return { value: parseJson(bytes, context), logged: null };
}

/** Throws an `AttributedError`: "bad-reply", or what the server's own verdict inside the reply means. */
export function readGenerateReply(parsed: ParsedReply, expected: ExpectedReply, context: FailureContext): SampleResult {
  const { value } = parsed;
  if (Array.isArray(value)) {
    throw badReply(context, "it is a list", { retryable: false, remedy: 'leave "n" out of sampling.extra' });
  }
  const item = asFields(value);
  const error = item?.["error"] ?? null;
  if (error !== null) throw errorInside(error, context);
  const meta = asFields(item?.["meta_info"]);
  if (item === null || meta === null) throw badReply(context, "meta_info is missing");
  const finish = readFinish(meta["finish_reason"], context);
  const logged = parsed.logged ?? readLogged(meta["output_token_logprobs"], context);
  const sampled = join(item["output_ids"], logged, context);
  const { sampledTokens, logprobs } = sampled;
  checkSampled(sampled, expected, context);
  checkFinish(finish, { sampledTokens, meta, context });
  const count = sampledTokens.length;
  const reply = readWeightVersion(meta["weight_version"], context);
  const isAborted = finish.reason === "abort";
  const spans = readWeightSpans(meta["weight_versions"], { count, reply, isAborted }, context);
  return {
    sampledTokens,
    logprobs,
    finish,
    weightSpans: spans ?? [{ tokenCount: count, dispatch: expected.dispatchVersion, reply }],
    usage: readUsage(meta, { sampled: count, expected, context }),
  };
}

const finishReasons: readonly FinishReason[] = ["stop", "length", "abort"];

function readFinish(value: unknown, context: FailureContext): Finish {
  if (value === null || value === undefined) throw badReply(context, "finish_reason is missing");
  const fields = asFields(value);
  const reason = finishReasons.find((known) => known === fields?.["type"]);
  if (fields === null || reason === undefined) {
    throw badReply(context, `finish_reason ${JSON.stringify(value).slice(0, 100)} is unknown`);
  }
  const status = fields["status_code"];
  if (reason === "abort" && typeof status === "number") {
    const message = typeof fields["message"] === "string" ? fields["message"] : "";
    throw refusalFailure(context, { status, message, retryAfterMs: null });
  }
  const matched = fields["matched"];
  const isMatch = typeof matched === "string" || typeof matched === "number";
  return { reason, matched: isMatch ? matched : null, raw: rawText(value, "finish_reason", context) };
}

function readLogged(value: unknown, context: FailureContext): Logged | null {
  if (value === undefined || value === null) return null;
  if (!Array.isArray(value)) throw badReply(context, "output_token_logprobs is no list");
  const entries = value as readonly unknown[];
  const ids = new Uint32Array(entries.length);
  const logprobs = new Float32Array(entries.length);
  // By index: this loop runs for every token sampled, and iterators would double its cost.
  for (let index = 0; index < entries.length; index++) {
    const entry = entries[index];
    const triple = Array.isArray(entry) ? (entry as readonly unknown[]) : [];
    const logprob = triple[0];
    const id = triple[1];
    if (!isTokenId(id)) throw badReply(context, `output_token_logprobs[${index}] has no token id`);
    if (typeof logprob !== "number" || !Number.isFinite(Math.fround(logprob))) {
      throw badReply(context, `the logprob of sampled token ${index} is ${JSON.stringify(logprob)?.slice(0, 40)}`);
    }
    ids[index] = id;
    logprobs[index] = logprob;
  }
  return { ids, logprobs };
}

function join(
  outputIds: unknown,
  logged: Logged | null,
  context: FailureContext,
): { readonly sampledTokens: Uint32Array; readonly logprobs: Float32Array } {
  // As it is nearly always, and then without an array of its own.
  if (logged !== null && isListOf(outputIds, logged.ids))
    return { sampledTokens: logged.ids, logprobs: logged.logprobs };
  const listed = outputIds === undefined ? null : readTokenIds(outputIds, "output_ids", context);
  if (logged === null) {
    if (listed === null) throw badReply(context, "output_ids and output_token_logprobs are missing");
    if (listed.length > 0) throw badReply(context, "output_token_logprobs is missing");
    return { sampledTokens: listed, logprobs: new Float32Array(0) };
  }
  if (listed === null) return { sampledTokens: logged.ids, logprobs: logged.logprobs };
  if (listed.length !== logged.ids.length) {
    throw badReply(context, `it has ${listed.length} output_ids and ${logged.ids.length} logprobs`);
  }
  const wrong = listed.findIndex((id, index) => id !== logged.ids[index]);
  if (wrong >= 0) {
    throw badReply(context, `output_ids[${wrong}] is ${listed[wrong]}, but its logprob is of ${logged.ids[wrong]}`);
  }
  return { sampledTokens: listed, logprobs: logged.logprobs };
}

function isListOf(value: unknown, ids: Uint32Array): boolean {
  if (!Array.isArray(value) || value.length !== ids.length) return false;
  for (let index = 0; index < ids.length; index++) if (value[index] !== ids[index]) return false;
  return true;
}

function checkFinish(
  { reason, matched }: Finish,
  input: { readonly sampledTokens: Uint32Array; readonly meta: Fields; readonly context: FailureContext },
): void {
  const { sampledTokens, meta, context } = input;
  const last = sampledTokens.at(-1) ?? null;
  if (reason === "stop" && last === null) throw badReply(context, "it stopped without a token");
  if (reason === "stop" && typeof matched === "number" && matched !== last) {
    throw badReply(context, `it stopped at token ${matched}, but its last token is ${last}`);
  }
  // An aborted request is reported mid-step: its count and its tokens may be one step apart.
  const count = meta["completion_tokens"];
  if (reason !== "abort" && count !== undefined && count !== sampledTokens.length) {
    throw badReply(context, `completion_tokens is ${JSON.stringify(count)}, but it has ${sampledTokens.length} tokens`);
  }
}

/** The failure of an error that came with HTTP 200, in a body or in a stream. */
export function errorInside(error: unknown, context: FailureContext): Error {
  const code = asFields(error)?.["code"];
  const status = typeof code === "number" ? code : null;
  return refusalFailure(context, { status, message: messageIn(error) ?? "", retryAfterMs: null });
}

function readUsage(
  meta: Fields,
  input: { readonly sampled: number; readonly expected: ExpectedReply; readonly context: FailureContext },
): EngineUsage {
  const { sampled, expected, context } = input;
  const prompt = meta["prompt_tokens"];
  if (typeof prompt === "number" && prompt !== expected.promptTokens) {
    throw badReply(context, `the server read ${prompt} prompt tokens, but was sent ${expected.promptTokens}`, {
      retryable: false,
      remedy: "start it without --allow-auto-truncate",
    });
  }
  return {
    promptTokens: expected.promptTokens,
    completionTokens: sampled,
    cachedTokens: readCount(meta["cached_tokens"]),
  };
}
