// Tokens with what is known of each: where it comes from, whether the policy sampled it, whether it is trained. Data, for the
// view and for `tokens --json`.

/** Where a token comes from. "prompt": what opens an answer. "template": between messages. "history": a rewritten beginning. */
export type TokenRole = "system" | "user" | "assistant" | "tool" | "prompt" | "template" | "history";

export type StoryToken = {
  readonly id: number;
  readonly text: string;
  readonly role: TokenRole;
  /** Fact: the policy sampled it (in a conversation file: it is part of an answer). */
  readonly isSampled: boolean;
  /** Decision: it enters the loss. */
  readonly isTrained: boolean;
  /** `null`: not known. */
  readonly logprob: number | null;
};

/** One training row, or a prompt to which there is no answer yet. */
export type StorySample = {
  readonly id: string;
  /** Why the history before it was rewritten; `null`: it was not. */
  readonly rewriteReason: string | null;
  readonly tokens: readonly StoryToken[];
};

export type TokenStory = {
  readonly renderer: string;
  readonly tokenizer: string;
  readonly historyPolicy: string;
  readonly samples: readonly StorySample[];
  /** What to know beside the tokens. */
  readonly notes: readonly string[];
};
