// Parses the body of a request as JSON, in steps: a long body must not block other requests.

import type { Steps } from "../lib/steps.ts";
import { readJson } from "./read-json.ts";
import { GatewayError, type RequestHeaders } from "./request.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Maximum nesting of a body; real conversations never nest deeper. */
const deepest = 64;

/**
 * Parses the JSON of a body. Throws a `GatewayError` for another content type, for invalid JSON,
 * and for too much nesting.
 */
export function* parseJson(body: Buffer, contentType: RequestHeaders[string]): Steps<unknown> {
  const type = typeof contentType === "string" ? contentType.split(";", 1)[0]!.trim().toLowerCase() : "";
  if (type !== "application/json") {
    throw new GatewayError(
      "invalid-request",
      `Cannot read the request: its content-type is ${JSON.stringify(type.slice(0, 60))}; send application/json.`,
    );
  }
  let value: unknown;
  try {
    value = yield* readJson(utf8.decode(body));
  } catch {
    throw new GatewayError("invalid-request", "Cannot read the request: its body is not JSON.");
  }
  if (depthOf(value) > deepest)
    throw new GatewayError(
      "invalid-request",
      `Cannot read the request: its body is nested deeper than ${deepest} levels.`,
    );
  return value;
}

function depthOf(value: unknown, level = 0): number {
  if (typeof value !== "object" || value === null || level > deepest) return level;
  let most = level + 1;
  for (const one of Array.isArray(value) ? (value as unknown[]) : Object.values(value)) {
    if (typeof one === "object") most = Math.max(most, depthOf(one, level + 1));
  }
  return most;
}
