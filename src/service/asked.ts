// What came over the wire, and what says that it came before: the same key is the same request in every process, so one that
// comes again after a restart finds its own.

import { createHash } from "node:crypto";
import { ServiceRefusal } from "./service-refusal.ts";

export type Asked = {
  /** `null`: the client gave none. */
  readonly key: string | null;
  readonly body: unknown;
};

/** A part of an id. */
export function digestOf(key: string): string {
  return createHash("sha256").update(key).digest("hex").slice(0, 32);
}

export function hashOf(body: unknown): string {
  return createHash("sha256").update(JSON.stringify(body)).digest("hex");
}

/** Throws a `ServiceRefusal` for a key that came before with another body. */
export function checkSameBody(known: { readonly bodyHash: string }, bodyHash: string): void {
  if (known.bodyHash === bodyHash) return;
  throw new ServiceRefusal(
    "key-reused",
    "Cannot take the request: its idempotency key came before with another body; use a new key for a new request.",
  );
}

/** Throws a `ServiceRefusal`. */
export function refuseClosing(): never {
  throw new ServiceRefusal("closing", "Cannot take the request: the service is closing; ask again when it is back.", {
    retryAfter: 5,
  });
}
