// What is learnt at which step: exercises in copying, then dialogues of the expert. Every step's rows follow from the recipe
// and the step's place alone, so a run that goes on after a kill learns what it would have learnt.

import type { Tokenizer } from "../../core/index.ts";
import { createRandom, deriveSeed } from "../../lib/random.ts";
import { type CopyAlphabet, copyExercise } from "./copy-exercises.ts";
import { type Dialogue, withoutPrompt } from "./dialogue.ts";
import type { ExpertFeed } from "./expert-feed.ts";
import { learningRateAt } from "./learning-rate.ts";
import type { Recipe } from "./recipe.ts";
import type { Progress } from "./saved-state.ts";

export type Lesson = {
  readonly rows: readonly Dialogue[];
  /** What a token beside the targets weighs in the loss; a target weighs 1. */
  readonly contextWeight: number;
  readonly learningRate: number;
  readonly weightDecay: number;
  /** What it adds to the tokens of its phase. */
  readonly tokens: number;
};

/** The lesson at `progress`, or `null` when its phase is over. */
export type Curriculum = (progress: Progress) => Promise<Lesson | null>;

export function curriculumOf(
  recipe: Recipe,
  sources: { readonly alphabet: CopyAlphabet; readonly feed: ExpertFeed; readonly promptLength: number },
): Curriculum {
  const { copying, cloning, seed } = recipe;
  const { alphabet, feed, promptLength } = sources;

  const exercises = ({ step, tokens }: Progress): Lesson => {
    const random = createRandom(deriveSeed(seed, "copying", step));
    const part = Math.floor((tokens / copying.tokens) * copying.lengths.length);
    const rows: Dialogue[] = [];
    let count = 0;
    while (count < copying.tokensPerStep) {
      const row = copyExercise(alphabet, copying.lengths[part]!, random);
      rows.push(row);
      count += row.tokens.length;
    }
    const learningRate = learningRateAt(copying.learningRate, { step, done: 0, decayFrom: 1 });
    return { rows, contextWeight: 0, learningRate, weightDecay: copying.weightDecay, tokens: count };
  };

  const dialogues = async ({ step, tokens, rows }: Progress): Promise<Lesson> => {
    const done = tokens / cloning.tokens;
    const hasPrompt = done >= cloning.promptFrom;
    const { withPrompt, withoutPrompt: withoutIt } = cloning.dialoguesPerStep;
    const whole = await feed(rows, hasPrompt ? withPrompt : withoutIt);
    const alone = whole.map((dialogue) => withoutPrompt(dialogue, promptLength));
    return {
      rows: hasPrompt ? whole : alone,
      contextWeight: hasPrompt ? 0 : cloning.contextWeight,
      learningRate: learningRateAt(cloning.learningRate, { step, done, decayFrom: cloning.decayFrom }),
      weightDecay: cloning.weightDecay,
      tokens: alone.reduce((sum, row) => sum + row.tokens.length, 0),
    };
  };

  return async (progress) => {
    if (progress.tokens >= recipe[progress.phase].tokens) return null;
    return progress.phase === "copying" ? exercises(progress) : dialogues(progress);
  };
}

/** What copying is exercised with: pairs of digits, and every token that merges made. */
export function copyAlphabet(tokenizer: Tokenizer): CopyAlphabet {
  const texts = Array.from({ length: tokenizer.vocabularySize }, (_, id) => tokenizer.decode([id]));
  const ids = [...texts.keys()];
  return {
    pairs: ids.filter((id) => /^\d\d$/.test(texts[id]!)),
    words: ids.filter((id) => texts[id]!.length > 1 && !/^<.*>$/.test(texts[id]!)),
  };
}
