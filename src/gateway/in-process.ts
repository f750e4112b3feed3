// The gateway as a `fetch`, for client libraries in the same process: requests and answers are values, and nothing is sent.

import type { GatewayHandler, GatewayHttpResponse } from "./gateway.ts";

export async function fetchFrom(handler: GatewayHandler, request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const answer = await handler.handle({
    ...{ method: request.method, url: `${pathname}${search}` },
    headers: Object.fromEntries(request.headers),
    body: Buffer.from(await request.arrayBuffer()),
  });
  const { status, headers, body } = answer;
  if (typeof body !== "string") return new Response(streamOf(body, answer.delivered), { status, headers });
  // A value that is handed over has arrived.
  answer.delivered?.();
  return new Response(body, { status, headers });
}

/** Delivered once its reader has had the end. */
function streamOf(
  body: AsyncIterable<string>,
  delivered: GatewayHttpResponse["delivered"],
): ReadableStream<Uint8Array> {
  const parts = body[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  return new ReadableStream(
    {
      pull: async (controller) => {
        const next = await parts.next();
        if (next.done !== true) return controller.enqueue(encoder.encode(next.value));
        delivered?.();
        controller.close();
      },
    },
    { highWaterMark: 0 },
  );
}
