// The HTTP client contract implemented by a function from `Request` to `Response`, as in web
// frameworks: requests in the same process, without a socket.

import type { Boundary } from "../core/failure.ts";
import { systemClock, type Clock } from "../lib/clock.ts";
import { HttpCall } from "./http-call.ts";
import { endedCall } from "./http-failure.ts";
import {
  type HttpCallOptions,
  type HttpClient,
  type HttpRequest,
  type HttpResponse,
  type HttpStream,
  targetOf,
} from "./http-client.ts";

export type HandlerClientOptions = {
  readonly boundary: Boundary;
  /** Default: the system clock. */
  readonly clock?: Clock;
};

/**
 * Creates a client for a handler. A handler that throws counts as a lost connection; a cancelled
 * call aborts the signal of its `Request`, as a server sees a client that disconnects.
 */
export function createHandlerClient(
  handler: (request: Request) => Response | Promise<Response>,
  options: HandlerClientOptions,
): HttpClient {
  const { boundary, clock = systemClock } = options;
  let closed = false;

  const stream = async (request: HttpRequest, callOptions: HttpCallOptions = {}): Promise<HttpStream> => {
    const { maxBytes = Infinity } = callOptions;
    if (closed) throw endedCall(request, boundary, { code: "cancelled", state: "the caller cancelled it" });
    const call = new HttpCall(request, callOptions, { boundary, clock });
    const controller = new AbortController();
    call.addEventListener("abort", () => controller.abort(call.reason));
    const answer = await call
      .run(async () => handler(toRequest(request, controller.signal)))
      .catch((error: unknown) => {
        throw call.fail(error);
      });
    call.begun();
    const reader = (answer.body as ReadableStream<Uint8Array> | null)?.getReader() ?? null;
    const close = (): void => {
      call.end();
      reader?.cancel().catch(() => undefined);
    };
    async function* chunks(): AsyncGenerator<Uint8Array> {
      let size = 0;
      try {
        for (;;) {
          const next = reader === null ? { done: true as const } : await call.run(() => reader.read());
          if (next.done) return;
          size += next.value.length;
          if (size > maxBytes) throw call.tooLarge(maxBytes);
          yield next.value;
        }
      } catch (error) {
        throw call.fail(error);
      } finally {
        close();
      }
    }
    return { status: answer.status, headers: Object.fromEntries(answer.headers), chunks: chunks(), cancel: close };
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
  const { base, method, body } = request;
  const headers =
    base.authorization === null ? request.headers : { authorization: base.authorization, ...request.headers };
  // A `Request` rejects bytes in shareable memory (`request-body.ts`), so they are copied.
  const content = body instanceof Uint8Array ? Buffer.from(body) : body;
  return new Request(base.origin + targetOf(request), { method, headers, body: content, signal });
}
