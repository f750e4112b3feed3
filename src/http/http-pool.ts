// The only HTTP client of the package: one undici `Pool` per server, with typed failures, deadlines
// and limits. undici's timeouts are disabled, because a generation may be silent for many minutes;
// this file enforces the deadlines. undici is loaded at the first call: loading takes a tenth of a
// second of CPU, which a process that sends nothing saves. Measured against fetch at 2,000
// concurrent 40 kB requests: a quarter of the CPU, a third of the sockets.

import { Readable } from "node:stream";
import type { Dispatcher, Pool } from "undici";
import { type Boundary, ConfigurationError } from "../core/failure.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { HttpCall } from "./http-call.ts";
import {
  type HttpCallOptions,
  type HttpClient,
  type HttpHeaders,
  type HttpRequest,
  type HttpResponse,
  type HttpStream,
  targetOf,
} from "./http-client.ts";
import {
  acceptedEncodings,
  EncodingError,
  encodingsOf,
  unpack,
  UnpackedTooLargeError,
  UnpackError,
} from "./content-encoding.ts";

export type HttpPoolOptions = {
  /** The boundary that failures are attributed to. */
  readonly boundary: Boundary;
  /**
   * Maximum number of connections to one server; further calls wait. About twice the number of
   * requests that the server runs concurrently. Default 512, 1 to 65,535.
   */
  readonly connections?: number;
  /** Deadline for establishing a connection. Default 10,000 ms. */
  readonly connectTimeoutMs?: number;
  /** Measures deadlines. Default: the system clock. */
  readonly clock?: Clock;
};

const defaultMaxBytes = 64 * 1024 * 1024;

type Library = { readonly Pool: typeof Pool };

let library: Library | null = null;

/** Starts `work` at once if the library is loaded. A call that ended during loading is not started. */
async function withLibrary<T>(call: HttpCall, work: (undici: Library) => Promise<T>): Promise<T> {
  library ??= await import("undici");
  if (call.reason !== undefined) throw call.reason;
  return work(library);
}

/**
 * Creates a pool. It holds no connection before the first call; idle connections do not keep the
 * process alive.
 *
 * @example
 * const pool = createHttpPool({ boundary: "engine", connections: 64 });
 */
export function createHttpPool(options: HttpPoolOptions): HttpClient {
  const { boundary, connections = 512, connectTimeoutMs = 10_000, clock = systemClock } = options;
  requireInteger("connections", connections, 65_535);
  requireInteger("connectTimeoutMs", connectTimeoutMs, 2 ** 31 - 1);
  return new HttpPool({ boundary, connections, connectTimeoutMs, clock });
}

class HttpPool implements HttpClient {
  readonly #options: Required<HttpPoolOptions>;
  readonly #servers = new Map<string, Pool>();
  #closed = false;

  constructor(options: Required<HttpPoolOptions>) {
    this.#options = options;
  }

  async request(request: HttpRequest, options: HttpCallOptions = {}): Promise<HttpResponse> {
    const call = new HttpCall(request, options, this.#options);
    try {
      return await call.run(() =>
        withLibrary(call, ({ Pool }) => {
          const server = this.#serverOf(request.base.origin, Pool);
          return exchangeUnpacked(server, request, { call, maxBytes: options.maxBytes ?? defaultMaxBytes });
        }),
      );
    } catch (error) {
      throw call.fail(error);
    } finally {
      call.end();
    }
  }

  async stream(request: HttpRequest, options: HttpCallOptions = {}): Promise<HttpStream> {
    const call = new HttpCall(request, options, this.#options);
    let answer: Dispatcher.ResponseData;
    try {
      const dispatched = { ...dispatchOptions(request), signal: call };
      answer = await call.run(() =>
        withLibrary(call, async (undici) => this.#serverOf(request.base.origin, undici.Pool).request(dispatched)),
      );
      call.begun();
    } catch (error) {
      throw call.fail(error);
    }
    // A fault between the headers and the first read must not become an uncaught error; the read
    // reports it.
    answer.body.on("error", () => undefined);
    return {
      status: answer.statusCode,
      headers: answer.headers,
      chunks: readChunks(answer, call, options.maxBytes ?? Infinity),
      cancel: () => {
        call.end();
        answer.body.destroy();
      },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    const servers = [...this.#servers.values()];
    this.#servers.clear();
    await Promise.all(servers.map((server) => server.destroy()));
  }

  #serverOf(origin: string, Servers: typeof Pool): Pool {
    if (this.#closed) throw Object.assign(new Error("The HTTP pool is closed."), { code: "UND_ERR_CLOSED" });
    const known = this.#servers.get(origin);
    if (known !== undefined) return known;
    const { connections, connectTimeoutMs } = this.#options;
    const connect = { timeout: connectTimeoutMs };
    const server = new Servers(origin, { connections, pipelining: 1, headersTimeout: 0, bodyTimeout: 0, connect });
    this.#servers.set(origin, server);
    return server;
  }
}

/** Like {@link exchange}, but decompresses the body; the limit applies to the decompressed size. */
async function exchangeUnpacked(
  server: Pool,
  request: HttpRequest,
  parts: { readonly call: HttpCall; readonly maxBytes: number },
): Promise<HttpResponse> {
  const answer = await exchange(server, request, parts);
  const encodings = encodingsOf(answer.headers["content-encoding"]);
  if (encodings.length === 0) return answer;
  const { call, maxBytes } = parts;
  const pieces: Uint8Array[] = [];
  for await (const piece of unpackIn(call, Readable.from([answer.body]), encodings, maxBytes)) pieces.push(piece);
  return { ...answer, body: Buffer.concat(pieces) };
}

/** Like `unpack`, with faults attributed to the call. */
async function* unpackIn(
  call: HttpCall,
  chunks: AsyncIterable<Uint8Array>,
  encodings: readonly string[],
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  try {
    yield* unpack(chunks, encodings, maxBytes);
  } catch (error) {
    if (error instanceof UnpackedTooLargeError) throw call.tooLarge(maxBytes);
    if (error instanceof EncodingError) {
      throw call.notUnpacked(`${error.message}; supported are ${acceptedEncodings}`);
    }
    throw error instanceof UnpackError ? call.notUnpacked(error.message) : error;
  }
}

/**
 * One whole answer, collected while undici reads it from the socket. undici's `request` returns a
 * readable stream instead, which costs more than all the rest of a call with a small answer.
 */
function exchange(
  server: Pool,
  request: HttpRequest,
  { call, maxBytes }: { readonly call: HttpCall; readonly maxBytes: number },
): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let mostBytes = maxBytes;
    let status = 0;
    let headers: HttpHeaders = {};
    server.dispatch(dispatchOptions(request), {
      onRequestStart: (controller) => {
        const stop = (): void => controller.abort(call.reason ?? new Error("The call was ended."));
        if (call.aborted) stop();
        else call.addEventListener("abort", stop);
      },
      onResponseStart: (_controller, ...head) => {
        [status, headers] = head;
        // Incompressible data grows slightly when compressed.
        if (encodingsOf(headers["content-encoding"]).length > 0) mostBytes = maxBytes + maxBytes / 16 + 4096;
        call.begun();
      },
      onResponseData: (controller, chunk) => {
        size += chunk.length;
        chunks.push(chunk);
        if (size <= mostBytes) return;
        reject(call.tooLarge(maxBytes));
        controller.abort(new Error("The answer is too large."));
      },
      onResponseEnd: () => {
        resolve({ status, headers, body: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size) });
      },
      onResponseError: (_controller, error) => reject(error),
    });
  });
}

function dispatchOptions(request: HttpRequest): Dispatcher.RequestOptions {
  const { base, method, headers, body } = request;
  return {
    path: targetOf(request),
    method,
    headers: base.authorization === null ? headers : { authorization: base.authorization, ...headers },
    body,
  };
}

async function* readChunks(
  { body, headers }: Dispatcher.ResponseData,
  call: HttpCall,
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  const encodings = encodingsOf(headers["content-encoding"]);
  const sent: AsyncIterable<Uint8Array> = body as AsyncIterable<Buffer>;
  const chunks = encodings.length === 0 ? sent : unpackIn(call, sent, encodings, maxBytes);
  let size = 0;
  try {
    for await (const chunk of chunks) {
      size += chunk.length;
      if (size > maxBytes) throw call.tooLarge(maxBytes);
      yield chunk;
    }
  } catch (error) {
    throw call.fail(error);
  } finally {
    call.end();
  }
}

function requireInteger(name: string, value: number, most: number): void {
  if (Number.isInteger(value) && value >= 1 && value <= most) return;
  throw new ConfigurationError(
    `Cannot create an HTTP pool: ${name} is ${value}, expected an integer from 1 to ${most}.`,
  );
}
