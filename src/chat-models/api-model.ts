// A model behind an API as programs reach it that speak to it by themselves: their requests go on as they wrote them where the API
// speaks their wire format, and as a chat completion where it does not. Bounds, retries, keys and prices are those of every model
// behind an API; what is done with the answers is up to the gateway.

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

/** A request as its program wrote it, but for what the gateway has set in it. */
export type WireRequest = {
  readonly format: WireFormat;
  /** The model that the body names; for prices and messages. */
  readonly model: string;
  /** The part of the path after that of the format, such as "/count_tokens" or "?beta=true". */
  readonly suffix: string;
  /** JSON. */
  readonly body: string;
  /** Headers beside those of the connection, without credentials. Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly isStreamed: boolean;
};

/** The outcome of a request that the API has answered. */
export type WireReply =
  | { readonly type: "whole"; readonly body: string; readonly answer: WireAnswer | null }
  /** Read once; leaving the loop early, or `cancel`, closes the connection. */
  | { readonly type: "stream"; readonly chunks: AsyncIterable<Uint8Array>; cancel(): void }
  /** The API does not take this request, and would not take it again. */
  | { readonly type: "refused"; readonly status: number; readonly body: string; readonly failure: AttributedError }
  /** The API does not speak the format: `speaks` says so from now on. */
  | { readonly type: "unspoken" };

type CallOptions = {
  readonly signal?: AbortSignal;
  /** Called for each failed call that is repeated. */
  readonly onRetry?: (attempt: Attempt) => void;
  /** False: one attempt and no more. @default true */
  readonly retries?: boolean;
};

/**
 * A model behind an API, whole.
 *
 * Guarantees: rejects only with an `AttributedError` at boundary "engine", after its retries; no text that it returns holds the key. A
 * stream is never retried once its first byte has arrived. Safe to call concurrently.
 */
export interface ApiModel {
  /** A name for people. */
  readonly name: string;
  /** The name by which the API knows it; `null`: programs choose it. */
  readonly model: string | null;
  /** Merged into each body. */
  readonly extraBody: Readonly<Record<string, unknown>>;
  /** True where requests of this format go on as they are, as far as is known. */
  speaks(format: WireFormat): boolean;
  send(request: WireRequest, options?: CallOptions): Promise<WireReply>;
  /** Completes a chat for a program whose format the API does not speak. */
  reply(
    request: ChatRequest & { readonly model: string; readonly sampling: ChatSampling },
    options?: CallOptions,
  ): Promise<ChatAnswer>;
  /** The usage of one call, with its cost. */
  usageOf(model: string, tokens: WireAnswer["tokens"]): ModelUsage;
  /** Takes the key out of a text. */
  redact(text: string): string;
}

export type ApiModelOptions = Omit<ChatModelOptions, "sampling"> & Omit<CallLimits, "maxReasks">;

const paths: Readonly<Record<WireFormat, string>> = {
  chat: "/chat/completions",
  messages: "/messages",
  responses: "/responses",
  completions: "/completions",
};

/** Providers whose packages are not needed: their addresses and the formats that they speak. */
const providers: Readonly<Record<string, { readonly url: string; readonly formats: readonly WireFormat[] }>> = {
  openai: { url: "https://api.openai.com/v1", formats: ["chat", "responses", "completions"] },
  anthropic: { url: "https://api.anthropic.com/v1", formats: ["messages"] },
};

const role = { part: "agent", title: "the agent" } as const;
const maxReplyBytes = 64 * 1024 * 1024;
const longestExcerpt = 300;
/** The version of Anthropic's API for programs that name none. */
const messagesVersion = "2023-06-01";

/**
 * The model of `--agent-model` and `--agent-url`. With a `url` every format is tried, and `model` may be left to programs; without,
 * `model` is `provider/model`. Throws a `ConfigurationError` for settings that cannot work, before any call.
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
    // A provider that speaks chat completions needs no library.
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
  // A provider that needs its library is refused now, and not at the first call.
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
    // A count of tokens is not an answer of the model.
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
    speaks: (format) => spoken.has(format),
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
  /** Empty where there is a stream. */
  readonly text: string;
  /** `null`: the answer is whole, whatever was requested. */
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

/** A chat agent of one's own as such a model: every request is a chat completion. */
export function apiModelOf(agent: ChatAgent): ApiModel {
  return {
    name: agent.name,
    model: agent.name,
    extraBody: {},
    speaks: () => false,
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
  /** `null`: it is reached by a library. */
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
      `Cannot make ${role.title} with model "${model}": there is no key; set ${variables[0]}, or name another variable with apiKeyVariable.`,
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
  // Anthropic takes a bearer token for another kind of credential; other servers of its format know no other.
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

/** True where the server has no such path. A 404 about a model, or about chat completions, is an error like any other. */
function isUnspoken(format: WireFormat, status: number, body: string): boolean {
  if (format === "chat" || format === "completions") return false;
  return status === 405 || status === 501 || (status === 404 && !/model/i.test(body));
}
