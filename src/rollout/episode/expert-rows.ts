// Experts reported by the calls of one turn, checked and joined. A turn has several calls when the
// server aborts it: each reports those of the tokens after the last row so far. Rows that do not
// fit are refused, because a trainer would replay another routing.

import type { SampleResult } from "../../core/engine.ts";
import { type AttributedError, faultAt } from "../../core/failure.ts";
import type { RoutedExperts } from "../../core/turn.ts";
import type { ExpertsHook, TurnExperts } from "./episode-options.ts";

/** Storage for a run's experts, with their shape in its model. */
export interface RoutedExpertsSink {
  readonly layers: number;
  readonly topk: number;
  /** Resolves with the offset of the first byte, once all bytes have left the process. */
  write(bytes: Uint8Array): Promise<number>;
}

/** The hook of an episode that writes the experts of its turns to `sink`. */
export function keepExperts(sink: RoutedExpertsSink): ExpertsHook {
  return (turn) => new ExpertRows(sink, turn);
}

class ExpertRows implements TurnExperts {
  readonly #sink: RoutedExpertsSink;
  readonly #start: number;
  readonly #turn: string;
  readonly #parts: Uint8Array[] = [];
  #rows = 0;

  constructor(sink: RoutedExpertsSink, { start, turn }: Parameters<ExpertsHook>[0]) {
    this.#sink = sink;
    this.#start = start;
    this.#turn = turn;
  }

  get from(): number {
    return this.#start + this.#rows;
  }

  take(
    { routedExpertBytes: bytes = null, routedExpertShape: stated = null, sampledTokens, finish }: SampleResult,
    promptLength: number,
  ): void {
    // Without the last token, which was sampled and never fed to the model.
    const all = promptLength + sampledTokens.length - 1;
    const rows = all - this.from;
    const size = this.#sink.layers * this.#sink.topk * 4;
    if (bytes === null) {
      // The call was aborted before it ran; the next one has the same tokens.
      if (finish.reason === "abort" && sampledTokens.length === 0) return;
      throw this.#refuse(
        "they were requested and the reply has none: a router may leave the field out, or the server was started without " +
          "--enable-return-routed-experts; name the servers directly, start them with it, or remove --routed-experts",
      );
    }
    const { layers, topk } = this.#sink;
    if (stated !== null && (stated.layers !== layers || stated.topk !== topk)) {
      throw this.#refuse(
        `the server states ${stated.layers} layers by ${stated.topk}, expected ${layers} by ${topk}; pass --routed-experts ${stated.layers}x${stated.topk}`,
      );
    }
    // A server that does not support the start position reports from the first token on.
    const given = bytes.length === all * size ? bytes.subarray(this.from * size) : bytes;
    if (given.length !== rows * size) {
      throw this.#refuse(
        `the reply has ${bytes.length} bytes, but ${rows} rows of ${this.#sink.layers} layers by ${this.#sink.topk} have ${rows * size}; ` +
          "set the model's own numbers in --routed-experts <layers>x<experts per token>",
      );
    }
    this.#parts.push(given);
    this.#rows += rows;
  }

  /** Writes all experts of the turn: one byte per number unless some number needs two. */
  async keep(): Promise<RoutedExperts> {
    const { layers, topk } = this.#sink;
    const numbers = new Uint16Array(this.#rows * layers * topk);
    let at = 0;
    let highest = 0;
    for (const part of this.#parts) {
      const view = new DataView(part.buffer, part.byteOffset, part.byteLength);
      for (let byte = 0; byte < part.length; byte += 4) {
        const expert = view.getInt32(byte, true);
        if (expert < 0 || expert > 0xffff) throw this.#refuse(`the number ${expert} is that of no expert`);
        if (expert > highest) highest = expert;
        numbers[at++] = expert;
      }
    }
    const width = highest > 0xff ? 2 : 1;
    const bytes = new Uint8Array(numbers.length * width);
    for (let place = 0; place < numbers.length; place++) {
      bytes[place * width] = numbers[place]! & 0xff;
      if (width === 2) bytes[place * 2 + 1] = numbers[place]! >> 8;
    }
    return { offset: await this.#sink.write(bytes), rows: this.#rows, layers, topk, width };
  }

  #refuse(state: string): AttributedError {
    return faultAt("engine", "bad-reply", `Cannot keep the routed experts of ${this.#turn}: ${state}.`, {
      retryable: false,
    });
  }
}
