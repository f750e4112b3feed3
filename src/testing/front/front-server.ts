// A front as a server: requests without a socket or over one of this machine. The answer to a generation goes into a `Response`,
// or straight to the socket, which costs half and can break off as a dying server does. Both give the same bytes.

import { type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { type HttpBindings, getRequestListener } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Hono } from "hono";
import type { RequestTable } from "./run-sequence.ts";
import { WireFaultError } from "./sampler.ts";

export type WholeAnswer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** How much of its bytes is sent before the connection breaks: 1 sends all. */
  readonly share: number;
};

/** Takes one answer, whole or in pieces, and nothing after its end. */
export interface AnswerWriter {
  /** For the HTTP framework. Resolves as soon as it is known how the answer begins. */
  readonly response: Promise<Response>;
  whole(answer: WholeAnswer): void;
  /** A piece of a stream of server-sent events; the first begins it. */
  write(text: string): void;
  end(): void;
  /** Breaks the connection after what was written. Only once something was. */
  breakOff(): void;
}

const eventStream = { "content-type": "text/event-stream; charset=utf-8" };

/** `onLeave`: the client stopped reading. */
function createResponseWriter(onLeave: () => void): AnswerWriter {
  let resolve!: (response: Response) => void;
  const response = new Promise<Response>((settle) => {
    resolve = settle;
  });
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  let isOver = false;
  let isBroken = false;
  const body = new ReadableStream<Uint8Array>(
    {
      start: (given) => {
        controller = given;
      },
      // Only once all is read: an error at once would drop what is queued.
      pull: () => {
        if (isBroken) controller.error(new Error("The connection is broken on purpose."));
      },
      cancel: () => {
        isOver = true;
        onLeave();
      },
    },
    { highWaterMark: 0 },
  );
  let hasBegun = false;
  const send = (bytes: Uint8Array): void => {
    if (!isOver && bytes.length > 0) controller.enqueue(bytes);
  };
  const breakOff = (): void => {
    isOver = true;
    isBroken = true;
  };
  return {
    response,
    whole: ({ status, headers, text, share }) => {
      if (share >= 1) {
        resolve(new Response(text, { status, headers }));
        return;
      }
      const bytes = Buffer.from(text);
      resolve(new Response(body, { status, headers: { ...headers, "content-length": String(bytes.length) } }));
      send(bytes.subarray(0, Math.floor(bytes.length * share)));
      breakOff();
    },
    write: (text) => {
      // Once: a body that is being read fits no second response.
      if (!hasBegun) resolve(new Response(body, { headers: eventStream }));
      hasBegun = true;
      send(Buffer.from(text));
    },
    end: () => {
      if (!isOver) controller.close();
      isOver = true;
    },
    breakOff,
  };
}

function createSocketWriter(outgoing: ServerResponse): AnswerWriter {
  let isOver = false;
  // A connection that closes with bytes still to be written is the client's doing and no error of ours.
  outgoing.on("error", () => undefined);
  const breakOff = (bytes: Uint8Array = new Uint8Array(0)): void => {
    isOver = true;
    // The callback comes when everything before it has left.
    outgoing.write(bytes, () => outgoing.destroy());
  };
  return {
    response: Promise.resolve(RESPONSE_ALREADY_SENT),
    whole: ({ status, headers, text, share }) => {
      const bytes = Buffer.from(text);
      outgoing.writeHead(status, { ...headers, "content-length": bytes.length });
      if (share >= 1) outgoing.end(bytes);
      else breakOff(bytes.subarray(0, Math.floor(bytes.length * share)));
    },
    write: (text) => {
      if (isOver) return;
      if (!outgoing.headersSent) outgoing.writeHead(200, eventStream);
      outgoing.write(text);
    },
    end: () => {
      if (!isOver) outgoing.end();
      isOver = true;
    },
    breakOff,
  };
}

export type FrontEnvironment = { readonly Bindings: Partial<HttpBindings> };

export type FrontApp = Hono<FrontEnvironment>;

/** Where the answer to a request goes. `onLeave`: its client stopped reading. */
export type OpenWriter = (onLeave: () => void) => AnswerWriter;

export function writerFor({ env }: { readonly env?: FrontEnvironment["Bindings"] }): OpenWriter {
  const { outgoing } = env ?? {};
  return outgoing === undefined ? createResponseWriter : () => createSocketWriter(outgoing);
}

/** One server-sent event. */
export function sendData(writer: AnswerWriter, data: string): void {
  writer.write(`data: ${data}\n\n`);
}

/** One event, or this share of it, after which the connection breaks and nothing more is sent. False: it broke. */
export function sendShare(writer: AnswerWriter, data: string, share: number): boolean {
  if (share >= 1) {
    sendData(writer, data);
    return true;
  }
  writer.write(`data: ${data.slice(0, Math.floor(data.length * share))}`);
  writer.breakOff();
  return false;
}

/** A front. Its sampler is used for as long as requests come; nothing needs to be closed but listeners. */
export type Front = {
  /** Answers a request without a socket. Never rejects. Aborting the request's signal is a client that goes away. */
  handle(request: Request): Promise<Response>;
  /** Serves it on a socket of this machine. Rejects when the port is taken. */
  listen(options?: ListenOptions): Promise<FrontListener>;
  /** How many sequences run and wait. */
  load(): { readonly running: number; readonly waiting: number };
};

/** `answerTo`: the answer for an error that a route threw; a refusal of the protocol, or any other. */
export function frontOf(app: FrontApp, table: RequestTable, answerTo: (error: unknown) => WholeAnswer): Front {
  app.onError((error) => {
    const { status, headers, text } = answerTo(error);
    return new Response(text, { status, headers });
  });
  return {
    handle: async (request) => app.fetch(request),
    listen: (options = {}) => listenOn((request, bindings) => app.fetch(request, bindings), options),
    load: () => ({ running: table.running, waiting: table.waiting }),
  };
}

/** The answer in place of a generation; `null`: the error is none of the wire. */
export function wireAnswer(error: unknown): WholeAnswer | null {
  return error instanceof WireFaultError && error.fault.type === "answer" ? { ...error.fault, share: 1 } : null;
}

export type ListenOptions = {
  /** Default "127.0.0.1". */
  readonly host?: string;
  /** 0 takes a free one. Default 0. */
  readonly port?: number;
};

export type FrontListener = {
  /** E.g. `http://127.0.0.1:30000`. */
  readonly url: string;
  readonly port: number;
  /** Takes no more connections, and resolves when the last running request is answered. */
  drain(): Promise<void>;
  /** Closes the socket and every connection. Idempotent. */
  close(): Promise<void>;
};

/** Rejects when the port cannot be taken. */
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
        // Connections that clients keep open would otherwise hold it for seconds.
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
