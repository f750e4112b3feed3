// Assigns failure codes to network faults, in one place, based on the error code of the system or
// of the HTTP library. Messages show the target of a call and nothing of its content.

import { AttributedError, type Boundary } from "../core/failure.ts";
import { hideSecrets } from "../lib/hidden-parts.ts";
import type { HttpFailureCode, HttpRequest } from "./http-client.ts";

type Ruling = { readonly code: HttpFailureCode; readonly retryable: boolean; readonly state: string };

// Error codes which mean that the server received no byte of the request.
const unreachable = new Map([
  ["ECONNREFUSED", "the connection was refused"],
  ["ENOTFOUND", "the host name is unknown"],
  ["EAI_AGAIN", "the host name could not be looked up"],
  ["EHOSTUNREACH", "there is no route to the host"],
  ["ENETUNREACH", "there is no route to the network"],
  ["EHOSTDOWN", "the host is down"],
  ["EADDRNOTAVAIL", "there is no free local address"],
  ["EMFILE", "this process has too many open files"],
  ["UND_ERR_CONNECT_TIMEOUT", "no connection was made in time"],
]);
const lost = new Set([
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "ERR_STREAM_PREMATURE_CLOSE",
  "UND_ERR_SOCKET",
  "UND_ERR_RES_CONTENT_LENGTH_MISMATCH",
  // An error of undici's parser for a connection that ended inside a chunked body.
  "HPE_INVALID_EOF_STATE",
]);
const timeouts = new Set(["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"]);
const ended = new Set(["UND_ERR_DESTROYED", "UND_ERR_CLOSED", "UND_ERR_ABORTED", "ABORT_ERR"]);

/** Attributes any error that a call threw. An attributed error passes unchanged. */
export function httpFailure(error: unknown, request: HttpRequest, boundary: Boundary): AttributedError {
  if (error instanceof AttributedError) return error;
  return build(rule(error), request, { boundary, cause: error });
}

/** The failure of a call that this package ended itself. */
export function endedCall(
  request: HttpRequest,
  boundary: Boundary,
  { code, state }: { readonly code: Exclude<HttpFailureCode, "unreachable">; readonly state: string },
): AttributedError {
  return build({ code, retryable: code === "timeout" || code === "connection-lost", state }, request, { boundary });
}

/** The target of a request as shown in messages. */
export function showTarget(request: HttpRequest): string {
  const path = hideSecrets(request.path).replace(/["\p{Cc}]/gu, "");
  return `${request.base.origin}${request.base.path}${path.slice(0, 200)}`;
}

function rule(error: unknown): Ruling {
  const code = codeOf(error);
  const reason = unreachable.get(code);
  if (reason !== undefined) return { code: "unreachable", retryable: true, state: `${reason} (${code})` };
  if (lost.has(code)) return { code: "connection-lost", retryable: true, state: `the connection was lost (${code})` };
  if (timeouts.has(code)) return { code: "timeout", retryable: true, state: `the answer took too long (${code})` };
  if (ended.has(code)) return { code: "cancelled", retryable: false, state: "the HTTP pool was closed" };
  if (/CERT|TLS|SSL|EPROTO|SELF_SIGNED|UNABLE_TO/.test(code)) {
    return { code: "unreachable", retryable: false, state: `no secure connection was made (${code})` };
  }
  const name = error instanceof Error ? error.name : typeof error;
  if (/^(HPE_|UND_ERR_)/.test(code) || name === "HTTPParserError") {
    return { code: "bad-reply", retryable: true, state: `the answer is not readable HTTP (${code || name})` };
  }
  return { code: "connection-lost", retryable: true, state: `the call failed (${code || name})` };
}

function build(
  ruling: Ruling,
  request: HttpRequest,
  options: { readonly boundary: Boundary; readonly cause?: unknown },
): AttributedError {
  const place = showTarget(request);
  const message =
    ruling.code === "unreachable"
      ? `Cannot reach ${place}: ${ruling.state}; start the server or correct its address.`
      : `Cannot finish ${request.method} ${place}: ${ruling.state}.`;
  const cause = options.cause instanceof Error ? causeText(options.cause) : null;
  return new AttributedError(
    { boundary: options.boundary, code: ruling.code, message, retryable: ruling.retryable, cause },
    { cause: options.cause },
  );
}

function causeText(error: Error): string {
  return error.message === "" ? `${error.name} ${codeOf(error)}`.trim() : error.message;
}

function codeOf(error: unknown): string {
  if (typeof error !== "object" || error === null || !("code" in error)) return "";
  return typeof error.code === "string" ? error.code : "";
}
