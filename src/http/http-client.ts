// The HTTP contract of engines and chat models: one request, one whole answer or one stream of chunks, faults attributed.
// `http-pool.ts` implements it for networks; tests serve it from a function.
// Left out on purpose: retries (they belong to callers), redirects, cookies. Compression is not asked for; a body that is
// compressed all the same is unpacked.

import type { BaseUrl } from "./base-url.ts";

export type HttpRequest = {
  readonly base: BaseUrl;
  readonly method: "GET" | "POST" | "DELETE";
  /** Begins with a slash; follows `base.path`, and is followed by `base.search`. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Bytes may lie in memory that could be shared with other threads, which `fetch` and `Request` refuse: copy them for those. No longer
   * read once the call has settled.
   */
  readonly body: Uint8Array | string | null;
};

/** Path and query of a request: those of the server's address and its own. */
export function targetOf({ base, path }: Pick<HttpRequest, "base" | "path">): string {
  const search = path.includes("?") ? base.search.replace(/^\?/, "&") : base.search;
  return `${base.path}${path}${search}`;
}

export type HttpCallOptions = {
  /** Ends the call with code "cancelled". */
  readonly signal?: AbortSignal | undefined;
  /** Deadline for the whole answer, waiting for a connection included; code "timeout". Default and `null`: none. */
  readonly timeoutMs?: number | null | undefined;
  /** Deadline for the head of the answer, waiting for a connection included; code "timeout". Default and `null`: none. */
  readonly firstByteTimeoutMs?: number | null | undefined;
  /** Bound of the answer's body, unpacked; a larger one is refused with code "bad-reply". Default 64 MiB; streams: no bound. */
  readonly maxBytes?: number | undefined;
};

/** Names in lower case. */
export type HttpHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

export type HttpResponse = {
  readonly status: number;
  readonly headers: HttpHeaders;
  /** Unpacked. */
  readonly body: Buffer;
};

export type HttpStream = {
  readonly status: number;
  readonly headers: HttpHeaders;
  /** Unpacked, and read once. Rejects like the call does; leaving the loop early closes the connection. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Closes the connection; needed only when `chunks` is not read. */
  cancel(): void;
};

/** Codes of the faults a client attributes. Any status is an answer, not a fault. */
export type HttpFailureCode = "unreachable" | "connection-lost" | "timeout" | "cancelled" | "bad-reply";

/**
 * Sends requests.
 *
 * Guarantees: rejects only with an `AttributedError` whose code is an {@link HttpFailureCode} and whose text shows no
 * header, body, query or credential; after a rejection nothing of the call continues. Safe to call concurrently.
 * Not promised: that a failed request did not reach the server (only "unreachable" says so).
 */
export interface HttpClient {
  request(request: HttpRequest, options?: HttpCallOptions): Promise<HttpResponse>;
  stream(request: HttpRequest, options?: HttpCallOptions): Promise<HttpStream>;
  /** Ends running calls with code "cancelled". Idempotent. */
  close(): Promise<void>;
}

/** The value of a header; the first one when it came several times, `null` when it did not come. */
export function headerValue(headers: HttpHeaders, name: string): string | null {
  const value = headers[name];
  if (value === undefined) return null;
  return typeof value === "string" ? value : (value[0] ?? null);
}
