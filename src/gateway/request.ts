// Requests of gateway clients, their answers, and errors, independent of the dialect. A dialect
// (`dialects/`) parses its own wire format into these types and writes them back in it.

import type { z } from "zod";
import type { Finish, Message, ParsedAction, SamplingParams, Tool } from "../core/index.ts";

export const dialectNames = ["chat", "messages", "responses", "completions"] as const;
export type DialectName = (typeof dialectNames)[number];

/** Names in lower case. */
export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A request for one turn, read. */
export type GatewayRequest = {
  /** The prompt as ids, in place of a conversation; `null`: it is rendered. */
  readonly promptTokens: Uint32Array | null;
  /** The conversation as the client has it. Assistant messages in it may or may not have been sampled here. */
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  /** False if the model sees the tools but any sampled text is content (`tool_choice: "none"`). */
  readonly mayCall: boolean;
  /** A cap; `null`: the session's own. */
  readonly maxTokens: number | null;
  readonly stop: readonly string[];
  readonly isStreamed: boolean;
  /** Echoed in the answer, and routed nowhere. */
  readonly model: string;
  /** Sampling parameters that the client set, for counting and for `clientSampling: "obey"`. */
  readonly sampling: Partial<SamplingParams>;
  /** Names of those, as the dialect spells them. */
  readonly samplingNames: readonly string[];
  /** Variables of the chat template that the client set, the fields that held them, and those whose values are none; see `clientTemplate`. */
  readonly template: {
    readonly names: readonly string[];
    readonly misshapen: readonly string[];
    readonly kwargs: Readonly<Record<string, unknown>>;
  };
  /** Fields that have no effect here, by name. */
  readonly ignoredFields: readonly string[];
  /** Calls that an answer may have; further ones are not shown. `null`: any number. */
  readonly maxCalls: number | null;
  /** Tools of kinds that only their provider can carry out; they are not shown. */
  readonly ignoredTools: number;
  /** Chat only: the stream ends with a chunk that has the usage. */
  readonly includesUsage: boolean;
  /** Responses only; `null` for other dialects. */
  readonly response: ResponseFacts | null;
  /** Responses only: id of the response that this request continues, echoed in the answer. */
  readonly previousResponseId: string | null;
};

/** Facts about a response that the Responses dialect must remember. */
export type ResponseFacts = {
  /** The first message is `instructions`, which later requests do not inherit. */
  readonly hasInstructions: boolean;
  /** False: its id cannot be named later. */
  readonly isStored: boolean;
};

/** One sampled turn, as its client is told of it. */
export type GatewayAnswer = {
  /** Number of the call in its session; ids of the dialects derive from it. */
  readonly call: number;
  /** Starts ids; the same for all calls of a session. */
  readonly idPrefix: string;
  readonly action: ParsedAction;
  /** All sampled tokens, including those that are not shown. */
  readonly sampledTokens: Uint32Array;
  /** One per sampled token; `null`: the engine reported none. */
  readonly logprobs: Float32Array | null;
  readonly finish: Finish;
  readonly usage: {
    readonly promptTokens: number;
    readonly cachedTokens: number | null;
    readonly sampledTokens: number;
  };
  /** Seconds since 1970. */
  readonly createdAt: number;
};

/** A part of an answer that is known before its end. Parts of one kind join to what the answer then holds. */
export type AnswerDelta = { readonly type: "reasoning" | "content"; readonly text: string };

/** Why the turn ended, for dialects; an action that ended with calls says so. */
export function endingOf({ action, finish }: GatewayAnswer): "calls" | "length" | "stop" {
  if (finish.reason !== "stop") return "length";
  return action.toolCalls.length > 0 ? "calls" : "stop";
}

/** The fields of what an earlier response of the session said, by the ids that it was given. */
export interface SampledItems {
  /** `null`: no call of this session has this number, or its response is not stored. */
  answer(call: number): { readonly action: ParsedAction; readonly isStored: boolean } | null;
  /** The conversation up to and including this call's answer. */
  history(call: number): { readonly messages: readonly Message[]; readonly hasInstructions: boolean } | null;
  /** Prefix of the ids of this session. */
  readonly idPrefix: string;
}

/** Status and meaning of each error; how it reads is up to the dialect. */
const statuses = {
  "invalid-request": 400,
  unsupported: 400,
  "session-ended": 400,
  "context-length": 400,
  unauthorized: 401,
  forbidden: 403,
  "not-found": 404,
  "too-large": 413,
  "unsupported-media-type": 415,
  "rate-limited": 429,
  "engine-failed": 500,
  internal: 500,
  overloaded: 503,
} as const;

export type GatewayErrorCode = keyof typeof statuses;
export type GatewayErrorStatus = (typeof statuses)[GatewayErrorCode];

export class GatewayError extends Error {
  readonly code: GatewayErrorCode;
  readonly status: GatewayErrorStatus;
  /** Delay before a retry, in milliseconds, for retryable errors. */
  readonly retryAfterMs: number | null;
  /** The field of the request that is wrong; `null`: none is, or it is not known. */
  readonly param: string | null;
  /** Prompt tokens and their maximum, where known; only for "context-length". */
  readonly context: { readonly tokens: number; readonly most: number } | null;

  constructor(
    code: GatewayErrorCode,
    message: string,
    options: {
      readonly retryAfterMs?: number;
      readonly param?: string | null;
      readonly context?: GatewayError["context"];
      readonly cause?: unknown;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "GatewayError";
    this.code = code;
    this.status = statuses[code];
    this.retryAfterMs = options.retryAfterMs ?? null;
    this.param = options.param ?? null;
    this.context = options.context ?? null;
  }
}

/** Not a conflict (409), which clients repeat for minutes. */
export function sessionEnded(id: string): GatewayError {
  return new GatewayError("session-ended", `Cannot serve the request: session "${id}" has ended.`);
}

// The contract of a wire format that agent programs speak. Pure: no session, no socket. Implementations lie beside it.

/** Writes one streamed answer, event by event. Single use; `start` first, then deltas, then `end` or `error`. */
export interface AnswerStream {
  /** `promptTokens`: of the request. */
  start(promptTokens: number): string;
  delta(delta: AnswerDelta): string;
  /**
   * Remaining content that no delta had (`rest`), and the final event (`terminal`). Clients act on
   * `terminal`: it may be sent only after the turn is recorded, so callers send both then, `rest`
   * first.
   */
  end(answer: GatewayAnswer): { readonly rest: string; readonly terminal: string };
  /** Error event that replaces `end`, after `start`. */
  error(error: GatewayError): string;
}

export interface Dialect {
  readonly name: DialectName;
  /** Fields of the body that may be very long lists, and the schema of their items. */
  readonly lists: Readonly<Record<string, z.ZodType>>;
  /** `body`: with its long lists read (`readLists`). Throws a `GatewayError` for a body that cannot be served. */
  read(body: unknown, items: SampledItems): GatewayRequest;
  /** The body of an answer that is not streamed, as JSON. */
  whole(answer: GatewayAnswer, request: GatewayRequest): string;
  stream(head: AnswerHead, request: GatewayRequest): AnswerStream;
  /** The body of an error, with the codes that make this dialect's clients stop, shorten or try again. */
  error(error: GatewayError): unknown;
}

/** The part of an answer that is known before sampling. */
export type AnswerHead = Pick<GatewayAnswer, "call" | "idPrefix" | "createdAt">;
