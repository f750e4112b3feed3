// Server-sent events out of the chunks of an answer. Not a connection: reconnecting is left out, because generations cannot be
// resumed; what resumes a call of a tool is its protocol (`environments/remote/ors`, `environments/remote/mcp`).

import { createParser } from "eventsource-parser";

export type EventStreamOptions = {
  /** Most characters of one event, against servers that never end one. Default 64 Mi. */
  readonly maxEventLength?: number;
  /** Takes the pause in milliseconds that the server asks for before a reconnection. Default: nothing does. */
  readonly onRetry?: (ms: number) => void;
};

/** An event of a stream; without a name of its own it is called "message", as in browsers. */
export type StreamEvent = {
  readonly name: string;
  readonly data: string;
  /** `null`: the event has none. */
  readonly id: string | null;
};

/** The data of the events, whatever their names: no inference server names any. As {@link readNamedEvents}. */
export async function* readEventStream(
  chunks: AsyncIterable<Uint8Array>,
  options: EventStreamOptions = {},
): AsyncGenerator<string> {
  for await (const { data } of readNamedEvents(chunks, options)) yield data;
}

/**
 * The events, as they come. Rejects as `chunks` does, and with a `RangeError` when an event is longer than the
 * bound. What comes after the last blank line is no event: the standard drops it.
 */
export async function* readNamedEvents(
  chunks: AsyncIterable<Uint8Array>,
  { maxEventLength = 64 * 1024 * 1024, onRetry = () => undefined }: EventStreamOptions = {},
): AsyncGenerator<StreamEvent> {
  const events: StreamEvent[] = [];
  let isTooLong = false;
  const parser = createParser({
    onEvent: ({ event = "message", data, id = null }) => events.push({ name: event, data, id }),
    onRetry,
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
