// Builds a checkpoint from nothing, by a recipe: tokenizer, weights, exercises, cloning, evaluations, files. Composed of the
// loop and its samples, the trainer and the embedded engine. Not reinforcement learning: that is what the result is for. The
// state of a run is written at every evaluation, so that a killed one resumes; a state of another recipe is ignored.

import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { deserialize, serialize } from "node:v8";

import type { Tokenizer } from "../../core/index.ts";
import { type ChatTokenizerFiles, createTokenizer } from "../../tokenizers/index.ts";
import { createTrainer, type Trainer } from "../index.ts";
import { initializeWeights, readCheckpoint, type ModelConfig, type OptimizerState } from "../model/index.ts";
import { copyAlphabet, learn, type Progress, type Curriculum, curriculumOf } from "./curriculum.ts";
import { instructionsLength, type Dialogue, expertDialogues, trainDialogueTokenizer } from "./dialogues.ts";
import { evaluateEpisodes, evaluateLikelihood, type EpisodeScores, LikelihoodCounter } from "./evaluate-model.ts";
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
  readonly preparation: Preparation;
  readonly trainer: Trainer;
  readonly rows: LogRow[];
};

/** Resolves with the score of the shipped, rounded weights; `null` when `stopAfterSteps` ended it. */
export async function pretrain(recipe: Recipe, options: PretrainOptions): Promise<EpisodeScores | null> {
  const { seed, threads, shape } = recipe;
  const preparation = await prepareRun(recipe);
  const { config } = preparation;
  const state = await loadState(options.stateFolder, recipe);
  const weights = state?.weights ?? initializeWeights(config, { seed });
  const trainer = await createTrainer(
    { config, weights },
    { threads, maxTokens: 4 * shape.contextLength, ...(state === null ? {} : { optimizer: state.optimizer }) },
  );
  try {
    const run = { recipe, options, preparation, trainer, rows: [...(state?.rows ?? [])] };
    const last = await runPhases(run, state?.progress ?? { phase: "copying", step: 0, tokens: 0, rows: 0 });
    return last === null ? null : await finish(run, last);
  } finally {
    await trainer.close();
  }
}

/** Resolves with where the last phase ended; `null` when it was stopped before. */
async function runPhases(run: Run, start: Progress): Promise<Progress | null> {
  const { recipe, preparation, trainer } = run;
  const { stateFolder, stopAfterSteps = Infinity } = run.options;
  let progress = start;
  let counter = new LikelihoodCounter(preparation.isCopied);
  let step = await preparation.stepAt(progress);
  for (let steps = 0; ; steps++) {
    if (step === null && progress.phase === "cloning") return progress;
    if (step === null) {
      progress = { phase: "cloning", step: 0, tokens: 0, rows: 0 };
      step = await preparation.stepAt(progress);
      continue;
    }
    if (steps >= stopAfterSteps) return null;
    const after: Progress = {
      phase: progress.phase,
      step: progress.step + 1,
      tokens: progress.tokens + step.tokens,
      rows: progress.rows + step.rows.length,
    };
    // The next step is prepared while this one is learnt.
    const [next] = await Promise.all([preparation.stepAt(after), learn(trainer, step, counter)]);
    const every = after.phase === "cloning" ? recipe.evaluation.everyTokens : recipe.copying.tokens;
    const isDue = Math.floor(after.tokens / every) > Math.floor(progress.tokens / every);
    if (isDue || after.step % 25 === 0) {
      const evaluated = isDue ? await evaluate(run, after) : { likelihood: null, episodes: null };
      log(run, { ...after, learningRate: step.learningRate, training: counter.score(), ...evaluated });
      counter = new LikelihoodCounter(preparation.isCopied);
    }
    progress = after;
    step = next;
    if (isDue || steps + 1 >= stopAfterSteps) {
      const optimizer = await trainer.optimizerState();
      await saveState(stateFolder, recipe, { progress, rows: run.rows, weights: trainer.weights(), optimizer });
    }
  }
}

async function evaluate({ recipe, preparation, trainer }: Run, { phase }: Progress) {
  const { tokenizer, config, cleanDialogues, isCopied } = preparation;
  const { seed, threads, evaluation } = recipe;
  const likelihood = await evaluateLikelihood(trainer, cleanDialogues, { isCopied });
  // A model that can only copy says nonsense up to the last turn.
  if (phase === "copying") return { likelihood, episodes: null };
  const checkpoint = { config, weights: trainer.weights() };
  return {
    likelihood,
    episodes: await evaluateEpisodes(checkpoint, { tokenizer, tasks: evaluation.tasks, threads, seed }),
  };
}

/** Writes the folder, and evaluates what is in it. */
async function finish(run: Run, last: Progress): Promise<EpisodeScores> {
  const { recipe, preparation, trainer } = run;
  const { tokenizer, config, cleanDialogues, isCopied } = preparation;
  const { seed, threads, evaluation } = recipe;
  const { folder } = run.options;
  await writeModelFolder(folder, { config, weights: trainer.weights() }, preparation);
  const shipped = await readCheckpoint(folder);
  const likelihood = await evaluateLikelihood(trainer, cleanDialogues, { isCopied, weights: shipped.weights });
  const episodes = await evaluateEpisodes(shipped, { tokenizer, tasks: evaluation.finalTasks, threads, seed });
  log(run, { ...last, phase: "rounded", learningRate: 0, training: null, likelihood, episodes });
  await writeReport(folder, { recipe, config, rows: run.rows });
  return episodes;
}

function log({ rows, options }: Run, row: LogRow): void {
  rows.push(row);
  options.report(row);
}

type Preparation = {
  readonly files: ChatTokenizerFiles;
  readonly tokenizer: Tokenizer;
  readonly config: ModelConfig;
  readonly stepAt: Curriculum;
  /** Dialogues of validation tasks without mistakes, for their likelihood. */
  readonly cleanDialogues: readonly Dialogue[];
  /** Whether a token is one of those that "copy accuracy" counts. */
  readonly isCopied: (token: number) => boolean;
};

async function prepareRun(recipe: Recipe): Promise<Preparation> {
  const { name, shape, vocabularySize, tokenizerDialogues: dialogues, noise, seed } = recipe;
  const { contextLength } = shape;
  const files = await trainDialogueTokenizer({ vocabularySize, dialogues, noise, seed, contextLength });
  const tokenizer = await createTokenizer(name, files);
  const alphabet = copyAlphabet(tokenizer);
  const pairs = new Set(alphabet.pairs);
  const dialoguesAt = expertDialogues(tokenizer, { split: "train", noise, seed });
  return {
    files,
    tokenizer,
    config: { ...shape, vocabularySize: Math.ceil(tokenizer.vocabularySize / 8) * 8 },
    stepAt: curriculumOf(recipe, { alphabet, dialoguesAt, promptLength: instructionsLength(tokenizer) }),
    cleanDialogues: await expertDialogues(tokenizer, { split: "validation", noise: 0, seed })(
      0,
      recipe.evaluation.dialogues,
    ),
    isCopied: (token) => pairs.has(token),
  };
}

type SavedState = {
  readonly progress: Progress;
  readonly rows: readonly LogRow[];
  readonly weights: Float32Array;
  readonly optimizer: OptimizerState;
};

const file = "state.bin";

/** One file, put in place by a rename: a kill leaves the old state or the new one. */
async function saveState(folder: string, recipe: Recipe, state: SavedState): Promise<void> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, file);
  await writeFile(`${path}.new`, serialize({ ...state, recipe: JSON.stringify(recipe) }));
  await rename(`${path}.new`, path);
}

/** `null` when there is none of this recipe. */
async function loadState(folder: string, recipe: Recipe): Promise<SavedState | null> {
  try {
    const state = deserialize(await readFile(join(folder, file))) as SavedState & { readonly recipe: string };
    return state.recipe === JSON.stringify(recipe) ? state : null;
  } catch {
    return null;
  }
}
