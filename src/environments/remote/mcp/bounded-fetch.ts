// The platform's fetch with a bound on what an answer may hold: a server that never stops sending would fill the memory. And with
// a signal for each call, let go of with it: the library has one for a whole session, on which every call would leave a listener.

import { subscribeToAbort } from "../../../lib/deadline.ts";

/* oxlint-disable no-restricted-globals -- The library speaks to the platform's fetch and streams; the pool of `http/` has neither. */

/** `maxBytes` of one answer's body, a stream of events included. */
export function boundedFetch(maxBytes: number): typeof fetch {
  return async (input, init) => {
    const call = new AbortController();
    const { signal } = init ?? {};
    const leave = subscribeToAbort(signal ?? undefined, () => call.abort(signal?.reason));
    try {
      const answer = await fetch(input, { ...init, signal: call.signal });
      const length = Number(answer.headers.get("content-length") ?? NaN);
      if (answer.body !== null && !(length <= maxBytes)) return withBound(answer, answer.body, { maxBytes, leave });
      leave();
      return answer;
    } catch (error) {
      leave();
      throw error;
    }
  };
}

function withBound(
  answer: Response,
  body: ReadableStream<Uint8Array>,
  { maxBytes, leave }: { readonly maxBytes: number; readonly leave: () => void },
): Response {
  let bytes = 0;
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      if (bytes <= maxBytes) controller.enqueue(chunk);
      else controller.error(new SyntaxError(`An answer has more than ${maxBytes} bytes.`));
    },
    flush: leave,
  });
  const { status, statusText, headers, url } = answer;
  const bounded = new Response(body.pipeThrough(counter), { status, statusText, headers });
  // The library compares it with the address that it requested.
  Object.defineProperty(bounded, "url", { value: url });
  return bounded;
}
