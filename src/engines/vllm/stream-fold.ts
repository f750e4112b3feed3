// Folds the chunks of a streamed answer into the one that the same request would get without streaming, so that one reader
// judges both. Chunks hold what is new: ids, logprobs, at last the finish reason; a chunk without choices holds the usage.

import { asFields, badReply, type FailureContext, type Fields, type ServerSentEvent } from "../../http/index.ts";
import { errorIn, errorInside } from "./read-reply.ts";

/** Chunks without a token that a stream may have in a row; a server that sends more never ends. */
const mostIdleChunks = 1000;

export class StreamFold {
  readonly #context: FailureContext;
  readonly #maxTokens: number;
  #chunks = 0;
  /** Chunks in a row that brought no token. */
  #idleChunks = 0;
  #isDone = false;
  #choice: Record<string, unknown> = {};
  #usage: unknown = null;
  #weightVersion: unknown = null;
  #ids: unknown[] | null = null;
  #logprobs: Record<string, unknown[]> | null = null;

  /** Tokens beyond `maxTokens` are refused as they come; `null`: no bound. */
  constructor({ maxTokens }: { readonly maxTokens: number | null }, context: FailureContext) {
    this.#context = context;
    this.#maxTokens = maxTokens ?? Infinity;
  }

  /** Throws an `AttributedError` for what is no chunk. */
  take(event: ServerSentEvent): void {
    if (event.data === "[DONE]") this.#isDone = true;
    if (this.#isDone) return;
    const chunk = this.#parse(event.data);
    const { choices } = chunk;
    if (!Array.isArray(choices)) throw badReply(this.#context, `choices of chunk ${this.#chunks} are missing`);
    const before = this.#tokenCount;
    for (const entry of choices as readonly unknown[]) this.#takeChoice(entry);
    const count = this.#tokenCount;
    if (count > this.#maxTokens) {
      throw badReply(this.#context, `it has ${count} tokens, wanted at most ${this.#maxTokens}`);
    }
    this.#idleChunks = count > before ? 0 : this.#idleChunks + 1;
    if (this.#idleChunks > mostIdleChunks) {
      throw badReply(this.#context, `${mostIdleChunks} chunks in a row brought no token`);
    }
    this.#usage = chunk["usage"] ?? this.#usage;
    this.#weightVersion = chunk["weight_version"] ?? this.#weightVersion;
    this.#chunks += 1;
  }

  /** Whether a chunk had a finish reason. */
  get saidFinish(): boolean {
    return (this.#choice["finish_reason"] ?? null) !== null;
  }

  /** Of the longest list, for a chunk may have any of them. */
  get #tokenCount(): number {
    const lists = [this.#ids, ...Object.values(this.#logprobs ?? {})];
    return Math.max(...lists.map((list) => list?.length ?? 0));
  }

  /** The whole answer. Throws an `AttributedError` when the stream ended before its end. */
  whole(): Fields {
    if (this.saidFinish) return this.#answer({});
    // A chunk without tokens is not sent, and only that of an aborted request has none: its finish reason is lost.
    const count = asFields(this.#usage)?.["completion_tokens"];
    if (this.#isDone && count === (this.#ids?.length ?? 0)) return this.aborted();
    throw badReply(this.#context, `the stream ended after ${this.#chunks} chunks without a finish reason`);
  }

  /** The answer as it would be if the server had aborted the request now. */
  aborted(): Fields {
    return this.#answer({ finish_reason: "abort", stop_reason: null });
  }

  #answer(change: Fields): Fields {
    const tokens = { token_ids: this.#ids, logprobs: this.#logprobs };
    return {
      choices: [{ ...this.#choice, ...tokens, ...change }],
      usage: this.#usage,
      weight_version: this.#weightVersion,
    };
  }

  #takeChoice(value: unknown): void {
    const context = this.#context;
    const choice = asFields(value);
    if (choice === null) throw badReply(context, `the choice of chunk ${this.#chunks} is no object`);
    if ((choice["index"] ?? 0) !== 0) {
      throw badReply(context, "it has several choices", {
        retryable: false,
        remedy: 'leave "n" out of sampling.extra',
      });
    }
    if (this.saidFinish) {
      throw badReply(context, `chunk ${this.#chunks} comes after the finish reason`);
    }
    const { token_ids: ids, logprobs, ...rest } = choice;
    for (const [name, field] of Object.entries(rest)) if (field !== null) this.#choice[name] = field;
    if ((ids ?? null) !== null) {
      if (!Array.isArray(ids)) throw badReply(context, `token_ids of chunk ${this.#chunks} is no list`);
      this.#ids = push(this.#ids, ids);
    }
    if ((logprobs ?? null) !== null) this.#takeLogprobs(logprobs);
  }

  #takeLogprobs(value: unknown): void {
    const fields = asFields(value);
    if (fields === null) throw badReply(this.#context, `logprobs of chunk ${this.#chunks} is no object`);
    this.#logprobs ??= {};
    for (const name of ["content", "tokens", "token_logprobs"]) {
      const list = fields[name] ?? null;
      if (list === null) continue;
      if (!Array.isArray(list)) throw badReply(this.#context, `logprobs.${name} of chunk ${this.#chunks} is no list`);
      this.#logprobs[name] = push(this.#logprobs[name] ?? null, list);
    }
  }

  #parse(data: string): Fields {
    let value: unknown;
    try {
      value = JSON.parse(data);
    } catch {
      throw badReply(this.#context, `chunk ${this.#chunks} is not JSON`);
    }
    const chunk = asFields(value);
    if (chunk === null) throw badReply(this.#context, `chunk ${this.#chunks} is no object`);
    const error = errorIn(chunk);
    if (error !== null) throw errorInside(error, this.#context);
    return chunk;
  }
}

function push(known: unknown[] | null, more: readonly unknown[]): unknown[] {
  const list = known ?? [];
  for (const item of more) list.push(item);
  return list;
}
