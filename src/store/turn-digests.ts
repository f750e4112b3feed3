// The ledger of an episode: a digest of each turn, which includes the digest of the turn before it.
// An episode's line stores them, training rows repeat those of their turns, and `verifyRows` proves
// with them that a row holds what was sampled. docs/exporting.md states the bytes that are hashed.

import { createHash } from "node:crypto";
import { endianness } from "node:os";
import type { Turn } from "../core/turn.ts";

/** Facts of a turn that its digest covers. */
export type DigestedTurn = Pick<
  Turn,
  "index" | "parent" | "observationTokens" | "sampledTokens" | "logprobs" | "weightSpans" | "requestIds"
>;

/** Length that stands for an absent string. */
const absent = 0xffff_ffff;

const known = new WeakMap<readonly DigestedTurn[], { readonly id: string; readonly digests: readonly string[] }>();

/**
 * SHA-256 of each turn of an episode that has ended, in hexadecimal, aligned with its turns.
 * Computed once for each trajectory.
 */
export function turnDigests(
  episodeId: string,
  { turns }: { readonly turns: readonly DigestedTurn[] },
): readonly string[] {
  const before = known.get(turns);
  if (before?.id === episodeId && before.digests.length === turns.length) return before.digests;
  let previous: Buffer = Buffer.alloc(32);
  const digests = turns.map((turn) => (previous = digestOf(episodeId, turn, previous)).toString("hex"));
  known.set(turns, { id: episodeId, digests });
  return digests;
}

function digestOf(episodeId: string, turn: DigestedTurn, previous: Buffer): Buffer {
  const { index, parent, observationTokens, sampledTokens, logprobs, weightSpans, requestIds = [] } = turn;
  const spans = weightSpans.filter(({ tokenCount }) => tokenCount > 0);
  const head: (string | number | null)[] = [episodeId, index, parent === null ? 0 : parent + 1];
  head.push(requestIds.length, ...requestIds, spans.length);
  for (const { tokenCount, dispatch, reply } of spans) head.push(tokenCount, dispatch, reply);
  head.push(observationTokens.length, sampledTokens.length, logprobs === null ? 0 : 1);
  const hash = createHash("sha256").update(previous).update(headBytes(head));
  hash.update(bytesOf(observationTokens)).update(bytesOf(sampledTokens));
  return (logprobs === null ? hash : hash.update(bytesOf(logprobs))).digest();
}

/** Numbers as u32, strings as the u32 length of their UTF-8 bytes and these bytes; little-endian. */
function headBytes(values: readonly (string | number | null)[]): Buffer {
  let length = 4 * values.length;
  for (const value of values) if (typeof value === "string") length += Buffer.byteLength(value);
  const bytes = Buffer.allocUnsafe(length);
  let at = 0;
  for (const value of values) {
    const size = typeof value === "string" ? bytes.write(value, at + 4) : 0;
    bytes.writeUInt32LE(typeof value === "string" ? size : (value ?? absent), at);
    at += 4 + size;
  }
  return bytes;
}

function bytesOf(array: Uint32Array | Float32Array): Uint8Array {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  return endianness() === "LE" ? bytes : Buffer.from(bytes).swap32();
}
