// Builds a checkpoint from nothing, by a recipe: tokenizer, weights, exercises, cloning, examinations, files. It composes
// what others use too: the loop and its samples, the learner's trainer, the embedded engine. No reinforcement learning: that
// is what the result is for.

import { createTrainer, type Trainer } from "../index.ts";
import { initializeWeights, readCheckpoint } from "../model/index.ts";
import { type Course, prepareCourse } from "./course.ts";
import { examinePlay, examineReading, type PlayScore, ReadCounter } from "./examine.ts";
import { learn } from "./learn.ts";
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

type Run = {
  readonly recipe: Recipe;
  readonly options: PretrainOptions;
  readonly course: Course;
  readonly trainer: Trainer;
  readonly rows: LogRow[];
};

/** Resolves with the score of the shipped, rounded weights; `null` when `stopAfterSteps` ended it. */
export async function pretrain(recipe: Recipe, options: PretrainOptions): Promise<PlayScore | null> {
  const { seed, threads, shape } = recipe;
  const course = await prepareCourse(recipe);
  const { config } = course;
  const state = await loadState(options.stateFolder, recipe);
  const weights = state?.weights ?? initializeWeights(config, { seed });
  const trainer = await createTrainer(
    { config, weights },
    { threads, maxTokens: 4 * shape.contextLength, ...(state === null ? {} : { optimizer: state.optimizer }) },
  );
  try {
    const run = { recipe, options, course, trainer, rows: [...(state?.rows ?? [])] };
    const last = await teach(run, state?.progress ?? { phase: "copying", step: 0, tokens: 0, rows: 0 });
    return last === null ? null : await finish(run, last);
  } finally {
    await trainer.close();
  }
}

/** Resolves with where the last phase ended; `null` when it was stopped before. */
async function teach(run: Run, start: Progress): Promise<Progress | null> {
  const { recipe, course, trainer } = run;
  const { stateFolder, stopAfterSteps = Infinity } = run.options;
  let progress = start;
  let counter = new ReadCounter(course.isCopied);
  let lesson = await course.lessonAt(progress);
  for (let steps = 0; ; steps++) {
    if (lesson === null && progress.phase === "cloning") return progress;
    if (lesson === null) {
      progress = { phase: "cloning", step: 0, tokens: 0, rows: 0 };
      lesson = await course.lessonAt(progress);
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
    const [next] = await Promise.all([course.lessonAt(after), learn(trainer, lesson, counter)]);
    const every = after.phase === "cloning" ? recipe.examination.everyTokens : recipe.copying.tokens;
    const isDue = Math.floor(after.tokens / every) > Math.floor(progress.tokens / every);
    if (isDue || after.step % 25 === 0) {
      const examined = isDue ? await examine(run, after) : { reading: null, play: null };
      log(run, { ...after, learningRate: lesson.learningRate, training: counter.score(), ...examined });
      counter = new ReadCounter(course.isCopied);
    }
    progress = after;
    lesson = next;
    if (isDue || steps + 1 >= stopAfterSteps) {
      const optimizer = await trainer.optimizerState();
      await saveState(stateFolder, recipe, { progress, rows: run.rows, weights: trainer.weights(), optimizer });
    }
  }
}

async function examine({ recipe, course, trainer }: Run, { phase }: Progress) {
  const { tokenizer, config, cleanDialogues, isCopied } = course;
  const { seed, threads, examination } = recipe;
  const reading = await examineReading(trainer, cleanDialogues, { isCopied });
  // Whoever can only copy plays nonsense, and plays it to the last turn.
  if (phase === "copying") return { reading, play: null };
  const checkpoint = { config, weights: trainer.weights() };
  return { reading, play: await examinePlay(checkpoint, { tokenizer, tasks: examination.tasks, threads, seed }) };
}

/** Writes the folder, and examines what is in it. */
async function finish(run: Run, last: Progress): Promise<PlayScore> {
  const { recipe, course, trainer } = run;
  const { tokenizer, config, cleanDialogues, isCopied } = course;
  const { seed, threads, examination } = recipe;
  const { folder } = run.options;
  await writeModelFolder(folder, { config, weights: trainer.weights() }, course);
  const shipped = await readCheckpoint(folder);
  const reading = await examineReading(trainer, cleanDialogues, { isCopied, weights: shipped.weights });
  const play = await examinePlay(shipped, { tokenizer, tasks: examination.finalTasks, threads, seed });
  log(run, { ...last, phase: "rounded", learningRate: 0, training: null, reading, play });
  await writeReport(folder, { recipe, config, rows: run.rows });
  return play;
}

function log({ rows, options }: Run, row: LogRow): void {
  rows.push(row);
  options.report(row);
}
