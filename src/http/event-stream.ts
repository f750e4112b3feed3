// Reads server-sent events out of bytes, as the HTML standard defines `text/event-stream`. Any chunking of the same bytes
// gives the same events. Not a connection: reconnecting and `retry:` are left out, because generations cannot be resumed.

export type ServerSentEvent = {
  /** Value of `event:`; `null` when the event has none. */
  readonly type: string | null;
  /** Values of `data:`, joined by line feeds. */
  readonly data: string;
  /** Value of the last `id:` of the stream so far; `null` when there was none. */
  readonly id: string | null;
};

export type EventStreamOptions = {
  /** Most characters of one event, against servers that never end one. Default 64 Mi. */
  readonly maxEventLength?: number;
};

/** Turns pushed bytes into events. What stands after the last blank line is no event: the standard drops it. */
export class EventStreamParser {
  readonly #decoder = new TextDecoder();
  readonly #maxEventLength: number;
  #line = "";
  #skipLineFeed = false;
  #data: string[] = [];
  #length = 0;
  #type: string | null = null;
  #id: string | null = null;

  constructor(options: EventStreamOptions = {}) {
    this.#maxEventLength = options.maxEventLength ?? 64 * 1024 * 1024;
  }

  /** Throws a `RangeError` when an event is longer than the bound. */
  push(bytes: Uint8Array): ServerSentEvent[] {
    const events: ServerSentEvent[] = [];
    const text = this.#decoder.decode(bytes, { stream: true });
    let start = 0;
    for (let index = 0; index < text.length; index++) {
      const unit = text.charCodeAt(index);
      if (unit === 10 && this.#skipLineFeed) {
        this.#skipLineFeed = false;
        start = index + 1;
        continue;
      }
      this.#skipLineFeed = unit === 13;
      if (unit !== 10 && unit !== 13) continue;
      const event = this.#endLine(this.#line + text.slice(start, index));
      if (event !== null) events.push(event);
      this.#line = "";
      start = index + 1;
    }
    this.#line += text.slice(start);
    this.#check(this.#line.length);
    return events;
  }

  #endLine(line: string): ServerSentEvent | null {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return null;
    const name = colon < 0 ? line : line.slice(0, colon);
    const rest = colon < 0 ? "" : line.slice(colon + 1);
    const value = rest.startsWith(" ") ? rest.slice(1) : rest;
    if (name === "event") this.#type = value;
    if (name === "id" && !value.includes("\u0000")) this.#id = value;
    if (name === "data") {
      this.#data.push(value);
      this.#length += value.length + 1;
      this.#check(0);
    }
    return null;
  }

  #dispatch(): ServerSentEvent | null {
    const event = { type: this.#type, data: this.#data.join("\n"), id: this.#id };
    const isEmpty = this.#data.length === 0;
    this.#data = [];
    this.#length = 0;
    this.#type = null;
    return isEmpty ? null : event;
  }

  #check(pending: number): void {
    if (this.#length + pending <= this.#maxEventLength) return;
    throw new RangeError(`Cannot read an event stream: an event is longer than ${this.#maxEventLength} characters.`);
  }
}

/** The events of a stream of chunks, as they come. Rejects as `chunks` does. */
export async function* readEventStream(
  chunks: AsyncIterable<Uint8Array>,
  options: EventStreamOptions = {},
): AsyncGenerator<ServerSentEvent> {
  const parser = new EventStreamParser(options);
  for await (const chunk of chunks) yield* parser.push(chunk);
}
