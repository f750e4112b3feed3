// Builds a checkpoint from nothing, by a recipe: tokenizer, weights, exercises, cloning, examinations, files. It composes
// what others use too: the loop and its samples, the learner's trainer, the embedded engine. No reinforcement learning: that
// is what the result is for.

import { createTokenizer } from "../tokenizers/index.ts";
import { cloningSequence, createTrainer, type LossSequence, type Trainer } from "../learner/index.ts";
import { initializeWeights, type ModelConfig, readCheckpoint } from "../model/index.ts";
import { copyAlphabet, curriculumOf, type Lesson } from "./curriculum.ts";
import { instructionsLength } from "./desk.ts";
import type { Dialogue } from "./dialogue.ts";
import { trainDialogueTokenizer } from "./dialogue-tokenizer.ts";
import { examinePlay, examineReading, type PlayScore, ReadCounter } from "./examine.ts";
import { expertFeed } from "./expert-feed.ts";
import type { Recipe } from "./recipe.ts";
import { loadState, type Progress, saveState } from "./saved-state.ts";
import type { LogRow } from "./training-log.ts";
import { writeModelFolder, writeReport } from "./write-model-folder.ts";

export type PretrainOptions = {
  /** Gets the checkpoint; made when it is missing. */
  readonly folder: string;
  /** Keeps the state of a run that is not finished. */
  readonly stateFolder: string;
  readonly report: (row: LogRow) => void;
  /** Ends the run after so many steps of this call, its state saved; for tests. Default: none. */
  readonly stopAfterSteps?: number;
};

/** Clean dialogues of test tasks that reading is examined with: three of each kind and level. */
const readTasks = 63;

/** Resolves with the score of the shipped, rounded weights; `null` when `stopAfterSteps` ended it. */
export async function pretrain(recipe: Recipe, options: PretrainOptions): Promise<PlayScore | null> {
  const { folder, stateFolder, report, stopAfterSteps = Infinity } = options;
  const { seed, noise, threads, examination } = recipe;
  const { contextLength } = recipe.shape;
  const files = await trainDialogueTokenizer({
    vocabularySize: recipe.vocabularySize,
    dialogues: recipe.tokenizerDialogues,
    noise,
    seed,
    contextLength,
  });
  const tokenizer = await createTokenizer(recipe.name, files);
  const config: ModelConfig = { ...recipe.shape, vocabularySize: Math.ceil(tokenizer.vocabularySize / 8) * 8 };

  const state = await loadState(stateFolder, recipe);
  const weights = state?.weights ?? initializeWeights(config, { seed });
  const trainer = await createTrainer(
    { config, weights },
    { threads, maxTokens: 4 * contextLength, ...(state === null ? {} : { optimizer: state.optimizer }) },
  );
  try {
    const alphabet = copyAlphabet(tokenizer);
    const pairs = new Set(alphabet.pairs);
    const isCopied = (token: number): boolean => pairs.has(token);
    const promptLength = instructionsLength(tokenizer);
    const feed = expertFeed(tokenizer, { split: "train", noise, seed });
    const lessonAt = curriculumOf(recipe, { alphabet, feed, promptLength });
    const clean = await expertFeed(tokenizer, { split: "test", noise: 0, seed })(0, readTasks);
    const rows: LogRow[] = [...(state?.rows ?? [])];
    const log = (row: LogRow): void => {
      rows.push(row);
      report(row);
    };
    // Whoever can only copy plays nonsense, and plays it to the last turn.
    const examine = async ({ phase }: Progress) => ({
      reading: await examineReading(trainer, clean, { isCopied }),
      play:
        phase === "copying"
          ? null
          : await examinePlay(
              { config, weights: trainer.weights() },
              { tokenizer, tasks: examination.tasks, threads, seed },
            ),
    });

    let progress: Progress = state?.progress ?? { phase: "copying", step: 0, tokens: 0, rows: 0 };
    let counter = new ReadCounter(isCopied);
    let lesson = await lessonAt(progress);
    for (let steps = 0; ; steps++) {
      if (lesson === null && progress.phase === "cloning") break;
      if (lesson === null) {
        progress = { phase: "cloning", step: 0, tokens: 0, rows: 0 };
        lesson = await lessonAt(progress);
        continue;
      }
      if (steps >= stopAfterSteps) return null;
      const after: Progress = {
        phase: progress.phase,
        step: progress.step + 1,
        tokens: progress.tokens + lesson.tokens,
        rows: progress.rows + lesson.rows.length,
      };
      // The next lesson is written while this one is learnt.
      const [next] = await Promise.all([lessonAt(after), learn(trainer, lesson, counter)]);
      const every = after.phase === "cloning" ? examination.everyTokens : recipe.copying.tokens;
      const isDue = Math.floor(after.tokens / every) > Math.floor(progress.tokens / every);
      const isLogged = isDue || after.step % 25 === 0;
      if (isLogged) {
        const examined = isDue ? await examine(after) : { reading: null, play: null };
        log({ ...after, learningRate: lesson.learningRate, training: counter.score(), ...examined });
        counter = new ReadCounter(isCopied);
      }
      progress = after;
      lesson = next;
      if (isDue || steps + 1 >= stopAfterSteps) {
        const optimizer = await trainer.optimizerState();
        await saveState(stateFolder, recipe, { progress, rows, weights: trainer.weights(), optimizer });
      }
    }

    await writeModelFolder(folder, { config, weights: trainer.weights() }, { files, tokenizer });
    const shipped = await readCheckpoint(folder);
    const outcomes = { reading: await examineRounded(), play: await playShipped() };
    log({ ...progress, phase: "rounded", learningRate: 0, training: null, ...outcomes });
    await writeReport(folder, { recipe, config, rows });
    return outcomes.play;

    function playShipped(): Promise<PlayScore> {
      return examinePlay(shipped, { tokenizer, tasks: examination.finalTasks, threads, seed });
    }

    async function examineRounded() {
      const read = await trainer.evaluate(clean, { weights: shipped.weights });
      const rounded = new ReadCounter(isCopied);
      clean.forEach((dialogue, index) => rounded.add(dialogue, read[index]!.logprobs));
      return rounded.score();
    }
  } finally {
    await trainer.close();
  }
}

async function learn(trainer: Trainer, lesson: Lesson, counter: ReadCounter): Promise<void> {
  const { rows, learningRate, weightDecay } = lesson;
  const count = rows.reduce((sum, { targets }) => sum + targets.length, 0);
  const sequences = rows.map((row) => lossSequence(row, 1 / count, lesson.contextWeight));
  const outcome = await trainer.accumulate(sequences);
  for (const [index, row] of rows.entries()) {
    const { logprobs } = outcome.sequences[index]!;
    const isWhole = logprobs.length > row.targets.length;
    counter.add(row, isWhole ? Float32Array.from(row.targets, (place) => logprobs[place - 1]!) : logprobs);
  }
  await trainer.update({ learningRate, weightDecay });
}

/** `weight`: of a target; `contextWeight`: of any other token, as a share of it. */
function lossSequence({ tokens, targets }: Dialogue, weight: number, contextWeight: number): LossSequence {
  if (contextWeight === 0) return cloningSequence(tokens, targets, weight);
  const sequence = cloningSequence(tokens, Uint32Array.from(tokens.keys()).subarray(1), weight * contextWeight);
  for (const place of targets) sequence.weights[place - 1] = weight;
  return sequence;
}
