// One generation on one sequence: the prompt goes into the cache, then tokens are chosen here one
// at a time. The library could choose too, but it reports the probability after truncation.

import { createRandom } from "../../lib/random.ts";
import { MaskList } from "../mask-list.ts";
import { endingOf, type Generated, type GenerateOptions, type GenerationParams } from "../token-sampling.ts";
import type { ActivityCounter } from "./activity.ts";
import type { Rows } from "./rows.ts";
import type { SequenceLease } from "./sequence-pool.ts";

/** Number of prompt tokens that are computed between two checks for an abort. */
const promptChunk = 512;

/** Ends with reason "abort" and the tokens so far, soon after the signal aborts. */
export async function generate(
  { sequence, share }: Pick<SequenceLease, "sequence" | "share">,
  request: {
    readonly prompt: Uint32Array;
    readonly params: GenerationParams;
    readonly rows: Rows;
    readonly activity: ActivityCounter;
    readonly weightVersion: string | null;
    readonly onTokens: GenerateOptions["onTokens"];
    readonly signal: AbortSignal;
  },
): Promise<Generated> {
  const { params, rows, activity, weightVersion: version, onTokens, signal } = request;
  const prompt = [...request.prompt];
  // The last token is always computed, for the logits after it. Cached keys and values at other
  // positions are not shifted into place, because they depend on their positions.
  await sequence.adaptStateToTokens(prompt.slice(0, -1), false);
  // Number of tokens that the cache kept: some kinds of models drop more than requested.
  const cachedTokens = sequence.nextTokenIndex;
  const ids: number[] = [];
  const logprobs: number[] = [];
  const mask = new MaskList();
  const counts = new Map<number, number>();
  const { next: uniform } = createRandom(params.seed);
  let pending = prompt.slice(cachedTokens);
  const progress = activity.begin(pending.length);
  try {
    for (;;) {
      const reason = endingOf(params, ids) ?? (signal.aborted ? "abort" : null);
      if (reason !== null) {
        const versions = ids.length === 0 ? [] : [{ version, count: ids.length }];
        return {
          reason,
          ids: Uint32Array.from(ids),
          logprobs: Float32Array.from(logprobs),
          mask: mask.result(params),
          versions,
          cachedTokens,
        };
      }
      await share();
      if (pending.length > promptChunk) {
        await sequence.controlledEvaluate(pending.slice(0, promptChunk));
        pending = pending.slice(promptChunk);
        progress.prompt(promptChunk);
        continue;
      }
      const { token, logprob, kept } = await rows.next(sequence, pending, { params, counts, uniform });
      if (ids.length === 0) progress.prompt(pending.length);
      progress.token();
      ids.push(token);
      onTokens?.([token]);
      logprobs.push(logprob);
      mask.add(kept);
      counts.set(token, (counts.get(token) ?? 0) + 1);
      pending = [token];
    }
  } finally {
    progress.end();
  }
}
