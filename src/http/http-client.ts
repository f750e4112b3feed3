// The HTTP contract of engines and chat models: one request, one whole answer or one stream of
// chunks, faults attributed. `http-pool.ts` implements it for networks; tests implement it with a
// function. Retries (which belong to callers), redirects and cookies are omitted on purpose.
// Compression is not requested, but a compressed body is decompressed.

import type { BaseUrl } from "./base-url.ts";

export type HttpRequest = {
  readonly base: BaseUrl;
  readonly method: "GET" | "POST" | "DELETE";
  /**
   * Path of the request, beginning with a slash; it is placed between `base.path` and
   * `base.search`.
   */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /**
   * The bytes may be in shareable memory, which `fetch` and `Request` reject: copy them for those.
   * They are not read once the call has settled.
   */
  readonly body: Uint8Array | string | null;
};

/** Path and query of a request: those of the server's address followed by its own. */
export function targetOf({ base, path }: Pick<HttpRequest, "base" | "path">): string {
  const search = path.includes("?") ? base.search.replace(/^\?/, "&") : base.search;
  return `${base.path}${path}${search}`;
}

export type HttpCallOptions = {
  /** Aborting it ends the call with code "cancelled". */
  readonly signal?: AbortSignal | undefined;
  /**
   * Deadline in milliseconds for the whole answer, waiting for a connection included; code
   * "timeout". Default and `null`: none.
   */
  readonly timeoutMs?: number | null | undefined;
  /**
   * Deadline in milliseconds for the head of the answer, waiting for a connection included; code
   * "timeout". Default and `null`: none.
   */
  readonly firstByteTimeoutMs?: number | null | undefined;
  /**
   * Maximum size of the answer's body in decompressed bytes; a larger one is refused with code
   * "bad-reply". Default 64 MiB; unlimited for streams.
   */
  readonly maxBytes?: number | undefined;
};

/** Headers with lowercase names. */
export type HttpHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

export type HttpResponse = {
  readonly status: number;
  readonly headers: HttpHeaders;
  /** The decompressed body. */
  readonly body: Buffer;
};

export type HttpStream = {
  readonly status: number;
  readonly headers: HttpHeaders;
  /**
   * The decompressed chunks, readable once. Rejects like the call; leaving the loop early closes
   * the connection.
   */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Closes the connection; needed only if `chunks` is not read. */
  cancel(): void;
};

/** Codes of the faults that a client attributes. Any status is an answer, not a fault. */
export type HttpFailureCode = "unreachable" | "connection-lost" | "timeout" | "cancelled" | "bad-reply";

/**
 * Sends requests.
 *
 * Guarantees: rejects only with an `AttributedError` whose code is an {@link HttpFailureCode} and
 * whose text shows no header, body, query or credential; nothing of a call continues after its
 * rejection. Safe to call concurrently. Not guaranteed: that a failed request did not reach the
 * server (only "unreachable" means that).
 */
export interface HttpClient {
  request(request: HttpRequest, options?: HttpCallOptions): Promise<HttpResponse>;
  stream(request: HttpRequest, options?: HttpCallOptions): Promise<HttpStream>;
  /** Ends running calls with code "cancelled". Idempotent. */
  close(): Promise<void>;
}

/** The value of a header; the first if it occurs several times, `null` if it is absent. */
export function headerValue(headers: HttpHeaders, name: string): string | null {
  const value = headers[name];
  if (value === undefined) return null;
  return typeof value === "string" ? value : (value[0] ?? null);
}
