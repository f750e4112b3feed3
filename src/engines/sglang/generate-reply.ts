// Reads one item of a /generate answer, whole or streamed, into a result or refuses it. Nothing in
// it is trusted: ids and logprobs that training will use must be present, consistent and finite, or
// the call fails without a turn.
//
// Decisions: a null or NaN logprob refuses the reply (the server lost it, and training would use an
// invented number); missing ids (servers before mid-2025) are taken from the logprob list; a prompt
// length that differs from ours refuses the reply for good, because the tokens then continue
// another prompt; inconsistent usage is null.

import type { SampleOptions, SampleResult } from "../../core/engine.ts";
import type { Finish } from "../../core/turn.ts";
import {
  asFields,
  badReply,
  type ExpectedReply,
  errorInside,
  type FailureContext,
  type Fields,
  isTokenId,
  joinTokens,
  parseJson,
  rawText,
  readFinishReason,
  readLogprob,
  readSampledReply,
  readTokenIds,
  readWeightVersion,
  refusalFailure,
  StreamFold,
} from "../../http/index.ts";
import { type Logged, scanLogprobs } from "./scan-logprobs.ts";

/** A reply parsed from its bytes. */
export type ParsedReply = {
  readonly value: unknown;
  /** Its logprobs if they were scanned from the bytes; the list in `value` is then empty. */
  readonly logged: Logged | null;
};

/** Reads the bytes of a reply. Throws an `AttributedError` with code "bad-reply" when they are not JSON. */
export function parseReply(bytes: Buffer, context: FailureContext): ParsedReply {
  const scanned = scanLogprobs(bytes);
  if (scanned !== null) {
    const rest = parseJson(bytes.toString("utf8", 0, scanned.start) + bytes.toString("utf8", scanned.end), context);
    const list = asFields(asFields(rest)?.["meta_info"])?.["output_token_logprobs"];
    // A list elsewhere in the reply does not belong to its tokens.
    if (Array.isArray(list) && list.length === 0) return { value: rest, logged: scanned };
  }
  return { value: parseJson(bytes, context), logged: null };
}

/**
 * Throws an `AttributedError` with code "bad-reply", or with the code of the error that the server
 * states inside the reply.
 */
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
  const claims = {
    sampled: readTokens(item["output_ids"], logged, context),
    finish,
    promptTokens: meta["prompt_tokens"],
    completionTokens: meta["completion_tokens"],
    cachedTokens: meta["cached_tokens"],
    weightVersion: readWeightVersion(meta["weight_version"], context),
    weightVersions: meta["weight_versions"],
    truncationRemedy: "start it without --allow-auto-truncate",
  };
  return readSampledReply(claims, expected, context);
}

/**
 * The experts that a reply reports, as bytes; `null` if it reports none. The caller knows the shape
 * and checks their number.
 */
export function readRoutedExperts({ value }: ParsedReply, context: FailureContext): Uint8Array | null {
  const text = asFields(asFields(value)?.["meta_info"])?.["routed_experts"] ?? null;
  if (text === null) return null;
  if (typeof text !== "string")
    throw badReply(context, "meta_info.routed_experts is not a string", { retryable: false });
  const bytes = Buffer.from(text, "base64");
  // Buffer skips characters that are not base64.
  if (bytes.toString("base64") !== text) {
    throw badReply(context, "meta_info.routed_experts is not base64", { retryable: false });
  }
  return bytes;
}

function readFinish(value: unknown, context: FailureContext): Finish {
  const fields = asFields(value);
  const reason = readFinishReason(fields?.["type"], value, context);
  const { status_code: status, message, matched } = fields ?? {};
  if (reason === "abort" && typeof status === "number") {
    const said = typeof message === "string" ? message : "";
    throw refusalFailure(context, { status, message: said, retryAfterMs: null });
  }
  const isMatch = typeof matched === "string" || typeof matched === "number";
  return { reason, matched: isMatch ? matched : null, raw: rawText(value, "finish_reason", context) };
}

function readLogged(value: unknown, context: FailureContext): Logged | null {
  if (value === undefined || value === null) return null;
  if (!Array.isArray(value)) throw badReply(context, "output_token_logprobs is not a list");
  const entries = value as readonly unknown[];
  const ids = new Uint32Array(entries.length);
  const logprobs = new Float32Array(entries.length);
  // An index loop: it runs for every sampled token, and iterators would double its cost.
  for (let index = 0; index < entries.length; index++) {
    const entry = entries[index];
    const triple = Array.isArray(entry) ? (entry as readonly unknown[]) : [];
    const logprob = triple[0];
    const id = triple[1];
    if (!isTokenId(id)) throw badReply(context, `output_token_logprobs[${index}] has no token id`);
    logprobs[index] = readLogprob(logprob, index, context);
    ids[index] = id;
  }
  return { ids, logprobs };
}

function readTokens(outputIds: unknown, logged: Logged | null, context: FailureContext): ReturnType<typeof joinTokens> {
  // The usual case, which allocates no second array.
  if (logged !== null && isListOf(outputIds, logged.ids)) {
    return { sampledTokens: logged.ids, logprobs: logged.logprobs };
  }
  const listed = outputIds === undefined ? null : readTokenIds(outputIds, "output_ids", context);
  return joinTokens(listed, logged, { name: "output_ids", context });
}

function isListOf(value: unknown, ids: Uint32Array): boolean {
  if (!Array.isArray(value) || value.length !== ids.length) return false;
  for (let index = 0; index < ids.length; index++) if (value[index] !== ids[index]) return false;
  return true;
}

/**
 * Frames of a stream: servers send ids cumulatively or only the new ones; the count in the frame
 * shows which.
 */
export class GenerateFold extends StreamFold {
  readonly #ids = new Growing("output_ids", this.context);
  readonly #logged = new Growing("output_token_logprobs", this.context);
  /** Lists of kept ids and their logprobs, which few calls request. */
  readonly #masks = maskFields.map((name) => [name, new Growing(name, this.context)] as const);
  #last: Fields | null = null;
  readonly #onTokens: SampleOptions["onTokens"] | undefined;

  constructor(maxTokens: number | null, context: FailureContext, onTokens?: SampleOptions["onTokens"]) {
    super(maxTokens, context);
    this.#onTokens = onTokens;
  }

  override whole(): Fields {
    const [ids, logged] = [this.#ids.items, this.#logged.items];
    if (this.#last === null) throw this.unfinished();
    return {
      ...(ids === null ? {} : { output_ids: ids }),
      meta_info: {
        ...this.#last,
        ...(logged === null ? {} : { output_token_logprobs: logged }),
        ...Object.fromEntries(this.#masks.flatMap(([name, { items }]) => (items === null ? [] : [[name, items]]))),
      },
    };
  }

  protected override get tokenCount(): number {
    return Math.max(this.#ids.length, this.#logged.length);
  }

  protected override takeFrame(frame: Fields): void {
    const error = frame["error"] ?? null;
    if (error !== null) throw errorInside(error, this.context);
    if (this.#last !== null) throw badReply(this.context, `frame ${this.frames} comes after the finish reason`);
    const meta = asFields(frame["meta_info"]);
    if (meta === null) throw badReply(this.context, `frame ${this.frames} has no meta_info`);
    const known = this.#ids.length;
    this.#ids.take(frame["output_ids"], meta["completion_tokens"], this.frames);
    if (this.#onTokens !== undefined && this.#ids.length > known) {
      const added = this.#ids.items?.slice(known) ?? [];
      // An invalid id refuses the whole reply later.
      if (added.every(isTokenId)) this.#onTokens(Uint32Array.from(added));
    }
    this.#logged.take(meta["output_token_logprobs"], meta["completion_tokens"], this.frames);
    for (const [name, list] of this.#masks) list.take(meta[name], meta["completion_tokens"], this.frames);
    if ((meta["finish_reason"] ?? null) !== null) this.#last = meta;
  }
}

const maskFields = ["output_token_sampling_mask", "output_token_sampling_logprobs"] as const;

/** A list that frames either repeat from its start or continue. */
class Growing {
  /** `null` if no frame had the list. */
  items: unknown[] | null = null;
  readonly #name: string;
  readonly #context: FailureContext;

  constructor(name: string, context: FailureContext) {
    this.#name = name;
    this.#context = context;
  }

  get length(): number {
    return this.items?.length ?? 0;
  }

  /**
   * `count` is the number of tokens so far, as stated by the frame. Throws an `AttributedError` if
   * the frame is neither cumulative nor a continuation.
   */
  take(frame: unknown, count: unknown, place: number): void {
    if (frame === undefined || frame === null) return;
    if (!Array.isArray(frame)) throw badReply(this.#context, `${this.#name} of frame ${place} is not a list`);
    this.items ??= [];
    const next = addedBy(frame, this.items, count);
    if (next === null) throw badReply(this.#context, `${this.#name} of frame ${place} does not continue the last`);
    for (const item of next) this.items.push(item);
  }
}

/**
 * The items that a frame adds to those before it; `null` if the frame is neither cumulative nor a
 * continuation.
 */
function addedBy(frame: readonly unknown[], items: readonly unknown[], count: unknown): readonly unknown[] | null {
  // Frames of a queued request have no count.
  if (count === undefined && frame.length === 0) return frame;
  if (frame.length === count && isPrefix(items, frame)) return frame.slice(items.length);
  if (items.length + frame.length === count) return frame;
  // The final frame of an aborted request repeats its last token together with the full count.
  return count === items.length && isPrefix(frame, items.slice(items.length - frame.length)) ? [] : null;
}

function isPrefix(items: readonly unknown[], longer: readonly unknown[]): boolean {
  return items.length <= longer.length && items.every((item, index) => idOf(item) === idOf(longer[index]));
}

/** The id in an entry of either list. */
function idOf(entry: unknown): unknown {
  return Array.isArray(entry) ? (entry as readonly unknown[])[1] : entry;
}
