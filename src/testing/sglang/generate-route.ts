// POST /generate: a body in, an answer out, whole or as server-sent events. A client that goes away aborts its request.

import {
  type AnswerWriter,
  type OpenWriter,
  sendData,
  sendShare,
  type WholeAnswer,
  wireAnswer,
} from "../front/front-server.ts";
import type { LiveRequest } from "../front/run-sequence.ts";
import { itemText } from "../front/sampler.ts";
import { boolean, parseFields, readGenerateCall, type GenerateCall, type ModelLimits } from "./generate-body.ts";
import { generate, type GenerationContext, replyItem, type Frame } from "./generate.ts";
import { Refusal, type SglangProtocol } from "./protocol.ts";

/** Gives what the framework is to be given. Rejects with a `Refusal`, and then nothing was written. */
export async function serveGenerate(
  request: Request,
  options: GenerateRouteOptions & { readonly openWriter: OpenWriter },
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

async function answerWhole({ call, live }: OpenCall, context: GenerationContext): Promise<WholeAnswer> {
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
    const answer = wireAnswer(error);
    if (answer === null) throw error;
    return answer;
  }
}

export type GenerateRouteOptions = {
  readonly context: GenerationContext;
  readonly limits: ModelLimits;
  /** What a frame of a stream holds: all so far, or what is new. */
  readonly streamOutput: "cumulative" | "delta";
};

/** A call whose sequences are in the table of live requests, aligned with `call.sequences`. */
export type OpenCall = {
  readonly call: GenerateCall;
  readonly live: readonly LiveRequest[];
  /** Aborts what still runs. */
  readonly abort: () => void;
  /** Takes the sequences out of the table; what still runs is aborted. */
  readonly end: () => void;
};

/** Throws a `Refusal` when an id is live already. A client that goes away aborts the call. */
function openCall(
  call: GenerateCall,
  input: { readonly request: Request; readonly options: GenerateRouteOptions },
): OpenCall {
  const { signal } = input.request;
  const { table } = input.options.context;
  const live: LiveRequest[] = [];
  const abort = (): void => live.forEach((entry) => entry.abort());
  const end = (): void => {
    signal.removeEventListener("abort", abort);
    abort();
    for (const entry of live) table.close(entry);
  };
  try {
    for (const { requestId } of call.sequences) {
      if (table.isLive(requestId)) throw Refusal.ofValue(`Duplicate request ID detected: ${requestId}`);
      live.push(table.open(requestId));
    }
  } catch (error) {
    end();
    throw error;
  }
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  return { call, live, abort, end };
}

/** Never rejects. `open` may throw a `Refusal`. */
async function streamAnswer(open: () => OpenCall, writer: AnswerWriter, options: GenerateRouteOptions): Promise<void> {
  let opened: OpenCall | null = null;
  try {
    opened = open();
    const call = opened;
    await Promise.all(call.call.sequences.map((_, index) => streamSequence(call, index, { options, writer })));
    sendData(writer, "[DONE]");
    writer.end();
  } catch (error) {
    endWith(writer, error, options.context.protocol);
  } finally {
    opened?.end();
  }
}

async function streamSequence(
  opened: OpenCall,
  index: number,
  output: { readonly options: GenerateRouteOptions; readonly writer: AnswerWriter },
): Promise<void> {
  const { options, writer } = output;
  const { call, live } = opened;
  const sequence = call.sequences[index]!;
  let shown = 0;
  let shownText = 0;
  const isDelta = options.streamOutput === "delta";
  const frame = (): Frame => (isDelta ? { newIdsFrom: shown, newTextFrom: shownText } : null);
  const mark = (item: unknown): unknown =>
    call.isList && typeof item === "object" && item !== null ? { ...item, index } : item;
  try {
    const generated = await generate(sequence, options.context, {
      request: live[index]!,
      onFrame: (facts) => {
        if (shown > 0 && facts.tracker.ids.length - shown < call.streamInterval) return;
        sendData(writer, itemText(mark(replyItem(facts, frame()))));
        shown = facts.tracker.ids.length;
        if (isDelta) shownText = facts.tracker.text()?.length ?? 0;
      },
    });
    sendShare(writer, itemText(mark(generated.item(frame()))), generated.share);
  } catch (error) {
    if (!(error instanceof Refusal) || error.kind !== "scheduler") throw error;
    const { message, status } = error;
    const finish = { type: "abort", message, status_code: status, err_type: null };
    const meta = { id: sequence.requestId, finish_reason: finish, completion_tokens: 0 };
    sendData(writer, itemText(mark({ text: "", output_ids: [], meta_info: meta })));
  }
}

function endWith(writer: AnswerWriter, thrown: unknown, protocol: SglangProtocol): void {
  const error = thrown instanceof Refusal ? thrown.toSpoken(protocol) : thrown;
  const answer = wireAnswer(error);
  if (answer !== null) {
    writer.whole(answer);
  } else if (error instanceof Refusal && error.kind === "value") {
    const { message, status } = error;
    const details = { type: "invalid_request_error", code: status, retryable: false };
    sendData(writer, JSON.stringify({ error: { message, ...(protocol.detailedStreamErrors ? details : {}) } }));
    sendData(writer, "[DONE]");
    writer.end();
  } else if (error instanceof Refusal && error.kind !== "crash") {
    writer.whole(error.toAnswer());
  } else {
    writer.write("data: ");
    writer.breakOff();
  }
}
