// Folds the frames of a streamed /generate answer into the item that the same request would get without streaming, so
// that one reader judges both. Servers send ids cumulatively or only the new ones; the count in the frame tells which.

import {
  asFields,
  badReply,
  messageIn,
  refusalFailure,
  type FailureContext,
  type Fields,
  type ServerSentEvent,
} from "../../http/index.ts";

/** Throws an `AttributedError`; rejects as `events` does. Frames after the one with a finish reason are not read. */
export async function foldGenerateStream(
  events: AsyncIterable<ServerSentEvent>,
  context: FailureContext,
): Promise<Fields> {
  let ids: Growing | null = null;
  let logged: Growing | null = null;
  let frames = 0;
  for await (const event of events) {
    if (event.data === "[DONE]") break;
    const frame = parseFrame(event.data, context);
    const meta = asFields(frame["meta_info"]);
    if (meta === null) throw badReply(context, `frame ${frames} has no meta_info`);
    const isLast = meta["finish_reason"] !== null && meta["finish_reason"] !== undefined;
    const count = meta["completion_tokens"];
    const grow = (known: Growing | null, name: string, value: unknown): Growing | null => {
      if (value === undefined || value === null) return known;
      if (!Array.isArray(value)) throw badReply(context, `${name} of frame ${frames} is no list`);
      const list = known ?? new Growing();
      if (!list.take(value, count)) throw badReply(context, `${name} of frame ${frames} does not continue the last`);
      return list;
    };
    ids = grow(ids, "output_ids", frame["output_ids"]);
    logged = grow(logged, "output_token_logprobs", meta["output_token_logprobs"]);
    frames += 1;
    if (!isLast) continue;
    return {
      ...(ids === null ? {} : { output_ids: ids.items }),
      meta_info: { ...meta, ...(logged === null ? {} : { output_token_logprobs: logged.items }) },
    };
  }
  throw badReply(context, `the stream ended after ${frames} frames without a finish reason`);
}

/** A list that frames repeat from its start or only continue. */
class Growing {
  items: readonly unknown[] = [];

  /** `count`: tokens so far, as the frame says. False when the frame fits neither reading. */
  take(frame: readonly unknown[], count: unknown): boolean {
    const { length } = this.items;
    // An aborted request repeats its last token beside the full count, and a queued one has no count at all.
    if (count === length || (count === undefined && frame.length === 0)) return true;
    if (frame.length === count) {
      if (!isPrefix(this.items, frame)) return false;
      this.items = frame;
      return true;
    }
    if (length + frame.length !== count) return false;
    this.items = [...this.items, ...frame];
    return true;
  }
}

function isPrefix(items: readonly unknown[], longer: readonly unknown[]): boolean {
  return items.every((item, index) => idOf(item) === idOf(longer[index]));
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
  const code = asFields(error)?.["code"];
  const status = typeof code === "number" ? code : null;
  throw refusalFailure(context, { status, message: messageIn(error) ?? "", retryAfterMs: null });
}
