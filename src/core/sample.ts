import type { TemplateDeviation } from "./renderer.ts";
import type { WeightSpan } from "./turn.ts";

/** One training row from one branch. All arrays cover the whole sequence, prompt included. */
export type Sample = {
  /** `<episode id>/<branch>`. */
  readonly id: string;
  readonly episodeId: string;
  readonly groupId: string;
  readonly taskId: string;
  readonly branch: number;
  readonly tokens: Uint32Array;
  /** Fact: the policy sampled this token. Aligned with `tokens`. */
  readonly sampledMask: Uint8Array;
  /** Decision: this token enters the loss; 1 implies sampled. Aligned with `tokens`. */
  readonly lossMask: Uint8Array;
  /** Aligned with `tokens`, NaN exactly where not sampled; `null` when the engine reported none for some turn. */
  readonly logprobs: Float32Array | null;
  /** Where weights are known: `[start, end)` in `tokens`, in order, covering exactly the sampled tokens. */
  readonly weightRanges: readonly (WeightSpan & { readonly start: number; readonly end: number })[];
  readonly reward: number | null;
  /** How the tokens came about: token-exact, or re-encoded text as the seed does it. Exporters refuse the second without a flag. */
  readonly tokenAccounting: "token-exact" | "text-delta";
  /** As in `Renderer`. */
  readonly historyPolicy: "append-only" | "keep-reasoning" | "branch";
  /** Where observations are not what the template writes, beyond what the history policy says; each named once. */
  readonly deviations: readonly TemplateDeviation[];
};

/** Sampled tokens that are in no sample, with the reason. */
export type DroppedTokens = {
  readonly turn: number;
  readonly count: number;
  readonly reason: "discarded-turn" | "episode-aborted" | "episode-failed" | "not-graded" | "filtered" | "too-long";
};
