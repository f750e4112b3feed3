// The shared HTTP pool as a `fetch`, for the provider library: half the CPU of the platform's own, and one set of
// connections. Only what that library uses of fetch: a text body, a whole answer. No redirects, no streaming.

import { headerValue, parseBaseUrl, type HttpClient } from "../http/index.ts";

export type PoolFetch = (
  input: string | URL,
  init?: {
    readonly method?: string;
    readonly headers?: unknown;
    readonly body?: unknown;
    readonly signal?: AbortSignal | null;
  },
) => Promise<Response>;

/** Rejects as the pool does; throws a `TypeError` for a method or body it cannot send. */
export function poolFetch(http: HttpClient): PoolFetch {
  return async (input, init = {}) => {
    const url = new URL(input);
    const method = init.method ?? "GET";
    const body = init.body ?? null;
    if ((method !== "GET" && method !== "POST") || (body !== null && typeof body !== "string")) {
      throw new TypeError(
        `Cannot send a ${method} request with a ${typeof body} body: only GET and POST of text are known.`,
      );
    }
    const answer = await http.request(
      {
        base: parseBaseUrl(url.origin, { what: "provider" }),
        method,
        path: url.pathname + url.search,
        headers: Object.fromEntries(new Headers(init.headers as ConstructorParameters<typeof Headers>[0])),
        body,
      },
      { signal: init.signal ?? undefined },
    );
    const headers = new Headers();
    for (const name of Object.keys(answer.headers)) headers.set(name, headerValue(answer.headers, name) ?? "");
    return new Response(new Uint8Array(answer.body), { status: answer.status, headers });
  };
}
