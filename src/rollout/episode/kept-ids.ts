// The kept ids of a turn, checked and stored. Loaded only where they are requested.

import { endianness } from "node:os";
import type { SampleResult } from "../../core/engine.ts";
import { faultAt } from "../../core/failure.ts";
import type { TruncatedSampling } from "../../core/turn.ts";

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
