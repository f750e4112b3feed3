// Parses server-sent events from the chunks of an answer. It does not reconnect, because
// generations cannot be resumed; a tool call is resumed by its protocol (`environments/remote/ors`,
// `environments/remote/mcp`).

import { createParser } from "eventsource-parser";

export type EventStreamOptions = {
  /** Maximum number of characters of one event, against servers that never end one. Default 64 Mi. */
  readonly maxEventLength?: number;
  /**
   * Receives the pause in milliseconds that the server requests before a reconnection. Default:
   * ignored.
   */
  readonly onRetry?: (ms: number) => void;
};

/** An event of a stream; an event without a name is called "message", as in browsers. */
export type StreamEvent = {
  readonly name: string;
  readonly data: string;
  /** `null` if the event has no id. */
  readonly id: string | null;
};

/**
 * The data of the events under any name, because inference servers do not name them. Otherwise like
 * {@link readNamedEvents}.
 */
export async function* readEventStream(
  chunks: AsyncIterable<Uint8Array>,
  options: EventStreamOptions = {},
): AsyncGenerator<string> {
  for await (const { data } of readNamedEvents(chunks, options)) yield data;
}

/**
 * The events, as they arrive. Rejects like `chunks`, and with a `RangeError` if an event exceeds
 * the limit. Data after the last blank line is dropped, as the standard requires.
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
