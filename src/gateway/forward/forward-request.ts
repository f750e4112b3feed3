// Forwards one request to an API model unchanged, and returns its answer: passed on as received,
// whole or event by event, and parsed for the record. The last event of a stream is sent only after
// its answer is recorded.

import { hash } from "node:crypto";
import {
  type ApiModel,
  type ChatSampling,
  modelFailure,
  splitEvents,
  type WireAnswer,
  type WireReply,
  type WireRequest,
  WireStream,
} from "../../chat-models/index.ts";
import { type Attempt, AttributedError, messageOf, type ModelUsage, type ParsedAction } from "../../core/index.ts";
import type { JsonObject } from "../../python-semantics/json/index.ts";
import { type ClientAgent, clientAgentOf } from "../client-agents.ts";
import { requestOf } from "../dialects/fields.ts";
import { type DialectName, GatewayError } from "../request.ts";
import type { ForwardedRecord, ForwardedTurn, PlacedRequest } from "./forwarded-record.ts";
import { type ForwardedBody, forwardedBody, shownRequest, type WireDialect } from "./forwarded-request.ts";

/** A request as received. */
export type ProgramRequest = {
  /** Body as JSON text. */
  readonly text: string;
  /** The parsed body. */
  readonly body: unknown;
  /** Part of the path after the dialect's own: "/count_tokens", "?beta=true". */
  readonly suffix: string;
  /** Headers with names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
};

/** A call in progress. */
export type BegunCall = {
  readonly number: number;
  readonly dialect: DialectName;
  readonly digest: string;
  readonly client: ClientAgent | null;
  readonly startedAt: number;
  /** Failed attempts so far. */
  readonly attempts: Attempt[];
  /** Names of the program's fields that were not sent to the API. */
  readonly ignored: string[];
  readonly generation: number;
};

/** Answer of a call, for the record. */
export type CallAnswer = {
  readonly action: ParsedAction;
  /** Usage of the successful attempt. */
  readonly usage: ModelUsage;
  /** Names by which later requests refer to the answer; `null` if only our own names exist. */
  readonly names: { readonly id: string | null; readonly items: ReadonlyMap<string, JsonObject> } | null;
};

/** Callbacks of the session for a forwarded call. */
export interface ForwardingSession {
  readonly signal: AbortSignal;
  /**
   * False while a call failed after all its attempts and has not been recovered: then repeated
   * requests get a single attempt.
   */
  readonly retries: boolean;
  /** Throws a `GatewayError` if the session has no room for another call. */
  beginCall(call: Pick<BegunCall, "dialect" | "digest" | "client">): BegunCall;
  /** Called once for each call that began, except for dropped calls. */
  endCall(): void;
  /**
   * Drops the call because the API does not speak the format: the call begins again in another way.
   */
  dropCall(): void;
  /**
   * Resolves once the answer is recorded; an answer must not be sent before that. Rejects with a
   * `GatewayError`.
   */
  answered(begun: BegunCall, placed: PlacedRequest, answer: CallAnswer): Promise<ForwardedTurn>;
  /** Records that a call was not answered, and returns the error for its program. */
  failed(error: unknown, placed: PlacedRequest): GatewayError;
  /** Records that the program has received the whole answer. */
  delivered(turn: ForwardedTurn | null): void;
}

export type ForwardedReply = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | AsyncIterable<string>;
  /** Call it once the program has received the whole answer. */
  readonly delivered?: () => void;
};

export type ForwardParts = {
  readonly model: ApiModel;
  readonly dialect: WireDialect;
  readonly request: ProgramRequest;
  /** Sampling parameters that replace the program's. */
  readonly sampling: ChatSampling;
  /** Seed of a call; `null` for the program's own. */
  readonly seedOf: (call: number) => number | null;
  readonly record: ForwardedRecord;
};

/**
 * Headers of programs that are forwarded to the API: versions and switches. All others are for the
 * gateway.
 */
const passedHeaders = ["anthropic-version", "anthropic-beta", "openai-beta"];

/**
 * Forwards a request. Resolves to `null` if the API does not speak the format. Rejects with a
 * `GatewayError`.
 */
export async function forwardRequest(session: ForwardingSession, parts: ForwardParts): Promise<ForwardedReply | null> {
  const { model, dialect, request } = parts;
  if (request.suffix.startsWith("/")) return countTokens(parts);
  const digest = hash("sha256", request.text);
  const begun = session.beginCall({ dialect: dialect.name, digest, client: clientAgentOf(request.headers) });
  let isStreaming = false;
  try {
    const { sampling, seedOf } = parts;
    const changes = { model: model.model, sampling, seed: seedOf(begun.number), extraBody: model.extraBody };
    const sent = forwardedBody(dialect.name, request.text, changes);
    const placed = parts.record.place(shownRequest(dialect, request.body, parts.record));
    const reply = await model
      .send(wireRequest(parts, sent), {
        signal: session.signal,
        retries: session.retries,
        onRetry: (attempt) => begun.attempts.push(attempt),
      })
      .catch((error: unknown) => {
        throw session.failed(error, placed);
      });
    const call = { ...parts, session, begun, sent, placed };
    switch (reply.type) {
      case "unspoken":
        session.dropCall();
        isStreaming = true;
        return null;
      case "refused": {
        const error = session.failed(reply.failure, placed);
        // The key is not the program's, so errors about it are replaced; errors about the request
        // itself are passed on as the API wrote them.
        if (error.code === "unauthorized" || error.code === "engine-failed") throw error;
        return { ...jsonReply(reply.body), status: reply.status };
      }
      case "whole": {
        if (reply.answer === null) return jsonReply(reply.body);
        const turn = await recordAnswer(call, reply.answer, true);
        return { ...jsonReply(reply.body), delivered: () => session.delivered(turn) };
      }
      case "stream": {
        isStreaming = true;
        const told: Told = { turn: null };
        return {
          status: 200,
          headers: { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" },
          body: passOn(call, reply, told),
          delivered: () => session.delivered(told.turn),
        };
      }
      default:
        return reply satisfies never;
    }
  } finally {
    if (!isStreaming) session.endCall();
  }
}

/**
 * Counts tokens, which is not a model call: nothing is recorded. Resolves to `null` if the API has
 * no path for it.
 */
async function countTokens({ model, ...parts }: ForwardParts): Promise<ForwardedReply | null> {
  const changes = { model: model.model, sampling: {}, seed: null, extraBody: {} };
  const sent = forwardedBody(parts.dialect.name, parts.request.text, changes);
  const reply = await model.send(wireRequest({ model, ...parts }, sent)).catch((error: unknown) => {
    throw new GatewayError("overloaded", messageOf(error), { retryAfterMs: 2000, cause: error });
  });
  if (reply.type === "whole") return jsonReply(reply.body);
  return reply.type === "refused" ? { ...jsonReply(reply.body), status: reply.status } : null;
}

function wireRequest({ dialect, request }: ForwardParts, { text, model, isStreamed }: ForwardedBody): WireRequest {
  const headers = passedHeaders.flatMap((name) => {
    const value = request.headers[name];
    return value === undefined ? [] : [[name, typeof value === "string" ? value : value.join(",")] as const];
  });
  return {
    format: dialect.name,
    model,
    suffix: request.suffix,
    body: text,
    isStreamed,
    headers: Object.fromEntries(headers),
  };
}

type ForwardedCall = ForwardParts & {
  readonly session: ForwardingSession;
  readonly begun: BegunCall;
  readonly sent: ForwardedBody;
  readonly placed: PlacedRequest;
};

type Told = { turn: ForwardedTurn | null };

/** `isWhole`: false if the program or the API ended the answer early. */
function recordAnswer(call: ForwardedCall, answer: WireAnswer, isWhole: boolean): Promise<ForwardedTurn> {
  const { session, begun, placed, model, sent } = call;
  const action = actionOf(answer, begun.number, isWhole);
  const usage = model.usageOf(sent.model, answer.tokens);
  return session.answered(begun, placed, { action, usage, names: { id: answer.id, items: answer.items } });
}

function actionOf(
  { text, reasoning, toolCalls, isTruncated }: WireAnswer,
  turn: number,
  isWhole: boolean,
): ParsedAction {
  return {
    text,
    reasoning,
    content: text,
    problems: [],
    isTerminated: isWhole && !isTruncated,
    toolCalls: toolCalls.map(({ id, name, argumentsText }, at) => ({
      id: id ?? `call_${turn}_${at}`,
      name,
      argumentsText,
    })),
  };
}

async function* passOn(
  call: ForwardedCall,
  reply: Extract<WireReply, { readonly type: "stream" }>,
  told: Told,
): AsyncGenerator<string> {
  const { session, sent, placed, dialect, model, begun, record } = call;
  const stream = new WireStream(dialect.name);
  let [isRecorded, isFailed] = [false, false];
  const write = async (): Promise<void> => {
    const answer = stream.answer();
    if (answer === null) throw new Error("the stream ended before it began");
    isRecorded = true;
    told.turn = await recordAnswer(call, answer, true);
  };
  try {
    for await (const { raw, data } of splitEvents(reply.chunks)) {
      const kind = stream.take(model.redact(data));
      if (kind === "usage" && sent.hidesUsage) continue;
      if (kind === "terminal" && !isRecorded) await write();
      yield model.redact(raw);
    }
    // Some servers omit the last event.
    if (!isRecorded && !stream.isWhole) throw new Error("the stream ended before its end");
    if (!isRecorded) await write();
  } catch (error) {
    isFailed = true;
    const isKnown = error instanceof AttributedError || error instanceof GatewayError;
    const failure = session.failed(isKnown ? error : brokenStream(sent.model, model.redact(messageOf(error))), placed);
    const request = requestOf(
      { model: sent.model, stream: true },
      {
        messages: [],
        maxTokens: null,
        sampling: {},
        samplingNames: [],
        template: { names: [], misshapen: [], kwargs: {} },
        ignoredFields: [],
      },
    );
    const head = { call: begun.number, idPrefix: record.idPrefix, createdAt: Math.floor(Date.now() / 1000) };
    yield dialect.stream(head, request).error(failure);
  } finally {
    reply.cancel();
    // The program disconnected: the part that it received is still billed.
    const answer = isRecorded || isFailed ? null : stream.answer();
    if (answer !== null) await recordAnswer(call, answer, false).catch(() => undefined);
    session.endCall();
  }
}

/** The server reports a failure in its stream, or ends it early. */
function brokenStream(model: string, reason: string): AttributedError {
  return modelFailure("agent", "server-error", {
    message: `Cannot get a reply from agent model "${model}": its stream broke: ${reason.slice(0, 300)}.`,
  });
}

function jsonReply(body: string): ForwardedReply {
  return { status: 200, headers: { "content-type": "application/json" }, body };
}
