// Requests to a server of environments: one JSON answer, with faults in the contract's terms. This
// file defines the meaning of HTTP statuses in one place: session expired, no capacity, or server
// at fault.

import { AttributedError } from "../../core/failure.ts";
import { type BaseUrl, createHttpPool, type HttpClient, showTarget } from "../../http/index.ts";
import { dumpJson } from "../../python-semantics/json/dump-json.ts";
import type { JsonValue } from "../../python-semantics/json/value.ts";
import { parseMessage } from "./read-message.ts";
import { type RemoteFaultCode, remoteFault } from "./remote-service.ts";

export type RemoteRequest = {
  readonly method: "GET" | "POST";
  /** Path, beginning with a slash. */
  readonly path: string;
  /** Sent as JSON. Default: none. */
  readonly body?: JsonValue;
  readonly headers?: Readonly<Record<string, string>>;
};

export type RemoteRequestOptions = { readonly signal?: AbortSignal | undefined; readonly timeoutMs?: number };

/** Size limit of an answer; a policy is shown far less. */
const maxBytes = 64 * 1024 * 1024;

export class RemoteHttp {
  readonly base: BaseUrl;
  readonly #pool: HttpClient;

  /** `pool`: HTTP client. Default: a new one, at boundary "environment". */
  constructor(base: BaseUrl, pool: HttpClient = createHttpPool({ boundary: "environment" })) {
    this.base = base;
    this.#pool = pool;
  }

  /** The answer. Rejects with a {@link remoteFault} for every status but 2xx. */
  async json(request: RemoteRequest, options: RemoteRequestOptions = {}): Promise<JsonValue> {
    const { status, text } = await this.#send(request, options);
    if (status < 200 || status > 299) throw this.refusal(request, status, text);
    return parseMessage(text, `the answer to ${this.#place(request)}`);
  }

  /**
   * Same as {@link RemoteHttp.json}, but `undefined` if the server does not support such requests
   * (404, 405, 501).
   */
  async jsonIfServed(request: RemoteRequest, options: RemoteRequestOptions = {}): Promise<JsonValue | undefined> {
    const { status, text } = await this.#send(request, options);
    if (status === 404 || status === 405 || status === 501) return undefined;
    if (status < 200 || status > 299) throw this.refusal(request, status, text);
    return parseMessage(text, `the answer to ${this.#place(request)}`);
  }

  async #send(
    request: RemoteRequest,
    { signal, timeoutMs = 60_000 }: RemoteRequestOptions,
  ): Promise<{ readonly status: number; readonly text: string }> {
    const { status, body } = await this.#pool
      .request(this.#httpRequest(request), { signal, timeoutMs, maxBytes })
      .catch((error: unknown) => {
        throw faultOfHttp(error);
      });
    return { status, text: body.toString("utf8") };
  }

  /**
   * The chunks of an answer's body. Rejects like {@link RemoteHttp.json}, before the first chunk or
   * while they are read.
   */
  async *chunks(request: RemoteRequest, { signal, timeoutMs }: RemoteRequestOptions = {}): AsyncGenerator<Uint8Array> {
    try {
      const { status, chunks } = await this.#pool.stream(this.#httpRequest(request), { signal, timeoutMs, maxBytes });
      if (status >= 200 && status <= 299) {
        yield* chunks;
        return;
      }
      const pieces: Uint8Array[] = [];
      for await (const piece of chunks) pieces.push(piece);
      throw this.refusal(request, status, Buffer.concat(pieces).toString("utf8"));
    } catch (error) {
      throw faultOfHttp(error);
    }
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  /** The fault for an unsuccessful status. */
  refusal(request: RemoteRequest, status: number, body: string): AttributedError {
    const said = detailOf(body);
    const message = `Cannot finish ${this.#place(request)}: HTTP ${status}${said === "" ? "" : `, "${said}"`}.`;
    return remoteFault(codeOfStatus(status), message);
  }

  #httpRequest({ method, path, body, headers = {} }: RemoteRequest) {
    const isSent = body !== undefined;
    return {
      base: this.base,
      method,
      path,
      headers: isSent ? { "content-type": "application/json", ...headers } : headers,
      body: isSent ? dumpJson(body) : null,
    };
  }

  #place(request: RemoteRequest): string {
    return `${request.method} ${showTarget(this.#httpRequest(request))}`;
  }
}

function codeOfStatus(status: number): RemoteFaultCode {
  if (status === 404 || status === 410) return "remote-expired";
  if (status === 429 || status === 503) return "remote-capacity";
  if (status === 502 || status === 504) return "remote-unreachable";
  return "remote-error";
}

const codes: Readonly<Record<string, RemoteFaultCode>> = {
  unreachable: "remote-unreachable",
  "connection-lost": "remote-lost",
  timeout: "remote-timeout",
  "bad-reply": "remote-invalid",
};

/**
 * Converts a fault of the HTTP client to one of a remote environment; a cancellation, or any other
 * error, passes unchanged.
 */
export function faultOfHttp(error: unknown): unknown {
  if (!(error instanceof AttributedError)) return error;
  const code = Object.hasOwn(codes, error.failure.code) ? codes[error.failure.code] : undefined;
  return code === undefined ? error : remoteFault(code, error.failure.message, { cause: error });
}

/** The message of a FastAPI server, `{"detail": ...}`; for any other body its beginning. */
function detailOf(body: string): string {
  let said = body;
  try {
    const parsed: unknown = JSON.parse(body);
    if (typeof parsed === "object" && parsed !== null && "detail" in parsed) {
      said = typeof parsed.detail === "string" ? parsed.detail : JSON.stringify(parsed.detail);
    }
  } catch {
    // The body is not JSON and is shown unchanged.
  }
  return said
    .replaceAll(/[\p{Cc}"]+/gu, " ")
    .trim()
    .slice(0, 300);
}
