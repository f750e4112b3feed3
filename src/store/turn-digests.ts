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
  let previous: string | null = null;
  const digests = turns.map((turn) => (previous = digestOf(episodeId, turn, previous)));
  known.set(turns, { id: episodeId, digests });
  return digests;
}

/** Tokens and versions of each part of a turn that has tokens. */
export function turnWeights({ weightSpans }: Pick<Turn, "weightSpans">) {
  const parts = weightSpans.filter(({ tokenCount }) => tokenCount > 0);
  return parts.map(({ tokenCount, dispatch, reply }) => [tokenCount, dispatch, reply] as const);
}

function digestOf(episodeId: string, turn: DigestedTurn, previous: string | null): string {
  const { index, parent, observationTokens, sampledTokens, logprobs, requestIds = [] } = turn;
  const counts = [observationTokens.length, sampledTokens.length, logprobs === null ? 0 : logprobs.length];
  const head = JSON.stringify([previous, episodeId, index, parent, requestIds, turnWeights(turn), counts]);
  const hash = createHash("sha256")
    .update(`${head}\n`)
    .update(bytesOf(observationTokens))
    .update(bytesOf(sampledTokens));
  // The sum is 0 for -0, whose sign does not survive JSON.stringify().
  return (logprobs === null ? hash : hash.update(bytesOf(logprobs.map((value) => value + 0)))).digest("hex");
}

function bytesOf(array: Uint32Array | Float32Array): Uint8Array {
  const own = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  return endianness() === "LE" ? own : Buffer.from(own).swap32();
}
