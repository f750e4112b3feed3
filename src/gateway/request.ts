// Requests of gateway clients, their answers, and errors, independent of the dialect. A dialect
// (`dialects/`) parses its own wire format into these types and writes them back in it.

import type { z } from "zod";
import type { Finish, Message, ParsedAction, SamplingParams, Tool, WeightSpan } from "../core/index.ts";

export const dialectNames = ["chat", "messages", "responses", "completions", "google", "sglang", "vllm"] as const;
export type DialectName = (typeof dialectNames)[number];

/** Headers with names in lower case. */
export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A parsed request for one turn. */
export type GatewayRequest = {
  /** The prompt as token ids, instead of a conversation; `null` if the prompt is rendered. */
  readonly promptTokens: Uint32Array | null;
  /** Name of the field that holds the ids. */
  readonly promptField: string;
  /**
   * The conversation as the client has it. Assistant messages in it may or may not have been
   * sampled here.
   */
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  /** False if the model sees the tools but any sampled text is content (`tool_choice: "none"`). */
  readonly mayCall: boolean;
  /** Maximum number of sampled tokens; `null` for the session's own. */
  readonly maxTokens: number | null;
  readonly stop: readonly string[];
  /** Ids that end the answer, in addition to the model's own. */
  readonly stopTokenIds: readonly number[];
  readonly isStreamed: boolean;
  /** Name of the model, echoed in the answer; never used to route. */
  readonly model: string;
  /** Sampling parameters that the client set, for counting and for `clientSampling: "obey"`. */
  readonly sampling: Partial<SamplingParams>;
  /** Names of those parameters in the dialect. */
  readonly samplingNames: readonly string[];
  /**
   * Variables of the chat template that the client set, the fields that held them, and the fields
   * whose values are not valid variables; see `clientTemplate`.
   */
  readonly template: {
    readonly names: readonly string[];
    readonly misshapen: readonly string[];
    readonly kwargs: Readonly<Record<string, unknown>>;
  };
  /** Names of fields that have no effect here. */
  readonly ignoredFields: readonly string[];
  /** Maximum number of calls in an answer; further calls are not shown. `null` for any number. */
  readonly maxCalls: number | null;
  /** Constraint on the answer; `null` for none. */
  readonly constraint: ClientConstraint | null;
  /** Number of tools that only their provider can run; they are not shown. */
  readonly ignoredTools: number;
  /** Responses only: the namespace and the name of tools whose shown names join both. */
  readonly namespaces: ReadonlyMap<string, { readonly namespace: string; readonly name: string }>;
  /** Chat only: the stream ends with a chunk that has the usage. */
  readonly includesUsage: boolean;
  /** Google only: the answer shows the reasoning. */
  readonly includesThoughts: boolean;
  /** Id that the client gave the request, echoed in the answer; `null` for an id of the gateway. */
  readonly requestId: string | null;
  /** Responses only; `null` for other dialects. */
  readonly response: ResponseFacts | null;
  /** Responses only: id of the response that this request continues, echoed in the answer. */
  readonly previousResponseId: string | null;
};

/** Constraint that a client requests. */
export type ClientConstraint = {
  /** Names of the fields that state it. */
  readonly fields: readonly string[];
  /** Names of the tools of which one must be called; "any" for all shown ones, `null` if none must be. */
  readonly mustCall: readonly string[] | "any" | null;
  /** Form of an answer; `null` if it is free. */
  readonly answer: AnswerForm | null;
};

/** Form of the text of an answer. `schema`: JSON text. */
export type AnswerForm = (
  | { readonly type: "json-schema"; readonly schema: string }
  | { readonly type: "regex"; readonly pattern: string }
  | { readonly type: "ebnf"; readonly grammar: string }
) & {
  /** True if the model may call a tool instead of answering. */
  readonly mayCallInstead: boolean;
};

/** Facts about a response that the Responses dialect must remember. */
export type ResponseFacts = {
  /** True if the first message is `instructions`, which later requests do not inherit. */
  readonly hasInstructions: boolean;
  /** False if later requests cannot refer to its id. */
  readonly isStored: boolean;
};

/** One sampled turn in the form for its client. */
export type GatewayAnswer = {
  /** Number of the call in its session; ids of the dialects derive from it. */
  readonly call: number;
  /** Prefix of ids; the same for all calls of a session. */
  readonly idPrefix: string;
  readonly action: ParsedAction;
  /** All sampled tokens, including those that are not shown. */
  readonly sampledTokens: Uint32Array;
  /** Logprobs of the sampled tokens, one each; `null` if the engine reported none. */
  readonly logprobs: Float32Array | null;
  /** Weights that sampled the tokens; empty if they are not known. */
  readonly weightSpans: readonly WeightSpan[];
  readonly finish: Finish;
  readonly usage: {
    readonly promptTokens: number;
    readonly cachedTokens: number | null;
    readonly sampledTokens: number;
  };
  /** Creation time in seconds since 1970. */
  readonly createdAt: number;
};

/**
 * A part of an answer that is known before its end. The parts of one type join to the whole text of
 * that type.
 */
export type AnswerDelta = { readonly type: "reasoning" | "content"; readonly text: string };

/** Reason why the turn ended, for dialects; "calls" if the action ended with calls. */
export function endingOf({ action, finish }: GatewayAnswer): "calls" | "length" | "stop" {
  if (finish.reason !== "stop") return "length";
  return action.toolCalls.length > 0 ? "calls" : "stop";
}

/** Access to the content of earlier responses of the session by the ids that they were given. */
export interface SampledItems {
  /**
   * The answer of a call; `null` if no call of this session has this number, or its response is not
   * stored.
   */
  answer(call: number): { readonly action: ParsedAction; readonly isStored: boolean } | null;
  /** The conversation up to and including this call's answer. */
  history(call: number): { readonly messages: readonly Message[]; readonly hasInstructions: boolean } | null;
  /** Prefix of the ids of this session. */
  readonly idPrefix: string;
}

/** Status of each error code; the dialect decides how the error is written. */
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
  /** Name of the invalid field; `null` if no field is at fault, or it is not known. */
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

/**
 * Error for an ended session. The status is not a conflict (409), which clients retry for minutes.
 */
export function sessionEnded(id: string): GatewayError {
  return new GatewayError("session-ended", `Cannot serve the request: session "${id}" has ended.`);
}

// Contract of a wire format that agent programs speak. Pure: without sessions and sockets. Its
// implementations are in `dialects/`.

/**
 * Writes one streamed answer, event by event. Single use; `start` first, then deltas, then `end` or
 * `error`.
 */
export interface AnswerStream {
  /** `promptTokens`: number of tokens of the prompt. */
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

/** Form of a streamed answer between its events. */
export type StreamFraming = {
  readonly contentType: string;
  /** Text for a stream without events so far, which clients skip. */
  readonly keepAlive: string;
};

/** Server-sent events. A comment does not end an event: clients that parse every event never see it. */
export const eventFraming: StreamFraming = {
  contentType: "text/event-stream; charset=utf-8",
  keepAlive: ": keepalive\n",
};

export interface Dialect {
  readonly name: DialectName;
  /** @default {@link eventFraming} */
  readonly framing?: StreamFraming;
  /** Gives the fields of a body the names and places that `lists` and `read` expect. @default unchanged */
  restate?(body: unknown): unknown;
  /** The body that states a number of tokens. @default `input_tokens` */
  countBody?(tokens: number): unknown;
  /** Fields of the body that may be very long lists, with the schema of their items. */
  readonly lists: Readonly<Record<string, z.ZodType>>;
  /**
   * Parses a body. `body`: with its long lists already parsed (`readLists`). Throws a
   * `GatewayError` for a body that cannot be served.
   */
  read(body: unknown, items: SampledItems): GatewayRequest;
  /** The body of an answer that is not streamed, as JSON. */
  whole(answer: GatewayAnswer, request: GatewayRequest): string;
  stream(head: AnswerHead, request: GatewayRequest): AnswerStream;
  /**
   * The body of an error, with the codes that make this dialect's clients stop, shorten the
   * conversation or retry.
   */
  error(error: GatewayError): unknown;
}

/** The part of an answer that is known before sampling. */
export type AnswerHead = Pick<GatewayAnswer, "call" | "idPrefix" | "createdAt">;
