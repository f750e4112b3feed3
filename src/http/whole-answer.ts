// Collects one answer as the HTTP library reads it from the socket. Its `request` gives a readable stream instead, which
// costs more than everything else of a call when answers are small and wanted whole.

import type { Dispatcher } from "undici";
import type { HttpHeaders, HttpResponse } from "./http-client.ts";
import type { StopSignal } from "./stop-signal.ts";

export type WholeAnswerOptions = {
  /** Bound of the body. */
  readonly maxBytes: number;
  /** Ends the exchange and its connection. */
  readonly signal: StopSignal;
  /** Status and headers are here. */
  readonly onHead: () => void;
  readonly onAnswer: (answer: HttpResponse) => void;
  /** Told of what went wrong; `null`: the body is larger than the bound. May come more than once; only the first call counts. */
  readonly onFault: (error: Error | null) => void;
};

/** What `Dispatcher.dispatch` is given for one request. */
export class WholeAnswer implements Dispatcher.DispatchHandler {
  readonly #options: WholeAnswerOptions;
  #status = 0;
  #headers: HttpHeaders = {};
  #chunks: Buffer[] = [];
  #size = 0;

  constructor(options: WholeAnswerOptions) {
    this.#options = options;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const { signal } = this.#options;
    const stop = (): void => controller.abort(signal.reason ?? new Error("The call was stopped."));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop);
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: HttpHeaders): void {
    this.#status = status;
    this.#headers = headers;
    this.#options.onHead();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#size += chunk.length;
    this.#chunks.push(chunk);
    if (this.#size <= this.#options.maxBytes) return;
    this.#options.onFault(null);
    controller.abort(new Error("The answer is too large."));
  }

  onResponseEnd(): void {
    const body = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks, this.#size);
    this.#options.onAnswer({ status: this.#status, headers: this.#headers, body });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#options.onFault(error);
  }
}
