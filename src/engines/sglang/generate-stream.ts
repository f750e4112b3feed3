// Folds the frames of a streamed /generate answer into the item that the same request would get without streaming, so
// that one reader judges both. Servers send ids cumulatively or only the new ones; the count in the frame tells which.

import { asFields, badReply, type FailureContext, type Fields, type ServerSentEvent } from "../../http/index.ts";
import { errorInside } from "./generate-reply.ts";

/** Frames without a new token that a stream may have in a row; a server that sends more never ends. */
const mostIdleFrames = 1000;

/** Throws an `AttributedError`; rejects as `events` does. Tokens beyond `maxTokens` end it, whatever else is to come. */
export async function foldGenerateStream(
  events: AsyncIterable<ServerSentEvent>,
  { maxTokens }: { readonly maxTokens: number | null },
  context: FailureContext,
): Promise<Fields> {
  const ids = new Growing("output_ids", context);
  const logged = new Growing("output_token_logprobs", context);
  let last: Fields | null = null;
  let frames = 0;
  let idleFrames = 0;
  for await (const event of events) {
    if (event.data === "[DONE]") break;
    const frame = parseFrame(event.data, context);
    if (last !== null) throw badReply(context, `frame ${frames} comes after the finish reason`);
    const meta = asFields(frame["meta_info"]);
    if (meta === null) throw badReply(context, `frame ${frames} has no meta_info`);
    const before = ids.length + logged.length;
    ids.take(frame["output_ids"], meta["completion_tokens"], frames);
    logged.take(meta["output_token_logprobs"], meta["completion_tokens"], frames);
    const count = Math.max(ids.length, logged.length);
    if (maxTokens !== null && count > maxTokens) {
      throw badReply(context, `it has ${count} tokens, wanted at most ${maxTokens}`);
    }
    idleFrames = ids.length + logged.length > before ? 0 : idleFrames + 1;
    if (idleFrames > mostIdleFrames) throw badReply(context, `${mostIdleFrames} frames in a row brought no token`);
    frames += 1;
    if (meta["finish_reason"] !== null && meta["finish_reason"] !== undefined) last = meta;
  }
  if (last === null) throw badReply(context, `the stream ended after ${frames} frames without a finish reason`);
  return {
    ...(ids.items === null ? {} : { output_ids: ids.items }),
    meta_info: { ...last, ...(logged.items === null ? {} : { output_token_logprobs: logged.items }) },
  };
}

/** A list that frames repeat from its start or only continue. */
class Growing {
  /** `null`: no frame had the list. */
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

  /** `count`: tokens so far, as the frame says. Throws an `AttributedError` when the frame fits no reading. */
  take(frame: unknown, count: unknown, place: number): void {
    if (frame === undefined || frame === null) return;
    if (!Array.isArray(frame)) throw badReply(this.#context, `${this.#name} of frame ${place} is no list`);
    this.items ??= [];
    const next = addedBy(frame, this.items, count);
    if (next === null) throw badReply(this.#context, `${this.#name} of frame ${place} does not continue the last`);
    for (const item of next) this.items.push(item);
  }
}

/** What a frame adds to the items before it; `null` when it fits neither reading. */
function addedBy(frame: readonly unknown[], items: readonly unknown[], count: unknown): readonly unknown[] | null {
  // A queued request has no count at all.
  if (count === undefined && frame.length === 0) return frame;
  if (frame.length === count && isPrefix(items, frame)) return frame.slice(items.length);
  if (items.length + frame.length === count) return frame;
  // An aborted request repeats its last token beside the full count.
  return count === items.length && isPrefix(frame, items.slice(items.length - frame.length)) ? [] : null;
}

function isPrefix(items: readonly unknown[], longer: readonly unknown[]): boolean {
  return items.length <= longer.length && items.every((item, index) => idOf(item) === idOf(longer[index]));
}

/** The id in an entry of either list. */
function idOf(entry: unknown): unknown {
  return Array.isArray(entry) ? (entry as readonly unknown[])[1] : entry;
}

function parseFrame(data: string, context: FailureContext): Fields {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    throw badReply(context, "a frame of the stream is not JSON");
  }
  const frame = asFields(value);
  if (frame === null) throw badReply(context, "a frame of the stream is no object");
  const error = frame["error"];
  if (error === undefined || error === null) return frame;
  throw errorInside(error, context);
}
