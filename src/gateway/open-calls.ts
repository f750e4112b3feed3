// Decides which requests get an existing answer, sampled or in flight, and which get a new one. A
// client that lost its connection repeats its request, and the policy must not sample twice; an
// agent that sends the same request several times at once expects as many samples. The difference
// is whether the first client is still connected.
//
//   equal request ─┬─ equal Idempotency-Key ────► the same answer, even after it was delivered
//                  ├─ its client has gone ──────► that call's answer, sampled once
//                  └─ all clients are connected ► a turn of its own

import { hash } from "node:crypto";
import type { SampledTurn } from "./history.ts";

export type OpenCall<Call> = {
  readonly digest: string;
  readonly call: Call;
  /** The sampled turn; `null` if it is not recorded yet. */
  turn: SampledTurn | null;
  /** Number of connected clients that have not received the whole answer. */
  readers: number;
};

const keyedPrefix = "key-";

/**
 * Digest of a request, equal if a client repeats the request. `idempotencyKey`: value of the
 * header; `null` if there is none.
 */
export function digestOf(request: {
  readonly url: string;
  readonly body: Uint8Array;
  readonly idempotencyKey: string | null;
}): string {
  const { url, body, idempotencyKey } = request;
  const head = JSON.stringify([url, idempotencyKey]);
  const digest = hash("sha256", Buffer.concat([Buffer.from(`${head}\n`), body]));
  return idempotencyKey === null ? digest : keyedPrefix + digest;
}

export class OpenCalls<Call> {
  readonly #byDigest = new Map<string, OpenCall<Call>[]>();

  /** The call whose answer an equal request gets; `null` if the request gets a new one. */
  find(digest: string): OpenCall<Call> | null {
    const calls = this.#byDigest.get(digest) ?? [];
    return (
      (digest.startsWith(keyedPrefix) ? calls[0] : calls.find((one) => one.readers === 0 && !wasRead(one))) ?? null
    );
  }

  add(digest: string, call: Call): OpenCall<Call> {
    const open: OpenCall<Call> = { digest, call, turn: null, readers: 0 };
    const calls = this.#byDigest.get(digest);
    if (calls === undefined) this.#byDigest.set(digest, [open]);
    else calls.push(open);
    return open;
  }

  /**
   * Records that a client has received the whole answer: from then on only an equal key returns it.
   */
  delivered(open: OpenCall<Call>): void {
    if (!open.digest.startsWith(keyedPrefix)) this.remove(open);
  }

  remove(open: OpenCall<Call>): void {
    const others = (this.#byDigest.get(open.digest) ?? []).filter((one) => one !== open);
    if (others.length === 0) this.#byDigest.delete(open.digest);
    else this.#byDigest.set(open.digest, others);
  }

  clear(): void {
    this.#byDigest.clear();
  }
}

/** An answer whose conversation was continued has been delivered, even if its connection broke. */
function wasRead({ turn }: OpenCall<unknown>): boolean {
  return turn !== null && (turn.isDelivered || turn.isContinued);
}
