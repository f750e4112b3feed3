// Server-sent events out of the chunks of an answer. Not a connection: reconnecting is left out, because generations cannot be
// resumed. Of an event only its data is used: no inference server names types or ids.

import { createParser } from "eventsource-parser";

export type EventStreamOptions = {
  /** Most characters of one event, against servers that never end one. Default 64 Mi. */
  readonly maxEventLength?: number;
};

/**
 * The data of the events, as they come. Rejects as `chunks` does, and with a `RangeError` when an event is longer than the
 * bound. What comes after the last blank line is no event: the standard drops it.
 */
export async function* readEventStream(
  chunks: AsyncIterable<Uint8Array>,
  { maxEventLength = 64 * 1024 * 1024 }: EventStreamOptions = {},
): AsyncGenerator<string> {
  const events: string[] = [];
  let isTooLong = false;
  const parser = createParser({
    onEvent: ({ data }) => events.push(data),
    onError: ({ type }) => {
      isTooLong ||= type === "max-buffer-size-exceeded";
    },
    maxBufferSize: maxEventLength,
  });
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* events.splice(0);
    if (isTooLong) {
      throw new RangeError(`Cannot read an event stream: an event is longer than ${maxEventLength} characters.`);
    }
  }
}
