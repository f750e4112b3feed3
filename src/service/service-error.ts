// An error response: a status, a stable code for clients, and a sentence with the remedy.

const statuses = {
  "bad-request": 400,
  unauthorized: 401,
  forbidden: 403,
  "not-found": 404,
  "method-not-allowed": 405,
  "not-ended": 409,
  "key-reused": 409,
  "batch-out-of-order": 409,
  "of-a-producer": 409,
  "too-large": 413,
  "unsupported-media-type": 415,
  "too-many": 429,
  closing: 503,
  /** The disk refuses writes, for lack of space or another reason. */
  "store-unavailable": 503,
  "producer-failed": 500,
  /** A server of the policy refused, or did not answer. */
  "engine-failed": 502,
  internal: 500,
} as const;

export type ServiceErrorCode = keyof typeof statuses;

export class ServiceError extends Error {
  readonly code: ServiceErrorCode;
  /** Delay before a retry, in seconds; `null` if a retry cannot help. */
  readonly retryAfter: number | null;

  constructor(code: ServiceErrorCode, message: string, options: { readonly retryAfter?: number } = {}) {
    super(message);
    this.name = "ServiceError";
    this.code = code;
    this.retryAfter = options.retryAfter ?? null;
  }

  /** Error body. `redact` removes secrets from the message. */
  toAnswer(redact: (text: string) => string = (text) => text): {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  } {
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (this.retryAfter !== null) headers["retry-after"] = String(this.retryAfter);
    if (this.code === "unauthorized") headers["www-authenticate"] = "Bearer";
    const body = JSON.stringify({ error: { code: this.code, message: redact(this.message) } });
    return { status: statuses[this.code], headers, body };
  }

  toResponse(redact?: (text: string) => string): Response {
    const { body, ...rest } = this.toAnswer(redact);
    return new Response(body, rest);
  }
}

/**
 * Error for clients while the store cannot keep the result of their request. `reason`: a whole
 * sentence.
 */
export function storeUnavailable(reason: string): ServiceError {
  return new ServiceError("store-unavailable", `Cannot serve the request now: ${reason}`, { retryAfter: 5 });
}

/** Throws the `ServiceError` of a closing service. */
export function throwClosing(): never {
  throw new ServiceError(
    "closing",
    "Cannot accept the request: the service is shutting down; try again once it is back.",
    {
      retryAfter: 5,
    },
  );
}
