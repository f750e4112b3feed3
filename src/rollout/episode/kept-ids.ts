// The kept ids of a turn, checked and stored. Loaded only where they are requested.

import { endianness } from "node:os";
import type { SampleResult, SamplingParams } from "../../core/engine.ts";
import { faultAt } from "../../core/failure.ts";
import type { TruncatedSampling } from "../../core/constraint.ts";
import { isTruncated } from "../../core/truncation.ts";
import type { Turn } from "../../core/turn.ts";

/** Storage for a run's kept ids. */
export interface SamplingMaskSink {
  /** Resolves with the offset of the first byte, once all bytes have left the process. */
  write(bytes: Uint8Array): Promise<number>;
}

/**
 * Writes the kept ids of a turn. Rejects with an `AttributedError` at boundary "engine" when they are
 * missing, or are not those of its tokens. `turn`: its name in messages.
 */
export async function keepMask(
  { samplingMask = null, isRenormalized = false, sampledTokens }: SampleResult,
  sink: SamplingMaskSink,
  turn: string,
): Promise<TruncatedSampling> {
  const mask = samplingMask ?? new Uint32Array(0);
  let tokens = 0;
  let at = 0;
  for (; at < mask.length; tokens++) at += 1 + mask[at]!;
  if (tokens !== sampledTokens.length || at !== mask.length || !isRenormalized) {
    throw faultAt(
      "engine",
      "bad-reply",
      `Cannot keep the sampled distribution of ${turn}: the reply has kept ids for ${samplingMask === null ? "none" : tokens} of ` +
        `${sampledTokens.length} tokens${isRenormalized || samplingMask === null ? "" : ", and logprobs of the whole distribution"}; ` +
        "use an engine that reports them, or remove --sampling-mask.",
      { retryable: false },
    );
  }
  const bytes = Buffer.from(mask.buffer, mask.byteOffset, mask.byteLength);
  const offset = await sink.write(endianness() === "LE" ? bytes : Buffer.from(bytes).swap32());
  return { logprobs: "kept", mask: { offset, tokens, ids: mask.length - tokens } };
}

/** The result of a turn, with the distribution of its logprobs if sampling is truncated. */
export function withTruncation(result: SampleResult, sampling: SamplingParams): SampleResult & Pick<Turn, "truncated"> {
  if (!isTruncated(sampling)) return result;
  return { ...result, truncated: { logprobs: result.isRenormalized === true ? "kept" : "whole", mask: null } };
}

/** Those of the parts that sampled anything. Absent fields if none of the parts has them. */
export function joinMasks(all: readonly SampleResult[]): Pick<SampleResult, "samplingMask" | "isRenormalized"> {
  const parts = all.filter(({ sampledTokens }) => sampledTokens.length > 0);
  const masks = parts.flatMap(({ samplingMask }) => samplingMask ?? []);
  const isRenormalized = parts.length > 0 && parts.every((part) => part.isRenormalized === true);
  if (masks.length === 0 || masks.length < parts.length) return isRenormalized ? { isRenormalized } : {};
  const samplingMask = new Uint32Array(masks.reduce((size, mask) => size + mask.length, 0));
  let at = 0;
  for (const mask of masks) {
    samplingMask.set(mask, at);
    at += mask.length;
  }
  return { samplingMask, isRenormalized };
}
