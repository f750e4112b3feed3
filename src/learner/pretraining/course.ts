// Everything that a run of a recipe needs before its first step, and that follows from the recipe alone.

import type { Tokenizer } from "../../core/index.ts";
import type { ModelConfig } from "../model/index.ts";
import { type ChatTokenizerFiles, createTokenizer } from "../../tokenizers/index.ts";
import { copyAlphabet, type Curriculum, curriculumOf } from "./curriculum.ts";
import { instructionsLength } from "./desk.ts";
import type { Dialogue } from "./dialogue.ts";
import { trainDialogueTokenizer } from "./dialogue-tokenizer.ts";
import { expertFeed } from "./expert-feed.ts";
import type { Recipe } from "./recipe.ts";

export type Course = {
  readonly files: ChatTokenizerFiles;
  readonly tokenizer: Tokenizer;
  readonly config: ModelConfig;
  readonly lessonAt: Curriculum;
  /** Dialogues of test tasks without mistakes, for examining how the model reads. */
  readonly cleanDialogues: readonly Dialogue[];
  /** Whether a token is one of those that "copy accuracy" counts. */
  readonly isCopied: (token: number) => boolean;
};

export async function prepareCourse(recipe: Recipe): Promise<Course> {
  const { name, shape, vocabularySize, tokenizerDialogues: dialogues, noise, seed } = recipe;
  const { contextLength } = shape;
  const files = await trainDialogueTokenizer({ vocabularySize, dialogues, noise, seed, contextLength });
  const tokenizer = await createTokenizer(name, files);
  const alphabet = copyAlphabet(tokenizer);
  const pairs = new Set(alphabet.pairs);
  const feed = expertFeed(tokenizer, { split: "train", noise, seed });
  return {
    files,
    tokenizer,
    config: { ...shape, vocabularySize: Math.ceil(tokenizer.vocabularySize / 8) * 8 },
    lessonAt: curriculumOf(recipe, { alphabet, feed, promptLength: instructionsLength(tokenizer) }),
    cleanDialogues: await expertFeed(tokenizer, { split: "test", noise: 0, seed })(0, recipe.examination.dialogues),
    isCopied: (token) => pairs.has(token),
  };
}
