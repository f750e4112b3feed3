// One inference server or router as an HTTP partner: its address, its key, its refusals. What engines behind HTTP have in
// common; knows neither their paths nor sampling.

import { ConfigurationError, type AttributedError } from "../core/failure.ts";
import type { BaseUrl } from "./base-url.ts";
import { refusalFailure, type FailureContext, type ServerDialect } from "./engine-failure.ts";
import {
  headerValue,
  type HttpCallOptions,
  type HttpClient,
  type HttpRequest,
  type HttpResponse,
} from "./http-client.ts";
import { createRedactor } from "./redactor.ts";
import { parseRetryAfter, serverMessage } from "./server-message.ts";

export type EngineServerOptions = {
  readonly base: BaseUrl;
  readonly apiKey: string | null;
  readonly http: HttpClient;
  readonly dialect: ServerDialect;
};

/** As much of an error text as is read when the answer is a stream. */
const mostErrorBytes = 65_536;

/** Calls one server. Every method rejects with an `AttributedError` at boundary "engine". */
export class EngineServer {
  readonly #options: EngineServerOptions;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #redact: (text: string) => string;

  constructor(options: EngineServerOptions) {
    const { base, apiKey, dialect } = options;
    if (apiKey !== null && !/^[\x21-\x7e]+$/.test(apiKey)) {
      throw new ConfigurationError(
        `Cannot use the API key of the ${dialect.product} server: it is empty or has characters that no header may have; give it without spaces and line breaks.`,
      );
    }
    this.#options = options;
    this.#headers = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
    this.#redact = createRedactor([apiKey, ...base.secrets]);
  }

  /** Scheme, host, port and path; safe to show. */
  get address(): string {
    return this.#options.base.origin + this.#options.base.path;
  }

  /** Another server that takes the same key: a worker behind this router. */
  at(base: BaseUrl): EngineServer {
    const { authorization, secrets } = this.#options.base;
    return new EngineServer({ ...this.#options, base: { ...base, authorization, secrets } });
  }

  /** How failures of a call are worded. `verb` as in `sample from`. */
  context(verb: string, path: string): FailureContext {
    return {
      what: `${verb} ${this.#options.dialect.product} at ${this.address}${path}`,
      redact: this.#redact,
      hasApiKey: this.#options.apiKey !== null,
      dialect: this.#options.dialect,
    };
  }

  /** A POST when there is a body. */
  request(path: string, body: Uint8Array | string | null, headers: Readonly<Record<string, string>> = {}): HttpRequest {
    const content = body === null ? {} : { "content-type": "application/json" };
    return {
      base: this.#options.base,
      method: body === null ? "GET" : "POST",
      path,
      headers: { ...this.#headers, ...content, ...headers },
      body,
    };
  }

  /** Resolves with any status. */
  send(request: HttpRequest, options: HttpCallOptions): Promise<HttpResponse> {
    return this.#options.http.request(request, options);
  }

  /** The chunks of an answer. Rejects when the status is not 200. */
  async openStream(
    request: HttpRequest,
    options: HttpCallOptions,
    context: FailureContext,
  ): Promise<AsyncIterable<Uint8Array>> {
    const answer = await this.#options.http.stream(request, options);
    if (answer.status === 200) return answer.chunks;
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of answer.chunks) {
      parts.push(chunk);
      size += chunk.length;
      if (size > mostErrorBytes) break;
    }
    throw this.refusal({ ...answer, body: Buffer.concat(parts) }, context);
  }

  /** What an answer with another status than was hoped for means. */
  refusal(answer: HttpResponse, context: FailureContext): AttributedError {
    const retryAfter = headerValue(answer.headers, "retry-after");
    return refusalFailure(context, {
      status: answer.status,
      message: serverMessage(answer.body.toString()),
      retryAfterMs: parseRetryAfter(retryAfter, headerValue(answer.headers, "date")),
    });
  }
}
