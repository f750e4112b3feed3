// The pool as a `fetch`, for libraries that accept one: their requests get its limits, deadlines
// and attributed faults. Redirects are returned like any other answer, so headers are never sent to
// their targets.

import { headerValue, type HttpClient } from "./http-client.ts";
import { parseBaseUrl, type BaseUrl } from "./base-url.ts";

/** The supported part of the second argument of `fetch`. */
export type FetchInit = {
  readonly method?: string;
  readonly headers?: unknown;
  readonly body?: unknown;
  readonly signal?: AbortSignal | null;
};

export type HttpFetch = (input: string | URL, init?: FetchInit) => Promise<Response>;

export type HttpFetchOptions = {
  /**
   * Authorization that replaces every other credential, and a query that is added. Default:
   * requests are sent unchanged.
   */
  readonly access?: Pick<BaseUrl, "authorization" | "search">;
  /**
   * Maximum size of one answer's body in decompressed bytes; a stream of events counts as one body.
   * Default 64 MiB.
   */
  readonly maxBytes?: number;
  /** Delivers bodies whole, or streamed as they are read, for event streams. Default "whole". */
  readonly bodies?: "whole" | "streamed";
};

/** Headers in which libraries send API keys. */
const keyHeaders = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];
/** Headers that describe the encoded body, which has been decompressed. */
const bodyHeaders = ["content-encoding", "content-length", "transfer-encoding"];

/**
 * Rejects like the client, also while the body is read; throws a `TypeError` for a method or a body
 * that it cannot send.
 */
export function httpFetch(http: HttpClient, options: HttpFetchOptions = {}): HttpFetch {
  const { access = { authorization: null, search: "" }, maxBytes = 64 * 1024 * 1024, bodies = "whole" } = options;
  return async (input, init = {}) => {
    const url = new URL(input);
    const method = init.method ?? "GET";
    const body = init.body ?? null;
    if (!isMethod(method) || (body !== null && typeof body !== "string")) {
      throw new TypeError(
        `Cannot send a ${method} request with a ${typeof body} body: only GET, POST and DELETE with a text body are supported.`,
      );
    }
    const sent = new Headers(init.headers as ConstructorParameters<typeof Headers>[0]);
    if (access.authorization !== null) for (const name of keyHeaders) sent.delete(name);
    const base = parseBaseUrl(url.origin, { what: "server", authorization: access.authorization });
    const path = url.pathname + url.search;
    const request = {
      base: { ...base, search: access.search },
      method,
      path,
      body,
      headers: Object.fromEntries(sent),
    };
    const call = { signal: init.signal ?? undefined, maxBytes };
    const answer = await (bodies === "whole" ? http.request(request, call) : http.stream(request, call));
    const headers = new Headers();
    for (const name of Object.keys(answer.headers)) headers.set(name, headerValue(answer.headers, name) ?? "");
    for (const name of bodyHeaders) headers.delete(name);
    const { status } = answer;
    // `Response` does not allow a body with these statuses.
    const hasBody = status !== 204 && status !== 205 && status !== 304;
    if (!hasBody && "cancel" in answer) answer.cancel();
    const content = "chunks" in answer ? streamOf(answer.chunks) : new Uint8Array(answer.body);
    const response = new Response(hasBody ? content : null, { status, headers });
    // Libraries compare it with the requested address.
    Object.defineProperty(response, "url", { value: url.href });
    return response;
  };
}

function isMethod(method: string): method is "GET" | "POST" | "DELETE" {
  return method === "GET" || method === "POST" || method === "DELETE";
}

function streamOf(chunks: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const pieces = chunks[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await pieces.next();
      if (next.done === true) controller.close();
      else controller.enqueue(next.value);
    },
    async cancel() {
      await pieces.return?.();
    },
  });
}
