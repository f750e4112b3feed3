import type { Sample } from "../../core/turn.ts";
import type { SlimeTauResult } from "./interaction-result.ts";

/**
 * The training row of a `slime-tau` episode. Marked "text-delta": what its mask calls sampled is re-encoded text, closing
 * newlines included, so exporters refuse it without a flag. There are no logprobs and no weight versions, as in the seed.
 */
export function slimeTauSample(
  result: SlimeTauResult,
  origin: Pick<Sample, "episodeId" | "groupId" | "taskId">,
): Sample {
  const length = result.tokens.length;
  const lossMask = new Uint8Array(length);
  lossMask.set(result.lossMask, length - result.responseLength);
  const weightRanges: Sample["weightRanges"][number][] = [];
  for (let start = 0; start < length; start++) {
    if (lossMask[start] !== 1) continue;
    let end = start;
    while (lossMask[end] === 1) end++;
    weightRanges.push({ start, end, tokenCount: end - start, dispatch: null, reply: null });
    start = end;
  }
  return {
    ...origin,
    id: `${origin.episodeId}/0`,
    branch: 0,
    tokens: result.tokens,
    sampledMask: lossMask.slice(),
    lossMask,
    logprobs: null,
    weightRanges,
    reward: result.status === "aborted" ? null : result.reward,
    tokenAccounting: "text-delta",
    historyPolicy: "append-only",
    deviations: [],
  };
}
