// /generate as server-sent events: a frame after every piece of output, `[DONE]` at the end. What goes wrong once the
// stream could be open is said inside it, with HTTP 200, as the reference does; a crash breaks the connection.

import type { AnswerWriter } from "../front/answer-writer.ts";
import { generate } from "./generation.ts";
import type { GenerateRouteOptions, OpenCall } from "./open-call.ts";
import type { SglangProtocol } from "./protocol.ts";
import { Refusal } from "./refusal.ts";
import { replyItem, type Frame } from "./reply-item.ts";
import { itemText, WireFaultError } from "../front/wire-fault.ts";

/** Never rejects. `open` may throw a `Refusal`. */
export async function streamAnswer(
  open: () => OpenCall,
  writer: AnswerWriter,
  options: GenerateRouteOptions,
): Promise<void> {
  let opened: OpenCall | null = null;
  try {
    opened = open();
    const call = opened;
    await Promise.all(call.call.sequences.map((_, index) => streamSequence(call, index, { options, writer })));
    send(writer, "[DONE]");
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
        send(writer, itemText(mark(replyItem(facts, frame()))));
        shown = facts.tracker.ids.length;
        if (isDelta) shownText = facts.tracker.text()?.length ?? 0;
      },
    });
    const text = itemText(mark(generated.item(frame())));
    if (generated.share >= 1) {
      send(writer, text);
      return;
    }
    writer.write(`data: ${text.slice(0, Math.floor(text.length * generated.share))}`);
    writer.breakOff();
  } catch (error) {
    if (!(error instanceof Refusal) || error.kind !== "scheduler") throw error;
    const { message, status } = error;
    const finish = { type: "abort", message, status_code: status, err_type: null };
    const meta = { id: sequence.requestId, finish_reason: finish, completion_tokens: 0 };
    send(writer, itemText(mark({ text: "", output_ids: [], meta_info: meta })));
  }
}

function endWith(writer: AnswerWriter, thrown: unknown, protocol: SglangProtocol): void {
  const error = thrown instanceof Refusal ? thrown.toSpoken(protocol) : thrown;
  if (error instanceof WireFaultError && error.fault.type === "answer") {
    writer.whole({ ...error.fault, share: 1 });
  } else if (error instanceof Refusal && error.kind === "value") {
    const { message, status } = error;
    const details = { type: "invalid_request_error", code: status, retryable: false };
    send(writer, JSON.stringify({ error: { message, ...(protocol.detailedStreamErrors ? details : {}) } }));
    send(writer, "[DONE]");
    writer.end();
  } else if (error instanceof Refusal && error.kind !== "crash") {
    writer.whole(error.toAnswer());
  } else {
    writer.write("data: ");
    writer.breakOff();
  }
}

function send(writer: AnswerWriter, data: string): void {
  writer.write(`data: ${data}\n\n`);
}
