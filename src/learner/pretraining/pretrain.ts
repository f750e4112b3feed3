// Builds a checkpoint from nothing, by a recipe: tokenizer, weights, exercises, cloning, examinations, files. It composes
// what others use too: the loop and its samples, the learner's trainer, the embedded engine. No reinforcement learning: that
// is what the result is for.

import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Tokenizer } from "../../core/index.ts";
import { type ChatTokenizerFiles, createTokenizer } from "../../tokenizers/index.ts";
import { createTrainer, type Trainer } from "../index.ts";
import { initializeWeights, readCheckpoint, type ModelConfig, type OptimizerState } from "../model/index.ts";
import { copyAlphabet, learn, type Progress, type Curriculum, curriculumOf } from "./curriculum.ts";
import { instructionsLength, type Dialogue, expertFeed, trainDialogueTokenizer } from "./dialogues.ts";
import { examinePlay, examineReading, type PlayScore, ReadCounter } from "./evaluate-model.ts";
import type { Recipe } from "./recipe.ts";
import { type LogRow, writeModelFolder, writeReport } from "./model-folder.ts";

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

type Course = {
  readonly files: ChatTokenizerFiles;
  readonly tokenizer: Tokenizer;
  readonly config: ModelConfig;
  readonly lessonAt: Curriculum;
  /** Dialogues of test tasks without mistakes, for examining how the model reads. */
  readonly cleanDialogues: readonly Dialogue[];
  /** Whether a token is one of those that "copy accuracy" counts. */
  readonly isCopied: (token: number) => boolean;
};

async function prepareCourse(recipe: Recipe): Promise<Course> {
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

type SavedState = {
  readonly progress: Progress;
  readonly rows: readonly LogRow[];
  readonly weights: Float32Array;
  readonly optimizer: OptimizerState;
};

type Described = Pick<SavedState, "progress" | "rows"> & { readonly recipe: string; readonly optimizerStep: number };

const file = "state.bin";

/** One file, put in place by a rename: a kill leaves the old state or the new one. */
async function saveState(folder: string, recipe: Recipe, state: SavedState): Promise<void> {
  const { progress, rows, weights, optimizer } = state;
  const described: Described = { recipe: JSON.stringify(recipe), progress, rows, optimizerStep: optimizer.step };
  const header = new TextEncoder().encode(JSON.stringify(described));
  const length = new Uint8Array(Uint32Array.of(header.length).buffer);
  const arrays = [weights, optimizer.means, optimizer.variances].map(bytesOf);
  await mkdir(folder, { recursive: true });
  const path = join(folder, file);
  await writeFile(`${path}.new`, Buffer.concat([length, header, ...arrays]));
  await rename(`${path}.new`, path);
}

/** `null` when there is none of this recipe. */
async function loadState(folder: string, recipe: Recipe): Promise<SavedState | null> {
  let bytes: Buffer;
  try {
    bytes = await readFile(join(folder, file));
  } catch {
    return null;
  }
  const headerEnd = 4 + bytes.readUInt32LE(0);
  const described = JSON.parse(bytes.toString("utf8", 4, headerEnd)) as Described;
  if (described.recipe !== JSON.stringify(recipe)) return null;
  const size = (bytes.length - headerEnd) / 3;
  const array = (place: number): Float32Array => {
    const start = headerEnd + place * size;
    return new Float32Array(new Uint8Array(bytes.subarray(start, start + size)).buffer);
  };
  const optimizer = { step: described.optimizerStep, means: array(1), variances: array(2) };
  return { progress: described.progress, rows: described.rows, weights: array(0), optimizer };
}

function bytesOf(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
