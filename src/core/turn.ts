// One engine call as data, and the training rows of a branch. Only the tokens that a turn added are
// stored; whole prompts and sequences are derived (`trajectories/`).

import type { ConstrainedTokens, TruncatedSampling } from "./constraint.ts";
import type { TemplateDeviation } from "./renderer.ts";

/** Reasons for the end of an engine call. */
export type FinishReason = "stop" | "length" | "abort";

export type Finish = {
  readonly reason: FinishReason;
  /** The stop token id or stop string that matched; `null` when none did or the server does not say. */
  readonly matched: number | string | null;
  /** The engine's own reason (JSON text); `null` when it reported none. */
  readonly raw: string | null;
};

/**
 * Weights that sampled a run of consecutive tokens. An engine reports the version at *reply* only;
 * the version at *dispatch* is the last one known when the request was sent. Both are `null` when
 * the engine does not version its weights, and both are the exact version when the engine names
 * that of every token. Tokens that a LoRA adapter sampled have its name, which is its version.
 */
export type WeightSpan = {
  readonly tokenCount: number;
  readonly dispatch: string | null;
  readonly reply: string | null;
};

/**
 * Experts that a mixture-of-experts model chose for tokens of a turn: `rows * layers * topk`
 * numbers in `routed-experts.bin` of the run folder. The first row belongs to the last token of the
 * parent's sequence, or to the turn's first token if it has no parent; the last token of a sequence
 * has no row. So the rows of the turns of a path, concatenated, are those of its sequence.
 */
export type RoutedExperts = {
  /** Offset of the first byte. */
  readonly offset: number;
  readonly rows: number;
  readonly layers: number;
  readonly topk: number;
  /** Bytes per number, little-endian. */
  readonly width: 1 | 2;
};

/** One engine call: the tokens newly shown to the policy and those it sampled. */
export type Turn = {
  /** Index in `trajectory.turns`. */
  readonly index: number;
  /** The turn whose observation and action this prompt extends; `null` when it extends none (the first turn, or a rewritten history). */
  readonly parent: number | null;
  /** Tokens that this turn added after the parent's whole sequence; the whole prompt is derived. */
  readonly observationTokens: Uint32Array;
  /** Control tokens that users and tools spelled out in the observation, where they are plain text. */
  readonly spelledTokens: number;
  /** Difference between the observation and the template's output; `null` if they are equal. */
  readonly deviation: TemplateDeviation | null;
  /** The action. Exactly the ids the engine sampled; never obtained by re-tokenizing text. */
  readonly sampledTokens: Uint32Array;
  /** One per sampled token; `null` when the engine reported none. */
  readonly logprobs: Float32Array | null;
  readonly finish: Finish;
  /** Spans in order; their token counts sum to the number of sampled tokens. */
  readonly weightSpans: readonly WeightSpan[];
  /**
   * The reason for not extending the history, e.g. "template strips reasoning"; `null` when it was
   * extended, and for the first turn.
   */
  readonly rewriteReason: string | null;
  /** Ids of the engine calls that sampled these tokens, in order, without the tag of a resumed process. @default none */
  readonly requestIds?: readonly string[];
  /** Present if the run requests experts. @default null */
  readonly routedExperts?: RoutedExperts | null;
  /** Present if top-k, top-p or min-p truncated the distribution. @default null */
  readonly truncated?: TruncatedSampling | null;
  /** Present if a constraint restricted the turn. @default null */
  readonly constrained?: ConstrainedTokens | null;
};

/** Token-exact record of one policy's turns in an episode; a tree when history was rewritten. */
export type Trajectory = {
  readonly turns: readonly Turn[];
};

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
  /**
   * Ranges of known weights: `[start, end)` in `tokens`, in order, covering exactly the sampled
   * tokens.
   */
  readonly weightRanges: readonly (WeightSpan & { readonly start: number; readonly end: number })[];
  readonly reward: number | null;
  /**
   * Origin of the tokens: token-exact, or re-encoded text as in the upstream program. Exporters
   * refuse the second without a flag.
   */
  readonly tokenAccounting: "token-exact" | "text-delta";
  /** The history policy of `Renderer`. */
  readonly historyPolicy: "append-only" | "keep-reasoning" | "branch";
  /**
   * Differences between observations and the template's output, beyond those of the history policy;
   * each named once.
   */
  readonly deviations: readonly TemplateDeviation[];
  /** Ranges that a constraint restricted, ascending; see `ConstrainedTokens`. @default none */
  readonly constrainedRanges?: ConstrainedTokens["ranges"];
  /**
   * Distribution of the logprobs if top-k, top-p or min-p truncated it: "whole" unless those of all
   * truncated turns are over the kept ids. @default null
   */
  readonly truncatedLogprobs?: TruncatedSampling["logprobs"] | null;
};

/** Sampled tokens that do not enter the loss, with the reason. */
export type DroppedTokens = {
  readonly turn: number;
  readonly count: number;
  /** "restarted": its world could not be replayed. "uncredited": of another lineage than the main one. "forced", "constrained": parts of a turn, see `constrained-tokens.ts`. */
  readonly reason:
    | "discarded-turn"
    | "forced"
    | "constrained"
    | "restarted"
    | "uncredited"
    | "episode-aborted"
    | "episode-failed"
    | "not-graded"
    | "filtered"
    | "too-long";
};
