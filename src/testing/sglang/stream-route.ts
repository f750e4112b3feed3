// /generate as server-sent events: a frame after every piece of output, `[DONE]` at the end. What goes wrong once the
// stream could be open is said inside it, with HTTP 200, as the reference does; a crash breaks the connection.

import { generate } from "./generation.ts";
import type { GenerateRouteOptions, OpenCall } from "./open-call.ts";
import { Refusal } from "./refusal.ts";
import { replyItem, type Frame } from "./reply-item.ts";
import { faultResponse, itemText, WireFaultError } from "./wire-fault.ts";

/** `open` may throw a `Refusal`. */
export function streamGenerate(open: () => OpenCall, options: GenerateRouteOptions): Promise<Response> {
  let opened: OpenCall | null = null;
  const sink = new EventSink(() => opened?.abort());
  const work = async (): Promise<void> => {
    opened = open();
    const { call } = opened;
    await Promise.all(call.sequences.map((_, index) => streamSequence(opened!, index, { options, sink })));
    sink.send("[DONE]");
    sink.close();
  };
  work()
    .catch((error: unknown) => sink.endWith(error))
    .finally(() => opened?.end());
  return sink.response;
}

async function streamSequence(
  opened: OpenCall,
  index: number,
  output: { readonly options: GenerateRouteOptions; readonly sink: EventSink },
): Promise<void> {
  const { options, sink } = output;
  const { call, live } = opened;
  const sequence = call.sequences[index]!;
  let shown = 0;
  const frame = (): Frame => (options.streamOutput === "delta" ? { newIdsFrom: shown } : null);
  const mark = (item: unknown): unknown =>
    call.isList && typeof item === "object" && item !== null ? { ...item, index } : item;
  try {
    const generated = await generate(sequence, options.context, {
      request: live[index]!,
      onFrame: (facts) => {
        sink.send(itemText(mark(replyItem(facts, frame()))));
        shown = facts.tracker.ids.length;
      },
    });
    const text = itemText(mark(generated.item(frame())));
    if (generated.share < 1) sink.breakOff(text.slice(0, Math.floor(text.length * generated.share)));
    else sink.send(text);
  } catch (error) {
    if (!(error instanceof Refusal) || error.kind !== "scheduler") throw error;
    const { message, status } = error;
    const finish = { type: "abort", message, status_code: status, err_type: null };
    const meta = { id: sequence.requestId, finish_reason: finish, completion_tokens: 0 };
    sink.send(itemText(mark({ text: "", output_ids: [], meta_info: meta })));
  }
}

/** The stream of one answer. The answer itself is decided by the first thing that happens. */
class EventSink {
  readonly response: Promise<Response>;
  readonly #encoder = new TextEncoder();
  readonly #body: ReadableStream<Uint8Array>;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #answer!: (response: Response) => void;
  #isOver = false;
  #isBroken = false;

  constructor(onCancel: () => void) {
    this.#body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        // An error at once would drop what is queued.
        pull: () => {
          if (this.#isBroken) this.#controller.error(new Error("The connection is dropped on purpose."));
        },
        cancel: () => {
          this.#isOver = true;
          onCancel();
        },
      },
      { highWaterMark: 0 },
    );
    this.response = new Promise((resolve) => {
      this.#answer = resolve;
    });
  }

  send(data: string): void {
    this.#write(`data: ${data}\n\n`);
  }

  close(): void {
    if (!this.#isOver) this.#controller.close();
    this.#isOver = true;
  }

  /** Sends the beginning of an event and drops the connection. */
  breakOff(data: string): void {
    this.#write(`data: ${data}`);
    this.#isBroken = true;
    this.#isOver = true;
  }

  endWith(error: unknown): void {
    if (error instanceof WireFaultError && error.fault.type === "answer") {
      this.#answer(faultResponse(error.fault));
    } else if (error instanceof Refusal && error.kind === "value") {
      this.send(JSON.stringify({ error: { message: error.message } }));
      this.send("[DONE]");
    } else if (error instanceof Refusal && error.kind !== "crash") {
      this.#answer(error.toResponse());
    } else {
      this.breakOff("");
    }
    this.close();
  }

  #write(text: string): void {
    if (this.#isOver) return;
    this.#answer(new Response(this.#body, { headers: { "content-type": "text/event-stream; charset=utf-8" } }));
    this.#controller.enqueue(this.#encoder.encode(text));
  }
}
