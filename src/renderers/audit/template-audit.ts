// The doctor's findings about a chat template. Data; `audit-template.ts` finds it, `audit-view.ts`
// shows it, and `doctor template --json` prints it as it is, so its names are part of the command.

/** Change that a template makes to text that the policy has seen or sampled already. */
export type HistoryChange =
  | "drops-thinking"
  | "think-block"
  | "white-space"
  | "answer-end"
  | "rewrites-call"
  | "drops-message"
  | "moves-message"
  | "moves-tools"
  | "rewrites-text";

/** The place where two renderings differ, as excerpts; control characters are unchanged. */
export type Difference = {
  readonly change: HistoryChange;
  /** Text that the policy saw and sampled, from the place where the renderings differ. */
  readonly seen: string;
  /** Text that the template writes there. */
  readonly written: string;
};

/** One kind of message, added after one kind of answer. */
export type HistoryFinding = {
  readonly kind: string;
  /**
   * "keeps": everything before is written as it was. "rewrites": it is changed, or the new message
   * is omitted. "refuses": the template raises.
   */
  readonly template: "keeps" | "rewrites" | "refuses";
  /** `null` unless the template rewrites. */
  readonly difference: Difference | null;
  /**
   * Reaction of the loop. "extends": appends what the template writes. "keeps-stream": appends,
   * against the template. "branches": starts a branch with the template's own prompt. "fails": the
   * episode ends with a fault of the renderer.
   */
  readonly loop: "extends" | "keeps-stream" | "branches" | "fails";
  /** Error message of the template or the renderer that refused; `null` if none did. */
  readonly error: string | null;
};

/**
 * One kind of answer, read by the parsers and rendered again from its parts, as a trainer does that
 * keeps only messages.
 */
export type RoundTripFinding = {
  readonly kind: string;
  /** "unread": the parsers do not find the thought or the calls in it. */
  readonly outcome: "same" | "differs" | "refused" | "unread";
  readonly difference: Difference | null;
  readonly error: string | null;
  /**
   * True if prompt and answer, encoded together, give the ids that they give when encoded apart.
   */
  readonly sameTokens: boolean;
};

export type AuditedMarker = {
  readonly text: string;
  /**
   * True if the tokenizer has the marker as one token: only then is its spelled-out text never
   * taken for it.
   */
  readonly isToken: boolean;
};

export type AuditedRenderer = {
  /**
   * Name of the family for `--renderer`; a detected one is named by the fingerprint of its
   * template.
   */
  readonly family: string;
  /** "family": a row of the table, named or recognised. "template": detected. */
  readonly kind: "family" | "template";
  /** Reason for this family. */
  readonly because: string;
  readonly historyPolicy: "append-only" | "keep-reasoning" | "branch";
  /** Tokens that stop sampling, the end of an answer first. */
  readonly stopTokens: readonly { readonly id: number; readonly text: string }[];
  /** Text before every answer. */
  readonly generationPrompt: string;
  /** The template's variable that turns thinking on and off; `null` if it has none. */
  readonly thinkingVariable: string | null;
  /**
   * All variables that the template reads in addition to the conversation; `templateKwargs` may set
   * them.
   */
  readonly variables: readonly string[];
  /** `name` is `null` if no parser is known for the calls that the template writes or describes. */
  readonly toolCallParser: { readonly name: string | null; readonly because: string };
  /** `null` if the model is assumed not to think. */
  readonly reasoningParser: string | null;
  readonly markers: readonly AuditedMarker[];
};

/**
 * Kinds of call arguments and whether they come back: written by the template, and read by the
 * parser.
 */
export type ValuesFound = {
  /** Number of kinds of values that the template writes. */
  readonly written: number;
  /** Names of the kinds that are read back as another value. */
  readonly lost: readonly string[];
  /** Names of the kinds that make the template raise when a tool declares them. */
  readonly refused: readonly string[];
};

export type TemplateAudit = {
  /** `null` if no renderer can be made of the template; the first problem gives the reason. */
  readonly renderer: AuditedRenderer | null;
  /** True if none of the conversations tried rewrites history. */
  readonly isAppendOnly: boolean;
  readonly history: readonly HistoryFinding[];
  readonly roundTrips: readonly RoundTripFinding[];
  /**
   * `null` if the template writes no calls after its own prompt, or not those that its parser
   * reads.
   */
  readonly values: ValuesFound | null;
  /** Remarks that are not problems. */
  readonly notes: readonly string[];
  /**
   * Problems that must be corrected before training. If empty, the template can be trained with.
   */
  readonly problems: readonly string[];
};
