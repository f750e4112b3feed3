// A model behind an API, for programs that call the API directly: their requests are forwarded
// unchanged if the API supports their wire format, and as a chat completion otherwise. Limits,
// retries, keys and prices are those of every model behind an API; the gateway decides how to use
// the answers.

import {
  type Attempt,
  attribute,
  type AttributedError,
  type ChatAgent,
  type ChatAnswer,
  type ChatRequest,
  ConfigurationError,
  type ModelUsage,
} from "../core/index.ts";
import {
  type BaseUrl,
  createRedactor,
  headerValue,
  type HttpCallOptions,
  type HttpClient,
  type HttpHeaders,
  type HttpRequest,
  type HttpStream,
  parseBaseUrl,
  showTarget,
} from "../http/index.ts";
import { findApiKey, findHostKey } from "./api-key.ts";
import { answerOf } from "./chat-agent.ts";
import { type ChatModelOptions, type ChatSampling, priceOf, usageOfCall } from "./chat-model.ts";
import { createChatModel } from "./create-chat-model.ts";
import { type CallLimits, createCallBounds, createModelCaller, type ModelCaller, modelPool } from "./model-caller.ts";
import { askingOf, modelFailure, statusFailure } from "./model-failure.ts";
import { chatBase } from "./openai-chat.ts";
import { providerNamed } from "./provider-library.ts";
import { readWireText, type WireAnswer, type WireFormat } from "./wire-answer.ts";

/** A request as written by its program, except for fields set by the gateway. */
export type WireRequest = {
  readonly format: WireFormat;
  /** The model named in the body; for prices and messages. */
  readonly model: string;
  /** The part of the path after the format's own path, such as "/count_tokens" or "?beta=true". */
  readonly suffix: string;
  /** The body as JSON text. */
  readonly body: string;
  /** Headers other than those of the connection, without credentials. Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly isStreamed: boolean;
};

/** The outcome of a request that the API has answered. */
export type WireReply =
  | { readonly type: "whole"; readonly body: string; readonly answer: WireAnswer | null }
  /** A stream, readable once; leaving the loop early, or `cancel`, closes the connection. */
  | { readonly type: "stream"; readonly chunks: AsyncIterable<Uint8Array>; cancel(): void }
  /** The API rejects this request, and would reject it again. */
  | { readonly type: "refused"; readonly status: number; readonly body: string; readonly failure: AttributedError }
  /** The API does not support the format; `speaks` returns false from now on. */
  | { readonly type: "unspoken" };

type CallOptions = {
  readonly signal?: AbortSignal;
  /** Called for each failed call that is repeated. */
  readonly onRetry?: (attempt: Attempt) => void;
  /** False: only one attempt. @default true */
  readonly retries?: boolean;
};

/**
 * A model behind an API, for complete requests.
 *
 * Guarantees: rejects only with an `AttributedError` at boundary "engine", after its retries; no
 * returned text contains the key. A stream is never retried once its first byte has arrived. Safe
 * to call concurrently.
 */
export interface ApiModel {
  /** Display name. */
  readonly name: string;
  /** The model name in the API; `null` if programs choose it. */
  readonly model: string | null;
  /** Fields merged into each body. */
  readonly extraBody: Readonly<Record<string, unknown>>;
  /** True if requests of this format are forwarded unchanged, as far as is known. */
  supports(format: WireFormat): boolean;
  send(request: WireRequest, options?: CallOptions): Promise<WireReply>;
  /** Completes a chat for a program whose format the API does not support. */
  reply(
    request: ChatRequest & { readonly model: string; readonly sampling: ChatSampling },
    options?: CallOptions,
  ): Promise<ChatAnswer>;
  /** The usage of one call, with its cost. */
  usageOf(model: string, tokens: WireAnswer["tokens"]): ModelUsage;
  /** Removes the key from a text. */
  redact(text: string): string;
}

export type ApiModelOptions = Omit<ChatModelOptions, "sampling"> & Omit<CallLimits, "maxReasks">;

const paths: Readonly<Record<WireFormat, string>> = {
  chat: "/chat/completions",
  messages: "/messages",
  responses: "/responses",
  completions: "/completions",
};

/** Providers that need no package: their addresses and supported formats. */
const providers: Readonly<Record<string, { readonly url: string; readonly formats: readonly WireFormat[] }>> = {
  openai: { url: "https://api.openai.com/v1", formats: ["chat", "responses", "completions"] },
  anthropic: { url: "https://api.anthropic.com/v1", formats: ["messages"] },
};

const role = { part: "agent", title: "the agent" } as const;
const maxReplyBytes = 64 * 1024 * 1024;
const longestExcerpt = 300;
/** The version of Anthropic's API for programs that do not name one. */
const messagesVersion = "2023-06-01";

/**
 * Creates the model for `--agent-model` and `--agent-url`. With a `url`, every format is tried, and
 * programs may choose the `model`; without one, `model` is `provider/model`. Throws a
 * `ConfigurationError` for invalid settings, before any call.
 *
 * @example
 * apiModel({ url: "http://127.0.0.1:8000/v1", model: "my-model" });
 */
export function apiModel(options: ApiModelOptions): ApiModel {
  const place = placeOf(options);
  const { base, apiKey, model, formats } = place;
  const http = options.http ?? modelPool(role.part, options.maxConcurrency);
  const bounds = createCallBounds(role.part, options);
  const { headers: own = {} } = options;
  const redact = createRedactor([apiKey, ...(base?.secrets ?? []), base?.authorization ?? null, ...Object.values(own)]);
  const spoken = new Set(formats);
  const callers = new Map<string, ModelCaller>();
  const callerOf = (name: string): ModelCaller => {
    const known = callers.get(name);
    if (known !== undefined) return known;
    const { timeoutMs: _, retry: __, ...rest } = options;
    const key = apiKey === null ? {} : { apiKey };
    // A provider that supports chat completions needs no library.
    const url = options.url ?? (formats.includes("chat") ? base?.origin + (base?.path ?? "") : undefined);
    const named = { ...rest, ...key, http, model: url === undefined ? (options.model ?? "") : name };
    const caller = createModelCaller(
      createChatModel(role, url === undefined ? named : { ...named, url }),
      role.part,
      {},
      bounds,
    );
    callers.set(name, caller);
    return caller;
  };
  // A missing library is reported now, not at the first call.
  if (formats.length === 0) callerOf(model ?? "");

  const once = async (request: WireRequest, signal: AbortSignal | undefined): Promise<WireReply> => {
    const { format, suffix, body, isStreamed } = request;
    if (base === null) return { type: "unspoken" };
    const sent: HttpRequest = {
      base,
      method: "POST",
      path: paths[format] + suffix,
      body,
      headers: headersOf(request, { apiKey, base, own }),
    };
    const where = `"${request.model}" at ${showTarget(sent)}`;
    const { status, headers, text, stream } = await exchange(http, sent, {
      isStreamed,
      signal,
      timeoutMs: bounds.timeoutMs,
    });
    const excerpt = redact(text).slice(0, longestExcerpt);
    const header = (name: string): string | null => headerValue(headers, name);
    const refused = (code: number): AttributedError =>
      statusFailure({ part: role.part, status: code, header, body: excerpt, where });
    if (stream !== null) return { type: "stream", chunks: stream.chunks, cancel: () => stream.cancel() };
    if (isUnspoken(format, status, text)) {
      spoken.delete(format);
      return { type: "unspoken" };
    }
    if (status !== 200) {
      const failure = refused(status);
      if (failure.failure.retryable) throw failure;
      return { type: "refused", status, body: redact(text), failure };
    }
    const unreadable = (problem: string): AttributedError =>
      modelFailure(role.part, "bad-reply", {
        message: `Cannot ${askingOf(role.part, where)}: its answer ${problem}, expected one of ${paths[format]}.`,
        cause: excerpt,
      });
    // The answer to a token count request is not a model answer.
    const isAnswer = !suffix.startsWith("/");
    return {
      type: "whole",
      body: redact(text),
      answer: isAnswer ? readWireText(format, redact(text), { refused, unreadable }) : null,
    };
  };

  return {
    name: model ?? `the models at ${base?.origin ?? ""}`,
    model,
    extraBody: options.extraBody ?? {},
    supports: (format) => spoken.has(format),
    usageOf: (name, tokens) => usageOfCall(tokens, priceOf(options.model ?? name, options.prices)),
    redact,
    send: async (request, { signal, onRetry, retries } = {}) => {
      const what = askingOf(role.part, `"${request.model}"`);
      let release: () => void = () => undefined;
      const reply = await bounds.run(() => once(request, signal), {
        signal,
        onRetry,
        retries,
        what,
        holds: ({ type }) => (type === "stream" ? new Promise<void>((done) => (release = done)) : null),
      });
      if (reply.type !== "stream") return reply;
      return {
        type: "stream",
        chunks: held(reply.chunks, release),
        cancel: () => {
          reply.cancel();
          release();
        },
      };
    },
    reply: async (
      { messages, tools, turn, seed, model: named, sampling },
      { signal, onRetry, retries = true } = {},
    ) => {
      try {
        const caller = callerOf(model ?? named);
        return await answerOf(
          caller,
          { messages, tools, turn, seed },
          { signal, sampling, retries, ...(onRetry === undefined ? {} : { onRetry }) },
        );
      } catch (error) {
        if (!(error instanceof ConfigurationError)) throw attribute(error, "engine");
        throw modelFailure(role.part, "bad-request", { message: error.message });
      }
    },
  };
}

type Exchanged = {
  readonly status: number;
  readonly headers: HttpHeaders;
  /** The whole text; empty if there is a stream. */
  readonly text: string;
  /** `null` if the answer is whole, even if a stream was requested. */
  readonly stream: Pick<HttpStream, "chunks" | "cancel"> | null;
};

async function exchange(
  http: HttpClient,
  request: HttpRequest,
  { isStreamed, ...options }: HttpCallOptions & { readonly isStreamed: boolean },
): Promise<Exchanged> {
  const bounded = { ...options, maxBytes: maxReplyBytes };
  if (!isStreamed) {
    const { status, headers, body } = await http.request(request, bounded);
    return { status, headers, text: body.toString("utf8"), stream: null };
  }
  const stream = await http.stream(request, bounded);
  const { status, headers } = stream;
  const isEvents = /^text\/event-stream/i.test(headerValue(headers, "content-type") ?? "");
  if (status === 200 && isEvents) return { status, headers, text: "", stream };
  const parts: Uint8Array[] = [];
  for await (const chunk of stream.chunks) parts.push(chunk);
  return { status, headers, text: Buffer.concat(parts).toString("utf8"), stream: null };
}

/** Wraps a caller's own chat agent as such a model: every request becomes a chat completion. */
export function apiModelOf(agent: ChatAgent): ApiModel {
  return {
    name: agent.name,
    model: agent.name,
    extraBody: {},
    supports: () => false,
    send: async () => ({ type: "unspoken" }),
    reply: (request, { signal } = {}) => agent.reply(request, signal === undefined ? {} : { signal }),
    usageOf: (_model, tokens) => usageOfCall(tokens, null),
    redact: (text) => text,
  };
}

async function* held(chunks: AsyncIterable<Uint8Array>, release: () => void): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } finally {
    release();
  }
}

type Place = {
  /** `null` if the model is called through a library. */
  readonly base: BaseUrl | null;
  readonly apiKey: string | null;
  readonly model: string | null;
  readonly formats: readonly WireFormat[];
};

function placeOf(options: ApiModelOptions): Place {
  const { url, model = null } = options;
  if (url !== undefined) {
    const base = chatBase(url, role.part);
    const formats = ["chat", "messages", "responses", "completions"] as const;
    return { base, apiKey: findHostKey(role.part, base, options), model, formats };
  }
  const slash = model?.indexOf("/") ?? -1;
  const name = model?.slice(0, Math.max(0, slash)) ?? "";
  const provider = Object.hasOwn(providers, name) ? providers[name]! : null;
  if (provider === null) return { base: null, apiKey: null, model, formats: [] };
  const variables = providerNamed(name).keyVariables;
  const apiKey = findApiKey(role.part, options, variables);
  if (apiKey === null) {
    throw new ConfigurationError(
      `Cannot create ${role.title} with model "${model}": there is no key; set ${variables[0]}, or name another variable with apiKeyVariable.`,
    );
  }
  const base = parseBaseUrl(provider.url, { what: `${role.part} model` });
  return { base, apiKey, model: model!.slice(slash + 1), formats: provider.formats };
}

function headersOf(
  { format, headers }: WireRequest,
  {
    apiKey,
    base,
    own,
  }: { readonly apiKey: string | null; readonly base: BaseUrl; readonly own: Record<string, string> },
): Record<string, string> {
  const isMessages = format === "messages";
  // For Anthropic a bearer token is another kind of credential; other servers of its format accept
  // only bearer tokens.
  const isBearer = !isMessages || !new URL(base.origin).hostname.endsWith("anthropic.com");
  return {
    "content-type": "application/json",
    ...(isMessages ? { "anthropic-version": messagesVersion } : {}),
    ...headers,
    ...(apiKey !== null && isMessages ? { "x-api-key": apiKey } : {}),
    ...(apiKey !== null && isBearer ? { authorization: `Bearer ${apiKey}` } : {}),
    ...own,
  };
}

/**
 * True if the server does not have this path. A 404 about a model, or about chat completions, is an
 * ordinary error.
 */
function isUnspoken(format: WireFormat, status: number, body: string): boolean {
  if (format === "chat" || format === "completions") return false;
  return status === 405 || status === 501 || (status === 404 && !/model/i.test(body));
}
