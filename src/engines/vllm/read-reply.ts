// Reads an answer of either endpoint, whole or streamed, into a result or refuses it. Nothing in it
// is trusted. Its tokens come in several shapes: ids in a list, in the logprobs (as numbers, or in
// text like "token_id:17" before 0.32), or in both; logprobs as a list of entries (chat format) or
// as parallel lists (completions format). Duplicate data must agree. If the length or the ids of
// the prompt differ from ours, the reply is refused for good, because the tokens then continue
// another prompt; inconsistent usage is null.

import type { SampleOptions, SampleResult } from "../../core/engine.ts";
import type { TokenBuffer } from "../../core/token-buffer.ts";
import type { Finish, FinishReason } from "../../core/turn.ts";
import {
  asFields,
  badReply,
  engineFailure,
  errorInside,
  type ExpectedReply as SharedExpectedReply,
  type FailureContext,
  type Fields,
  isTokenId,
  joinTokens,
  type LoggedTokens,
  noTokens,
  rawText,
  readFinishReason,
  readLogprob,
  readSampledReply,
  readTokenIds,
  readWeightVersion,
  StreamFold,
} from "../../http/index.ts";

/** The parts of the request that the reply must match. */
export type ExpectedReply = SharedExpectedReply & {
  /** The prompt as sent. */
  readonly prompt: TokenBuffer;
  /** Adapter that must have sampled; `null` for the base. Default `null`. */
  readonly adapter?: string | null;
};

/**
 * Throws an `AttributedError`. `version` is the last known weight version; a version in the reply
 * overrides it.
 */
export function readReply(
  value: unknown,
  expected: ExpectedReply,
  { version, context }: { readonly version: string | null; readonly context: FailureContext },
): SampleResult {
  const body = asFields(value);
  const error = body === null ? null : errorIn(body);
  if (error !== null) throw errorInside(error, context);
  const choices = body?.["choices"];
  if (body === null || !Array.isArray(choices)) throw badReply(context, "choices are missing");
  if (choices.length !== 1) {
    throw badReply(context, `it has ${choices.length} choices`, {
      retryable: choices.length === 0,
      ...(choices.length === 0 ? {} : { remedy: 'leave "n" out of sampling.extra' }),
    });
  }
  checkModel(body["model"], expected.adapter ?? null, context);
  const choice = asFields(choices[0]);
  if (choice === null) throw badReply(context, "choices[0] is not an object");
  const reason = readReason(choice["finish_reason"], context);
  const sampled = readTokens(choice, context);
  checkPrompt(choice, expected, context);
  const usage = asFields(body["usage"]);
  const claims = {
    sampled,
    finish: readFinish(choice, { reason, last: sampled.sampledTokens.at(-1), expected, context }),
    promptTokens: usage?.["prompt_tokens"],
    completionTokens: usage?.["completion_tokens"],
    cachedTokens: asFields(usage?.["prompt_tokens_details"])?.["cached_tokens"],
    weightVersion: readWeightVersion(body["weight_version"], context) ?? version,
    weightVersions: choice["weight_versions"],
    truncationRemedy: "remove truncate_prompt_tokens from sampling.extra",
  };
  return readSampledReply(claims, expected, context);
}

/**
 * The error in a body or chunk, nested as in new servers or flat as in old ones; `null` if there is
 * none.
 */
function errorIn(body: Fields): unknown {
  return body["error"] ?? (body["object"] === "error" ? body : null);
}

function readReason(value: unknown, context: FailureContext): FinishReason {
  if (value !== "error") return readFinishReason(value, value, context);
  const state = "the server lost the request on its way (finish_reason is error)";
  throw engineFailure(context, { code: "server-error", retryable: true, state });
}

function readFinish(
  choice: Fields,
  input: {
    readonly reason: FinishReason;
    readonly last: number | undefined;
    readonly expected: ExpectedReply;
    readonly context: FailureContext;
  },
): Finish {
  const { reason, last, expected, context } = input;
  const { finish_reason, stop_reason } = choice;
  const said = "stop_reason" in choice ? { finish_reason, stop_reason } : { finish_reason };
  const raw = rawText(said, "stop_reason", context);
  if (reason !== "stop") return { reason, matched: null, raw };
  if (typeof stop_reason === "number" || typeof stop_reason === "string") return { reason, matched: stop_reason, raw };
  // vLLM does not report a match of the model's own end token, nor any match on the token-id
  // endpoint; the ids show it.
  return { reason, matched: last !== undefined && expected.stopTokenIds.includes(last) ? last : null, raw };
}

/** Whole answers and chunks of completions name the model that sampled; other chunks do not. */
function checkModel(named: unknown, adapter: string | null, context: FailureContext): void {
  if (adapter === null || named === undefined || named === null || named === adapter) return;
  const shown = typeof named === "string" ? JSON.stringify(named.slice(0, 100)) : "no name";
  throw badReply(context, `model ${shown} sampled it, not adapter ${JSON.stringify(adapter)}`, {
    retryable: false,
    remedy: "load the adapter on the server, started with --enable-lora, under this name",
  });
}

function checkPrompt(choice: Fields, expected: ExpectedReply, context: FailureContext): void {
  const echoed = choice["prompt_token_ids"] ?? null;
  if (echoed === null) return;
  const ids = readTokenIds(echoed, "prompt_token_ids", context);
  const promptIds = expected.prompt.view();
  const isOurs = ids.length === promptIds.length && ids.every((id, index) => id === promptIds[index]);
  if (!isOurs) throw badReply(context, "it continues a different prompt than the one sent", { retryable: false });
}

function readTokens(choice: Fields, context: FailureContext): ReturnType<typeof joinTokens> {
  const value = choice["token_ids"] ?? null;
  const listed = value === null ? null : readTokenIds(value, "token_ids", context);
  const logged = readLogged(choice["logprobs"] ?? null, context);
  if (listed === null && (logged?.ids ?? null) === null) {
    // A request aborted before its first token has no lists.
    if (choice["finish_reason"] === "abort" && (logged?.logprobs.length ?? 0) === 0) return noTokens;
    throw badReply(context, "it has no token ids", { retryable: false, remedy: "use vLLM 0.10.2 or newer" });
  }
  return joinTokens(listed, logged, { name: "token_ids", context });
}

function readLogged(value: unknown, context: FailureContext): LoggedTokens | null {
  if (value === null) return null;
  const fields = asFields(value);
  if (fields === null) throw badReply(context, "logprobs is not an object");
  const content = fields["content"];
  if (content === undefined) return readParallel(fields, context);
  // Old servers send null if there was nothing to report.
  if (content === null) return null;
  if (!Array.isArray(content)) throw badReply(context, "logprobs.content is not a list");
  const entries = (content as readonly unknown[]).map(asFields);
  return logs(
    // The token-id endpoint sends the id itself since 0.32.
    entries.map((entry) => entry?.["token_id"] ?? entry?.["token"]),
    entries.map((entry) => entry?.["logprob"]),
    context,
  );
}

function readParallel(fields: Fields, context: FailureContext): LoggedTokens {
  const { tokens, token_logprobs: numbers } = fields;
  if (!Array.isArray(tokens) || !Array.isArray(numbers)) throw badReply(context, "logprobs has no lists");
  if (tokens.length !== numbers.length) {
    throw badReply(context, `logprobs has ${tokens.length} tokens and ${numbers.length} numbers`);
  }
  return logs(tokens as readonly unknown[], numbers as readonly unknown[], context);
}

function logs(tokens: readonly unknown[], numbers: readonly unknown[], context: FailureContext): LoggedTokens {
  const logprobs = new Float32Array(numbers.length);
  for (let index = 0; index < numbers.length; index++) {
    logprobs[index] = readLogprob(numbers[index], index, context);
  }
  return { ids: idsIn(tokens, context), logprobs };
}

/** `null` if the server wrote text: then for all tokens, because text may look like an id. */
function idsIn(tokens: readonly unknown[], context: FailureContext): Uint32Array | null {
  const ids = new Uint32Array(tokens.length);
  let count = 0;
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index];
    if (typeof token !== "string" && !isTokenId(token)) {
      throw badReply(context, `token ${index} of the logprobs is neither an id nor text`);
    }
    const digits = typeof token === "string" && token.startsWith("token_id:") ? token.slice("token_id:".length) : "";
    const id = typeof token === "number" ? token : /^\d{1,10}$/.test(digits) ? Number(digits) : null;
    if (!isTokenId(id)) continue;
    ids[index] = id;
    count += 1;
  }
  return count === tokens.length ? ids : null;
}

/**
 * Chunks of a stream hold new items: ids, logprobs, finally the finish reason; a chunk without
 * choices holds the usage.
 */
export class ChoiceFold extends StreamFold {
  #choice: Record<string, unknown> = {};
  #usage: unknown = null;
  #model: unknown = null;
  #weightVersion: unknown = null;
  #ids: unknown[] | null = null;
  /** Kept ids of each token, which few calls request. */
  #mask: unknown[] | null = null;
  #logprobs: Record<string, unknown[]> | null = null;
  readonly #onTokens: SampleOptions["onTokens"] | undefined;

  constructor(maxTokens: number | null, context: FailureContext, onTokens?: SampleOptions["onTokens"]) {
    super(maxTokens, context);
    this.#onTokens = onTokens;
  }

  /** True once a chunk had a finish reason. */
  get saidFinish(): boolean {
    return (this.#choice["finish_reason"] ?? null) !== null;
  }

  override whole(): Fields {
    if (this.saidFinish) return this.#answer({});
    // The server sends no chunk without tokens, and only the final chunk of an aborted request has
    // none, so its finish reason is lost.
    const count = asFields(this.#usage)?.["completion_tokens"];
    if (this.isDone && count === (this.#ids?.length ?? 0)) return this.aborted();
    throw this.unfinished();
  }

  /** The answer as if the server had aborted the request now. */
  aborted(): Fields {
    return this.#answer({ finish_reason: "abort", stop_reason: null });
  }

  protected override get tokenCount(): number {
    const lists = [this.#ids, ...Object.values(this.#logprobs ?? {})];
    return Math.max(...lists.map((list) => list?.length ?? 0));
  }

  protected override takeFrame(frame: Fields): void {
    const error = errorIn(frame);
    if (error !== null) throw errorInside(error, this.context);
    const { choices } = frame;
    if (!Array.isArray(choices)) throw badReply(this.context, `choices of frame ${this.frames} are missing`);
    for (const entry of choices as readonly unknown[]) this.#takeChoice(entry);
    this.#usage = frame["usage"] ?? this.#usage;
    this.#weightVersion = frame["weight_version"] ?? this.#weightVersion;
    this.#model = frame["model"] ?? this.#model;
  }

  #answer(change: Fields): Fields {
    const tokens = { token_ids: this.#ids, sampling_mask: this.#mask, logprobs: this.#logprobs };
    return {
      choices: [{ ...this.#choice, ...tokens, ...change }],
      usage: this.#usage,
      weight_version: this.#weightVersion,
      model: this.#model,
    };
  }

  #takeChoice(value: unknown): void {
    const context = this.context;
    const choice = asFields(value);
    if (choice === null) throw badReply(context, `the choice of frame ${this.frames} is not an object`);
    if ((choice["index"] ?? 0) !== 0) {
      throw badReply(context, "it has several choices", {
        retryable: false,
        remedy: 'leave "n" out of sampling.extra',
      });
    }
    if (this.saidFinish) {
      throw badReply(context, `frame ${this.frames} comes after the finish reason`);
    }
    const { token_ids: ids, sampling_mask: mask, logprobs, ...rest } = choice;
    for (const [name, field] of Object.entries(rest)) if (field !== null) this.#choice[name] = field;
    if ((ids ?? null) !== null) {
      if (!Array.isArray(ids)) throw badReply(context, `token_ids of frame ${this.frames} is not a list`);
      this.#ids = push(this.#ids, ids);
      // An invalid id refuses the whole reply later. Ids that occur only as text, as before 0.10.2,
      // are also read with the whole reply.
      if (ids.length > 0 && ids.every(isTokenId)) this.#onTokens?.(Uint32Array.from(ids));
    }
    if ((mask ?? null) !== null) {
      if (!Array.isArray(mask)) throw badReply(context, `sampling_mask of frame ${this.frames} is not a list`);
      this.#mask = push(this.#mask, mask);
    }
    if ((logprobs ?? null) !== null) this.#takeLogprobs(logprobs);
  }

  #takeLogprobs(value: unknown): void {
    const fields = asFields(value);
    if (fields === null) throw badReply(this.context, `logprobs of frame ${this.frames} is not an object`);
    this.#logprobs ??= {};
    for (const name of ["content", "tokens", "token_logprobs"]) {
      const list = fields[name] ?? null;
      if (list === null) continue;
      if (!Array.isArray(list)) throw badReply(this.context, `logprobs.${name} of frame ${this.frames} is not a list`);
      this.#logprobs[name] = push(this.#logprobs[name] ?? null, list);
    }
  }
}

function push(known: unknown[] | null, more: readonly unknown[]): unknown[] {
  const list = known ?? [];
  for (const item of more) list.push(item);
  return list;
}
