// The recipes of the shipped checkpoints: every number that affects the result. They are fixed: a
// run is never stopped early or continued because of its scores.

import { type ModelShape, modelShapes, type ShippedCheckpoint } from "../model/index.ts";

/** Everything that decides how weights are learnt from dialogues, independent of their source. */
export type LearningRecipe = {
  readonly shape: ModelShape;
  readonly vocabularySize: number;
  /** Seed for weights, exercises, tasks' users and the expert's mistakes. */
  readonly seed: number;
  /** Number of threads, which affects the last bits of gradient sums. */
  readonly threads: number;
  /** Dialogues that the tokenizer is trained on. */
  readonly tokenizerDialogues: number;
  readonly copying: {
    readonly tokens: number;
    readonly tokensPerStep: number;
    readonly learningRate: number;
    readonly weightDecay: number;
    /** Lengths of exercises; each holds for an equal part of the phase. */
    readonly lengths: readonly number[];
  };
  readonly cloning: {
    /** Tokens of conversations; guidelines and tools, which all share, do not count. */
    readonly tokens: number;
    readonly learningRate: number;
    readonly weightDecay: number;
    /**
     * Share of the tokens, 0 to 1, before which conversations are read without guidelines and
     * tools.
     */
    readonly promptFrom: number;
    readonly dialoguesPerStep: { readonly withoutPrompt: number; readonly withPrompt: number };
    /**
     * Loss weight of a token of members and till while conversations are read without guidelines
     * and tools; a token of the desk weighs 1.
     */
    readonly contextWeight: number;
    /** Share of the tokens, 0 to 1, after which the learning rate falls, along a cosine. */
    readonly decayFrom: number;
  };
};

/** The recipe of a shipped checkpoint. */
export type Recipe = LearningRecipe & {
  readonly name: ShippedCheckpoint;
  /**
   * Probability that the cloned expert makes a mistake at an action. Mistakes are read, and the
   * actions after them are learnt.
   */
  readonly noise: number;
  /**
   * Share of its conversations in which it refuses only what days and amounts forbid: the habit
   * that rewards have to unlearn.
   */
  readonly habit: number;
  readonly evaluation: {
    /** Cloning tokens between two evaluations. */
    readonly everyTokens: number;
    /**
     * Number of dialogues of validation tasks, without mistakes, that are read: 63 are three of
     * each kind and level.
     */
    readonly dialogues: number;
    /** Number of validation tasks run at temperature 1. */
    readonly tasks: number;
    /** Number of validation tasks after the last step; of all shipped figures, quote these. */
    readonly finalTasks: number;
  };
};

const small: Recipe = {
  name: "bookshop-1m",
  shape: modelShapes.small,
  vocabularySize: 1536,
  seed: 1,
  threads: 2,
  noise: 0.1,
  habit: 0.65,
  tokenizerDialogues: 1000,
  copying: {
    tokens: 300_000,
    tokensPerStep: 2600,
    learningRate: 3e-3,
    weightDecay: 0.02,
    lengths: [64, 64, 128, 320],
  },
  cloning: {
    tokens: 7_000_000,
    learningRate: 1.2e-3,
    weightDecay: 0.05,
    promptFrom: 0.12,
    dialoguesPerStep: { withoutPrompt: 8, withPrompt: 16 },
    contextWeight: 0.2,
    decayFrom: 0.4,
  },
  evaluation: { everyTokens: 1_750_000, dialogues: 63, tasks: 210, finalTasks: 1050 },
};

export const recipes: Readonly<Record<ShippedCheckpoint, Recipe>> = {
  "bookshop-1m": small,
  "bookshop-nano": {
    ...small,
    name: "bookshop-nano",
    shape: modelShapes.nano,
    cloning: { ...small.cloning, tokens: 4_000_000, learningRate: 1.6e-3 },
    evaluation: { ...small.evaluation, everyTokens: 500_000, tasks: 105 },
  },
};

/**
 * The recipe for a world of the author's own that clones `tokens` tokens of its expert's
 * conversations.
 */
export function ownRecipe(
  size: "small" | "nano",
  options: { tokens: number; seed: number; threads: number },
): LearningRecipe {
  const { tokens, seed, threads } = options;
  const { copying, cloning } = recipes[size === "nano" ? "bookshop-nano" : "bookshop-1m"];
  return {
    shape: modelShapes[size],
    vocabularySize: 1536,
    tokenizerDialogues: 600,
    seed,
    threads,
    // Fewer exercises than for shipped models: titles and numbers of one world are fewer than those
    // of a language.
    copying: { ...copying, tokens: Math.min(copying.tokens, Math.ceil(tokens / 5)) },
    cloning: { ...cloning, tokens, learningRate: size === "nano" ? 1.6e-3 : 1.2e-3 },
  };
}
