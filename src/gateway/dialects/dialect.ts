// The contract of a wire format that agent programs speak. Pure: no session, no socket. Implementations lie beside it.

import type {
  AnswerDelta,
  DialectName,
  GatewayAnswer,
  GatewayError,
  GatewayRequest,
  SampledItems,
} from "../request.ts";

/** Writes one streamed answer, event by event. Single use; `start` first, then deltas, then `end` or `error`. */
export interface AnswerStream {
  /** `promptTokens`: of the request. */
  start(promptTokens: number): string;
  delta(delta: AnswerDelta): string;
  /**
   * What the deltas left out. `terminal` is what clients act on: it may leave only when the turn is recorded, so a caller sends
   * both then, `rest` first.
   */
  end(answer: GatewayAnswer): { readonly rest: string; readonly terminal: string };
  /** In place of `end`, after `start`. */
  error(error: GatewayError): string;
}

export interface Dialect {
  readonly name: DialectName;
  /** Throws a `GatewayError` for a body that cannot be served. */
  read(body: unknown, items: SampledItems): GatewayRequest;
  /** The body of an answer that is not streamed. */
  whole(answer: GatewayAnswer, request: GatewayRequest): unknown;
  stream(head: AnswerHead, request: GatewayRequest): AnswerStream;
  /** The body of an error, with the codes that make this dialect's clients stop, shorten or try again. */
  error(error: GatewayError): unknown;
}

/** What is known of an answer before it is sampled. */
export type AnswerHead = Pick<GatewayAnswer, "call" | "idPrefix" | "createdAt">;
