// The platform's fetch with a bound on what an answer may hold: a server that never stops sending would fill the memory.

/* oxlint-disable no-restricted-globals -- The library speaks to the platform's fetch and streams; the pool of `http/` has neither. */

/** `maxBytes` of one answer's body, a stream of events included. */
export function boundedFetch(maxBytes: number): typeof fetch {
  return async (input, init) => {
    const answer = await fetch(input, init);
    if (answer.body === null) return answer;
    let bytes = 0;
    const counter = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.byteLength;
        if (bytes <= maxBytes) controller.enqueue(chunk);
        else controller.error(new SyntaxError(`An answer has more than ${maxBytes} bytes.`));
      },
    });
    const { status, statusText, headers, url } = answer;
    const bounded = new Response(answer.body.pipeThrough(counter), { status, statusText, headers });
    // The library compares it with the address that it requested.
    Object.defineProperty(bounded, "url", { value: url });
    return bounded;
  };
}
