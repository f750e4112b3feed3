// What the doctor found out about a chat template. Data; `audit-template.ts` finds it, `audit-view.ts` shows it, and
// `doctor template --json` prints it as it is, so its names are part of the command.

/** What a template does to text that the policy has seen or sampled already. */
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

/** Where two renderings part, shortened; control characters are as they were. */
export type Difference = {
  readonly change: HistoryChange;
  /** Of what the policy saw and sampled, from the place where they part. */
  readonly seen: string;
  /** What the template writes there. */
  readonly written: string;
};

/** One kind of message, added after one kind of answer. */
export type HistoryFinding = {
  readonly kind: string;
  /**
   * "keeps": everything before is written as it was. "rewrites": it is not, or the new message is left out. "refuses": the template
   * raises.
   */
  readonly template: "keeps" | "rewrites" | "refuses";
  /** `null` unless the template rewrites. */
  readonly difference: Difference | null;
  /**
   * What the loop does. "extends": appends what the template writes. "keeps-stream": appends, against the template. "branches":
   * starts a branch with the template's own prompt. "fails": the episode ends with a fault of the renderer.
   */
  readonly loop: "extends" | "keeps-stream" | "branches" | "fails";
  /** What the template or the renderer said when it refused; `null` when none did. */
  readonly error: string | null;
};

/** One kind of answer, read by the parsers and rendered again from its parts: what a trainer does that keeps messages only. */
export type RoundTripFinding = {
  readonly kind: string;
  /** "unread": the parsers do not find the thought or the calls in it. */
  readonly outcome: "same" | "differs" | "refused" | "unread";
  readonly difference: Difference | null;
  readonly error: string | null;
  /** Whether prompt and answer, encoded at once, give the ids that they give when encoded apart. */
  readonly sameTokens: boolean;
};

export type AuditedMarker = {
  readonly text: string;
  /** Whether the tokenizer has it as one token: only then is the text of it, spelled out, never taken for it. */
  readonly isToken: boolean;
};

export type AuditedRenderer = {
  /** As `--renderer` names it; a detected one is named by the fingerprint of its template. */
  readonly family: string;
  /** "family": a row of the table, named or recognised. "template": detected. */
  readonly kind: "family" | "template";
  /** Why this one. */
  readonly because: string;
  readonly historyPolicy: "append-only" | "keep-reasoning" | "branch";
  /** What stops sampling, the end of an answer first. */
  readonly stopTokens: readonly { readonly id: number; readonly text: string }[];
  /** What stands before every answer. */
  readonly generationPrompt: string;
  /** The template's variable that turns thinking on and off; `null`: there is none. */
  readonly thinkingVariable: string | null;
  /** All variables that the template reads beside the conversation: what `templateKwargs` may set. */
  readonly variables: readonly string[];
  /** `name` is `null` where no parser is known for the calls that the template writes or describes. */
  readonly toolCallParser: { readonly name: string | null; readonly because: string };
  /** `null`: the model is taken not to think. */
  readonly reasoningParser: string | null;
  readonly markers: readonly AuditedMarker[];
};

/** Whether the arguments of calls come back: written by the template, and read by the parser. */
export type ValuesFound = {
  /** How many kinds of values the template writes. */
  readonly written: number;
  /** Names of the kinds that are not read as they were given. */
  readonly lost: readonly string[];
  /** Names of the kinds that no tool may declare: the template raises. */
  readonly refused: readonly string[];
};

export type TemplateAudit = {
  /** `null`: no renderer can be made of it; the first problem says why. */
  readonly renderer: AuditedRenderer | null;
  /** True when nothing that was tried rewrites history. */
  readonly isAppendOnly: boolean;
  readonly history: readonly HistoryFinding[];
  readonly roundTrips: readonly RoundTripFinding[];
  /** `null`: the template writes no calls behind its own prompt, or not those that its parser reads. */
  readonly values: ValuesFound | null;
  /** What to know; nothing is wrong with it. */
  readonly notes: readonly string[];
  /** What must be corrected before training. None: the template can be trained with. */
  readonly problems: readonly string[];
};
