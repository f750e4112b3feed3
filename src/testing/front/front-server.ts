// A front as a server: requests without a socket or over a socket of this machine. The answer to a
// generation goes into a `Response`, or straight to the socket, which costs half and can break off
// like a dying server. Both send the same bytes.

import { type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { type HttpBindings, getRequestListener } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context, Hono } from "hono";
import { BodyError, unpackedRequest } from "../../http/received-body.ts";
import type { LiveRequest, RequestTable } from "./run-sequence.ts";
import { WireFaultError } from "./sampler.ts";

export type WholeAnswer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** Share of its bytes that is sent before the connection breaks; 1 sends all. */
  readonly share: number;
};

export function jsonAnswer(text: string, { status = 200, share = 1 } = {}): WholeAnswer {
  return { status, headers: { "content-type": "application/json" }, text, share };
}

/** Destination of the bytes of one answer. */
type Sink = {
  /** Response for the HTTP framework. Resolves as soon as the beginning of the answer is known. */
  readonly response: Promise<Response>;
  begin(status: number, headers: Readonly<Record<string, string>>): void;
  /** "break" means that the connection breaks after these bytes were sent. */
  send(bytes: Uint8Array, then: "more" | "end" | "break"): void;
};

const eventStream = { "content-type": "text/event-stream; charset=utf-8" };

/** Accepts one answer, whole or in pieces, and nothing after its end. */
export class AnswerWriter {
  readonly #sink: Sink;
  #state: "new" | "begun" | "done" = "new";

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  get response(): Promise<Response> {
    return this.#sink.response;
  }

  whole({ status, headers, text, share }: WholeAnswer): void {
    const bytes = Buffer.from(text);
    this.#sink.begin(status, { ...headers, "content-length": String(bytes.length) });
    if (share >= 1) this.#sink.send(bytes, "end");
    else this.#sink.send(bytes.subarray(0, Math.floor(bytes.length * share)), "break");
    this.#state = "done";
  }

  /** One server-sent event, or this share of it, after which the connection breaks. */
  event(data: string, share = 1): void {
    if (share >= 1) this.#stream(`data: ${data}\n\n`, "more");
    else this.#stream(`data: ${data.slice(0, Math.floor(data.length * share))}`, "break");
  }

  end(): void {
    this.#stream("", "end");
  }

  #stream(text: string, then: "more" | "end" | "break"): void {
    if (this.#state === "done") return;
    if (this.#state === "new") this.#sink.begin(200, eventStream);
    this.#state = then === "more" ? "begun" : "done";
    this.#sink.send(Buffer.from(text), then);
  }
}

/** `onLeave` is called when the client stops reading. */
function responseSink(onLeave: () => void): Sink {
  let resolve!: (response: Response) => void;
  const response = new Promise<Response>((settle) => {
    resolve = settle;
  });
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  let isOpen = true;
  let isBroken = false;
  const body = new ReadableStream<Uint8Array>(
    {
      start: (given) => {
        controller = given;
      },
      // The error waits until all bytes are read: an immediate error would drop the queued ones.
      pull: () => {
        if (isBroken) controller.error(new Error("The connection is broken on purpose."));
      },
      cancel: () => {
        isOpen = false;
        onLeave();
      },
    },
    { highWaterMark: 0 },
  );
  return {
    response,
    begin: (status, headers) => resolve(new Response(body, { status, headers })),
    send: (bytes, then) => {
      if (!isOpen) return;
      if (bytes.length > 0) controller.enqueue(bytes);
      if (then === "end") controller.close();
      isBroken = then === "break";
    },
  };
}

function socketSink(outgoing: ServerResponse): Sink {
  // A connection that closes with unsent bytes was closed by the client, which is not our error.
  outgoing.on("error", () => undefined);
  return {
    response: Promise.resolve(RESPONSE_ALREADY_SENT),
    begin: (status, headers) => void outgoing.writeHead(status, headers),
    send: (bytes, then) => {
      if (then === "end") outgoing.end(bytes);
      // The callback runs after all earlier bytes were sent.
      else outgoing.write(bytes, then === "more" ? undefined : () => outgoing.destroy());
    },
  };
}

export type FrontEnvironment = { readonly Bindings: Partial<HttpBindings> };

export type FrontApp = Hono<FrontEnvironment>;

/** Opens the writer of the answer to a request. `onLeave` is called when its client stops reading. */
type OpenWriter = (onLeave: () => void) => AnswerWriter;

function writerFor({ env }: Pick<Context<FrontEnvironment>, "env">): OpenWriter {
  const outgoing = env?.outgoing;
  return (onLeave) => new AnswerWriter(outgoing === undefined ? responseSink(onLeave) : socketSink(outgoing));
}

/** A request for generation, as its protocol serves it. */
export type Generation = {
  /**
   * Its requests in the table of live requests; those that still run are aborted when the client
   * leaves.
   */
  readonly live: readonly LiveRequest[];
  whole(): Promise<{ readonly text: string; readonly share: number }>;
  /** Sends all events except the last, "[DONE]". */
  stream(writer: AnswerWriter): Promise<void>;
};

/**
 * Serves a generation, whole or as server-sent events, and closes its requests in the table.
 * Returns the response for the framework. Rejects as `open` and `whole` do, and then nothing was
 * written.
 */
export async function serveGeneration(
  context: Context<FrontEnvironment>,
  table: RequestTable,
  options: {
    readonly isStream: boolean;
    /** True if an error of a streamed request is reported inside the stream. */
    readonly opensInStream: boolean;
    readonly open: () => Generation;
    /** Ends a stream with an error. */
    readonly fail: (writer: AnswerWriter, error: unknown) => void;
  },
): Promise<Response> {
  const { isStream, opensInStream, open, fail } = options;
  const { signal } = context.req.raw;
  const openWriter = writerFor(context);
  let live: readonly LiveRequest[] = [];
  const abort = (): void => live.forEach((request) => request.abort());
  const begin = (): Generation => {
    const generation = open();
    ({ live } = generation);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    return generation;
  };
  const close = (): void => {
    signal.removeEventListener("abort", abort);
    abort();
    for (const request of live) table.close(request);
  };
  const stream = async (writer: AnswerWriter, opened: Generation | null): Promise<void> => {
    try {
      await (opened ?? begin()).stream(writer);
      writer.event("[DONE]");
      writer.end();
    } catch (error) {
      const answer = wireAnswer(error);
      if (answer === null) fail(writer, error);
      else writer.whole(answer);
    } finally {
      close();
    }
  };
  const opened = isStream && opensInStream ? null : begin();
  if (isStream) {
    const writer = openWriter(abort);
    void stream(writer, opened);
    return writer.response;
  }
  try {
    const answer = await opened!.whole().then(({ text, share }) => jsonAnswer(text, { share }), orWireAnswer);
    const writer = openWriter(abort);
    writer.whole(answer);
    return await writer.response;
  } finally {
    close();
  }
}

/** The answer in place of a generation; `null` for other errors. */
function wireAnswer(error: unknown): WholeAnswer | null {
  return error instanceof WireFaultError && error.fault.type === "answer" ? { ...error.fault, share: 1 } : null;
}

function orWireAnswer(error: unknown): WholeAnswer {
  const answer = wireAnswer(error);
  if (answer === null) throw error;
  return answer;
}

/** A front. It uses its sampler as long as requests arrive; only listeners need to be closed. */
export type Front = {
  /**
   * Answers a request without a socket. Never rejects. An aborted signal of the request means that
   * the client has left.
   */
  handle(request: Request): Promise<Response>;
  /** Serves it on a socket of this machine. Rejects when the port is in use. */
  listen(options?: ListenOptions): Promise<FrontListener>;
  /** Numbers of running and waiting sequences. */
  load(): { readonly running: number; readonly waiting: number };
};

/**
 * Size limit of a body with a content-encoding, both as sent and decoded. Servers of other vendors
 * decode no such body.
 */
const mostEncodedBytes = 64 * 2 ** 20;

/**
 * `answerTo` gives the answer for an error that a route threw: a refusal of the protocol, or any
 * other error.
 */
export function frontOf(app: FrontApp, table: RequestTable, answerTo: (error: unknown) => WholeAnswer): Front {
  app.onError((error) => {
    const { status, headers, text } = answerTo(error);
    return new Response(text, { status, headers });
  });
  const fetch = async (request: Request, bindings?: HttpBindings): Promise<Response> => {
    try {
      return await app.fetch(await unpackedRequest(request, mostEncodedBytes), bindings);
    } catch (error) {
      if (!(error instanceof BodyError)) throw error;
      return Response.json({ error: { message: error.message } }, { status: error.status });
    }
  };
  return {
    handle: (request) => fetch(request),
    listen: (options = {}) => listenOn(fetch, options),
    load: () => ({ running: table.running, waiting: table.waiting }),
  };
}

export type ListenOptions = {
  /** Default "127.0.0.1". */
  readonly host?: string;
  /** Port; 0 takes a free one. Default 0. */
  readonly port?: number;
};

export type FrontListener = {
  /** E.g. `http://127.0.0.1:30000`. */
  readonly url: string;
  readonly port: number;
  /** Accepts no more connections, and resolves when the last running request is answered. */
  drain(): Promise<void>;
  /** Closes the socket and every connection. Idempotent. */
  close(): Promise<void>;
};

/** Rejects when the port is not available. */
export async function listenOn(
  fetch: (request: Request, bindings: HttpBindings) => Response | Promise<Response>,
  options: ListenOptions,
): Promise<FrontListener> {
  // The library would otherwise replace the global Request and Response of this process.
  const listener = getRequestListener((request, bindings) => fetch(request, bindings as HttpBindings), {
    overrideGlobalObjects: false,
  });
  const http = createServer((incoming, outgoing) => void listener(incoming, outgoing));
  const { host = "127.0.0.1", port = 0 } = options;
  await new Promise<void>((resolve, reject) => {
    http.once("error", reject);
    http.listen(port, host, () => {
      http.off("error", reject);
      resolve();
    });
  });
  const address = http.address() as AddressInfo;
  let closing: Promise<void> | null = null;
  return {
    url: `http://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}`,
    port: address.port,
    drain: () =>
      new Promise((resolve) => {
        // Idle connections that clients keep open would otherwise delay the end for seconds.
        const timer = setInterval(() => http.closeIdleConnections(), 20);
        http.close(() => {
          clearInterval(timer);
          resolve();
        });
      }),
    close: () => {
      closing ??= new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      });
      return closing;
    },
  };
}
