// POST /generate: a body in, an answer out, whole or as server-sent events. A client that goes away aborts what it asked for.

import { boolean, parseFields, readGenerateCall } from "./generate-body.ts";
import { generate, type GenerationContext } from "./generation.ts";
import { openCall, type GenerateRouteOptions, type OpenCall } from "./open-call.ts";
import { streamGenerate } from "./stream-route.ts";
import { faultResponse, itemText, WireFaultError } from "./wire-fault.ts";

/** Rejects with a `Refusal`. */
export async function serveGenerate(request: Request, options: GenerateRouteOptions): Promise<Response> {
  const fields = parseFields(await request.text());
  const open = (): OpenCall => {
    const routingKey = request.headers.get("x-smg-routing-key");
    return openCall(readGenerateCall(fields, { limits: options.limits, routingKey }), { request, options });
  };
  // What is wrong with a streamed request is said inside the stream.
  if (boolean(fields["stream"], "stream")) return streamGenerate(open, options);
  const opened = open();
  try {
    return await answerWhole(opened, options.context);
  } catch (error) {
    if (error instanceof WireFaultError && error.fault.type === "answer") return faultResponse(error.fault);
    throw error;
  } finally {
    opened.end();
  }
}

async function answerWhole({ call, live }: OpenCall, context: GenerationContext): Promise<Response> {
  const generated = await Promise.all(
    call.sequences.map((sequence, index) => generate(sequence, context, { request: live[index]!, onFrame: null })),
  );
  const texts = generated.map(({ item }) => itemText(item(null)));
  const text = call.isList ? `[${texts.join(",")}]` : texts.join("");
  const share = Math.min(...generated.map((one) => one.share));
  const headers = { "content-type": "application/json" };
  return share < 1 ? cutOff(text, share) : new Response(text, { headers });
}

/** An answer that announces all of its bytes and breaks off after some. */
function cutOff(text: string, share: number): Response {
  const bytes = new TextEncoder().encode(text);
  const head = bytes.subarray(0, Math.floor(bytes.length * share));
  let isSent = false;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (isSent || head.length === 0) controller.error(new Error("The connection is dropped on purpose."));
      else controller.enqueue(head);
      isSent = true;
    },
  });
  const headers = { "content-type": "application/json", "content-length": String(bytes.length) };
  return new Response(body, { headers });
}
