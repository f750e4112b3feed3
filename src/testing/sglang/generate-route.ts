// POST /generate: a body in, an answer out, whole or as server-sent events. A client that goes away aborts what it asked for.

import type { AnswerWriter } from "../front/answer-writer.ts";
import { boolean, parseFields, readGenerateCall } from "./generate-body.ts";
import { generate, type GenerationContext } from "./generation.ts";
import { openCall, type GenerateRouteOptions, type OpenCall } from "./open-call.ts";
import { streamAnswer } from "./stream-route.ts";
import { itemText, WireFaultError } from "../front/wire-fault.ts";

/** Gives what the framework is to be given. Rejects with a `Refusal`, and then nothing was written. */
export async function serveGenerate(
  request: Request,
  options: GenerateRouteOptions & {
    readonly openWriter: (onLeave: () => void) => AnswerWriter;
  },
): Promise<Response> {
  const fields = parseFields(await request.text());
  const open = (): OpenCall => {
    const routingKey = request.headers.get("x-smg-routing-key");
    return openCall(readGenerateCall(fields, { limits: options.limits, routingKey }), { request, options });
  };
  if (boolean(fields["stream"], "stream")) {
    let opened: OpenCall | null = null;
    const writer = options.openWriter(() => opened?.abort());
    // What is wrong with a streamed request is said inside the stream, so opening it is part of the streaming.
    const openLate = (): OpenCall => (opened = open());
    void streamAnswer(openLate, writer, options);
    return writer.response;
  }
  const opened = open();
  try {
    const answer = await answerWhole(opened, options.context);
    const writer = options.openWriter(opened.abort);
    writer.whole(answer);
    return await writer.response;
  } finally {
    opened.end();
  }
}

async function answerWhole(
  { call, live }: OpenCall,
  context: GenerationContext,
): Promise<Parameters<AnswerWriter["whole"]>[0]> {
  try {
    const generated = await Promise.all(
      call.sequences.map((sequence, index) => generate(sequence, context, { request: live[index]!, onFrame: null })),
    );
    const texts = generated.map(({ item }) => itemText(item(null)));
    return {
      status: 200,
      headers: { "content-type": "application/json" },
      text: call.isList ? `[${texts.join(",")}]` : texts.join(""),
      share: Math.min(...generated.map((one) => one.share)),
    };
  } catch (error) {
    if (error instanceof WireFaultError && error.fault.type === "answer") return { ...error.fault, share: 1 };
    throw error;
  }
}
