// The HTTP contract served by a function from `Request` to `Response`, as web frameworks offer one: requests in the same
// process, without a socket. For tests and for servers embedded in the process that calls them.

import type { Boundary } from "../core/failure.ts";
import { systemClock, type Clock } from "../lib/clock.ts";
import { CallScopes, type CallEnd } from "./call-scope.ts";
import { endedCall, httpFailure, unusableAnswer } from "./http-failure.ts";
import type { HttpCallOptions, HttpClient, HttpRequest, HttpResponse, HttpStream } from "./http-client.ts";

export type HandlerClientOptions = {
  readonly boundary: Boundary;
  /** Default: the real one. */
  readonly clock?: Clock;
};

/**
 * Makes a client of a handler. A handler that throws reads as a lost connection; a cancelled call aborts the signal of
 * its `Request`, as a server sees a client that went away.
 */
export function createHandlerClient(
  handler: (request: Request) => Response | Promise<Response>,
  options: HandlerClientOptions,
): HttpClient {
  const { boundary, clock = systemClock } = options;
  const scopes = new CallScopes(clock);
  let closed = false;

  const stream = async (request: HttpRequest, call: HttpCallOptions = {}): Promise<HttpStream> => {
    const { signal, timeoutMs = null, firstByteTimeoutMs = null, maxBytes = Infinity } = call;
    const toError = (reason: CallEnd): Error => endedCall(request, { boundary, reason, call });
    if (closed) throw toError("cancelled");
    const scope = scopes.open({ signal, timeoutMs, firstByteTimeoutMs, toError });
    const controller = new AbortController();
    scope.signal.addEventListener("abort", () => controller.abort(scope.error));
    const fail = (error: unknown): Error => {
      scope.end();
      return scope.error ?? httpFailure(error, request, boundary);
    };
    const answer = await scope
      .run(async () => handler(toRequest(request, controller.signal)))
      .catch((error: unknown) => {
        throw fail(error);
      });
    scope.begun();
    const reader = (answer.body as ReadableStream<Uint8Array> | null)?.getReader() ?? null;
    async function* chunks(): AsyncGenerator<Uint8Array> {
      let size = 0;
      try {
        for (;;) {
          const next = reader === null ? { done: true as const } : await scope.run(() => reader.read());
          if (next.done) return;
          size += next.value.length;
          if (size > maxBytes) {
            throw unusableAnswer(request, { boundary, state: `the answer is larger than ${maxBytes} bytes` });
          }
          yield next.value;
        }
      } catch (error) {
        throw fail(error);
      } finally {
        scope.end();
        reader?.cancel().catch(() => undefined);
      }
    }
    return {
      status: answer.status,
      headers: Object.fromEntries(answer.headers),
      chunks: chunks(),
      cancel: () => {
        scope.end();
        reader?.cancel().catch(() => undefined);
      },
    };
  };

  return {
    stream,
    request: async (request, call = {}): Promise<HttpResponse> => {
      const answer = await stream(request, call);
      const chunks: Uint8Array[] = [];
      for await (const chunk of answer.chunks) chunks.push(chunk);
      return { status: answer.status, headers: answer.headers, body: Buffer.concat(chunks) };
    },
    close: () => {
      closed = true;
      return Promise.resolve();
    },
  };
}

function toRequest(request: HttpRequest, signal: AbortSignal): Request {
  const { base, path, method, body } = request;
  const headers =
    base.authorization === null ? request.headers : { authorization: base.authorization, ...request.headers };
  // A `Request` takes no bytes out of memory that could be shared (`body-memory.ts`).
  const content = body instanceof Uint8Array ? Buffer.from(body) : body;
  return new Request(base.origin + base.path + path, { method, headers, body: content, signal });
}
