// Constraints on the text that an engine samples, as data: a schema, a pattern, a grammar, or the
// calls of given tools in the format of the model's family. A grammar in the engine excludes every
// token that cannot continue such a text. The contract is in `engine.ts`; which constrained tokens
// are trained is decided in `trajectories/constrained-tokens.ts`.

/** A form that a text has, as a tree. */
export type TextForm =
  /** Exactly this text, which is not empty. */
  | { readonly type: "literal"; readonly text: string }
  /** JSON that is valid under the schema, which is JSON text itself. */
  | { readonly type: "json"; readonly schema: string }
  /** Any text up to the first occurrence of `end`, `end` included. */
  | { readonly type: "text"; readonly end: string }
  | { readonly type: "regex"; readonly pattern: string }
  /** A grammar whose first rule is `root`. */
  | { readonly type: "ebnf"; readonly grammar: string }
  | { readonly type: "sequence"; readonly parts: readonly TextForm[] }
  | { readonly type: "choice"; readonly options: readonly TextForm[] }
  | { readonly type: "optional"; readonly form: TextForm };

/** The reasoning of a family, which a constraint leaves free. */
export type FreeReasoning = {
  /** Text that opens it; `null` if the prompt has opened it already, so that it always comes first. */
  readonly start: string | null;
  /** Text that closes it; white space may follow. */
  readonly end: string;
};

/** Text that may be sampled after the reasoning, up to the end of the turn. */
export type ConstrainedText =
  | { readonly type: "json-schema"; readonly schema: string }
  | { readonly type: "regex"; readonly pattern: string }
  | { readonly type: "ebnf"; readonly grammar: string }
  /** One call of one of these tools: one form for each, in the call format of the model's family. */
  | { readonly type: "tool-call"; readonly calls: readonly TextForm[] }
  /** Such a call, or an answer of this form instead. */
  | { readonly type: "tool-call-or-answer"; readonly calls: readonly TextForm[]; readonly answer: TextForm };

/** Forms of the text of an action in the format of a model's family. */
export type ActionForms = {
  /** One call of each tool, in the order of the tools; `null` if its form is not known. */
  readonly calls: readonly (TextForm | null)[];
  /** Text before an answer without a call; "" in most families. */
  readonly answerStart: string;
  /** `null` if the family does not reason, or its prompt has closed the reasoning. */
  readonly reasoning: FreeReasoning | null;
};

export type Constraint = {
  readonly text: ConstrainedText;
  /** `null`: the text begins at once. */
  readonly reasoning: FreeReasoning | null;
};

export type ConstraintKind = ConstrainedText["type"];

/** Constrained tokens that enter the loss: those with a choice, none, or none of the whole turn. */
export type ConstrainedLoss = "train" | "mask" | "drop";

/** Tokens of a turn that a constraint restricted. Their logprobs are those of the restricted distribution. */
export type ConstrainedTokens = {
  /** Ranges in the sampled tokens, ascending and separate; the tokens between them were free. */
  readonly ranges: readonly { readonly start: number; readonly end: number }[];
  /** Same as in `SampleResult.allowedMass`; `null` if the engine did not report it. */
  readonly allowedMass: Float32Array | null;
  /** Setting of the run: what enters the loss. */
  readonly loss: ConstrainedLoss;
};

/**
 * Kept ids of the sampled tokens of a turn in `sampling-masks.bin` of the run folder: for each token,
 * their number and then the ids, as little-endian uint32.
 */
export type SamplingMaskPlace = {
  /** Offset of the first byte. */
  readonly offset: number;
  /** Number of sampled tokens. */
  readonly tokens: number;
  /** Number of kept ids of all tokens together. */
  readonly ids: number;
};

/** Sampling by top-k, top-p or min-p, which draws from the most probable ids only. */
export type TruncatedSampling = {
  /** Distribution of the turn's logprobs: over the kept ids, or over the whole vocabulary. */
  readonly logprobs: "kept" | "whole";
  /** `null` if the kept ids were not requested. */
  readonly mask: SamplingMaskPlace | null;
};
