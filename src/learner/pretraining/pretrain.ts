// Builds a checkpoint from nothing, by a recipe: tokenizer, weights, exercises, cloning,
// evaluations, files. Composed of the loop and its samples, the trainer and the embedded engine.
// Not reinforcement learning, which is what the result is for. The state of a run is written at
// every evaluation, so that a killed one resumes; a state of another recipe is ignored.

import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { deserialize, serialize } from "node:v8";
import { makeFolder } from "../../system/make-folder.ts";

import type { Tokenizer } from "../../core/index.ts";
import { type ChatTokenizerFiles, createTokenizer } from "../../tokenizers/index.ts";
import { createTrainer, type Trainer } from "../index.ts";
import { initializeWeights, readCheckpoint, type ModelConfig, type OptimizerState } from "../model/index.ts";
import { conversationDialogues, type ConversationSource, trainConversationTokenizer } from "./conversations.ts";
import { copyAlphabet, learn, type Progress, type Curriculum, curriculumOf } from "./curriculum.ts";
import { type DialogueSource, expertDialogues, trainDialogueTokenizer, withDrills } from "./dialogues.ts";
import { evaluateEpisodes, evaluateLikelihood, type EpisodeScores, LikelihoodCounter } from "./evaluate-model.ts";
import type { LearningRecipe, Recipe } from "./recipe.ts";
import { type LogRow, writeModelFolder, writeReport } from "./model-folder.ts";

export type PretrainOptions = {
  /** Folder for the checkpoint; created if it is missing. */
  readonly folder: string;
  /** Folder for the state of an unfinished run. */
  readonly stateFolder: string;
  readonly report: (row: LogRow) => void;
  /**
   * Ends the run after this many steps of this call and saves its state; for tests. Default: none.
   */
  readonly stopAfterSteps?: number;
  /** Ends the run after the step in progress and saves its state. Default: none. */
  readonly signal?: AbortSignal;
};

/** A pretraining in progress: its recipe, its state, and how often it is evaluated. */
type Run = {
  readonly recipe: LearningRecipe;
  readonly options: Omit<PretrainOptions, "folder">;
  readonly preparation: Preparation;
  readonly trainer: Trainer;
  readonly rows: LogRow[];
  /** Cloning tokens between two evaluations; the state is saved after each evaluation. */
  readonly everyTokens: number;
  readonly evaluate: (
    progress: Progress,
    trainer: Trainer,
  ) => Promise<Pick<LogRow, "likelihood" | "episodes" | "greedy">>;
};

/** Resolves with the score of the shipped, rounded weights; `null` if it was stopped. */
export async function pretrain(recipe: Recipe, options: PretrainOptions): Promise<EpisodeScores | null> {
  const { vocabularySize, shape, noise, habit, seed, threads, evaluation } = recipe;
  const { contextLength } = shape;
  const dialogues = recipe.tokenizerDialogues;
  const files = await trainDialogueTokenizer({ vocabularySize, dialogues, noise, habit, seed, contextLength });
  const preparation = await prepare(recipe, recipe.name, files, (tokenizer) =>
    withDrills(expertDialogues(tokenizer, { split: "train", noise, habit, seed }), tokenizer, { every: 16, seed }),
  );
  const { tokenizer, isCopied, config } = preparation;
  const clean = await expertDialogues(tokenizer, { split: "validation", noise: 0, habit: 0, seed })(
    0,
    evaluation.dialogues,
  );
  const evaluate: Run["evaluate"] = async ({ phase }, trainer) => {
    const likelihood = await evaluateLikelihood(trainer, clean, { isCopied });
    // A model that can only copy produces nonsense until the last turn.
    if (phase === "copying") return { likelihood, episodes: null, greedy: null };
    const { tasks } = evaluation;
    const checkpoint = { config, weights: trainer.weights() };
    const episodes = await evaluateEpisodes(checkpoint, { tokenizer, tasks, threads, seed });
    return { likelihood, episodes, greedy: null };
  };
  const { everyTokens } = evaluation;
  return learnFromNothing({ recipe, options, preparation, everyTokens, evaluate }, async (run, last) => {
    const { folder } = options;
    await writeModelFolder(folder, { config, weights: run.trainer.weights() }, preparation);
    const shipped = await readCheckpoint(folder);
    const likelihood = await evaluateLikelihood(run.trainer, clean, { isCopied, weights: shipped.weights });
    const tasks = evaluation.finalTasks;
    const episodes = await evaluateEpisodes(shipped, { tokenizer, tasks, threads, seed });
    const greedy = await evaluateEpisodes(shipped, { tokenizer, tasks, threads, seed, temperature: 0 });
    log(run, { ...last, phase: "rounded", learningRate: 0, training: null, likelihood, episodes, greedy });
    await writeReport(folder, { recipe, config, rows: run.rows });
    return episodes;
  });
}

/** The recipe of a model for a world of the author's own, for any number of conversation tokens to clone. */
export type CloningPlan = {
  readonly recipeOf: (tokens: number) => LearningRecipe;
  /**
   * Conversation tokens to clone, or a function that chooses their number from the milliseconds
   * that each takes on this machine.
   */
  readonly tokens: number | ((msPerToken: number) => Promise<number>);
};

/**
 * Makes a model for a world of the author's own, from conversations in it: tokenizer, weights,
 * exercises, cloning. Resolves with false if the signal stopped it; called again with the same
 * options and number of tokens, it continues.
 */
export async function cloneFromNothing(
  { recipeOf, tokens: chosen }: CloningPlan,
  conversations: ConversationSource,
  options: PretrainOptions,
): Promise<boolean> {
  const trial = recipeOf(typeof chosen === "number" ? chosen : trialTokens);
  const { vocabularySize, tokenizerDialogues } = trial;
  const { contextLength } = trial.shape;
  const files = await trainConversationTokenizer(conversations, {
    conversations: tokenizerDialogues,
    vocabularySize,
    contextLength,
  });
  const prepareFor = (recipe: LearningRecipe): Promise<Preparation> =>
    prepare(recipe, "own", files, (tokenizer) => conversationDialogues(conversations, tokenizer, { contextLength }));
  const recipe =
    typeof chosen === "number" ? trial : recipeOf(await chosen(await msPerClonedToken(trial, await prepareFor(trial))));
  const preparation = await prepareFor(recipe);
  const evaluate: Run["evaluate"] = async () => ({ likelihood: null, episodes: null, greedy: null });
  const everyTokens = Math.ceil(recipe.cloning.tokens / 10);
  const made = await learnFromNothing({ recipe, options, preparation, everyTokens, evaluate }, async ({ trainer }) => {
    const { config } = preparation;
    await writeModelFolder(options.folder, { config, weights: trainer.weights() }, preparation);
    return true;
  });
  return made ?? false;
}

/** Any recipe of this many tokens shows the cost of one of them. */
const trialTokens = 1_000_000;

/**
 * Expected milliseconds of the whole cloning, exercises included, divided by its conversation
 * tokens. Measured on two small steps.
 */
async function msPerClonedToken(recipe: LearningRecipe, { config, stepAt }: Preparation): Promise<number> {
  const { cloning, copying, shape, seed, threads } = recipe;
  const weights = initializeWeights(config, { seed });
  const trainer = await createTrainer({ config, weights }, { threads, maxTokens: 4 * shape.contextLength });
  try {
    const step = await stepAt({ phase: "cloning", step: 0, tokens: Math.ceil(cloning.tokens / 2), rows: 0 });
    if (step === null) return 0;
    const rows = step.rows.slice(0, 2 * threads);
    const learnRows = (): Promise<void> => learn(trainer, { ...step, rows }, new LikelihoodCounter(() => false));
    // The first step also compiles the code that the second one runs.
    await learnRows();
    const begun = performance.now();
    await learnRows();
    const ms = performance.now() - begun;
    const sum = (lengths: readonly number[]): number => lengths.reduce((total, length) => total + length, 0);
    const read = sum(rows.map((row) => row.tokens.length));
    const counted = sum(rows.map((row) => row.tokens.length - row.promptLength));
    const withoutPrompt = cloning.promptFrom + copying.tokens / cloning.tokens;
    return (1 - cloning.promptFrom) * (ms / Math.max(1, counted)) + withoutPrompt * (ms / Math.max(1, read));
  } finally {
    await trainer.close();
  }
}

async function learnFromNothing<T>(
  given: Omit<Run, "trainer" | "rows">,
  finish: (run: Run, last: Progress) => Promise<T>,
): Promise<T | null> {
  const { recipe, preparation, options } = given;
  const { config } = preparation;
  const state = await loadState(options.stateFolder, recipe);
  const weights = state?.weights ?? initializeWeights(config, { seed: recipe.seed });
  const trainer = await createTrainer(
    { config, weights },
    {
      threads: recipe.threads,
      maxTokens: 4 * recipe.shape.contextLength,
      ...(state === null ? {} : { optimizer: state.optimizer }),
    },
  );
  try {
    const run = { ...given, trainer, rows: [...(state?.rows ?? [])] };
    const last = await runPhases(run, state?.progress ?? { phase: "copying", step: 0, tokens: 0, rows: 0 });
    return last === null ? null : await finish(run, last);
  } finally {
    await trainer.close();
  }
}

/** Resolves with the progress at the end of the last phase; `null` if it was stopped before. */
async function runPhases(run: Run, start: Progress): Promise<Progress | null> {
  const { recipe, preparation, trainer, everyTokens } = run;
  const { stateFolder, stopAfterSteps = Infinity, signal } = run.options;
  const isStopped = (): boolean => signal?.aborted === true;
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
    if (steps >= stopAfterSteps || isStopped()) return null;
    const after: Progress = {
      phase: progress.phase,
      step: progress.step + 1,
      tokens: progress.tokens + step.tokens,
      rows: progress.rows + step.rows.length,
    };
    // The next step is prepared while this one is learnt.
    const [next] = await Promise.all([preparation.stepAt(after), learn(trainer, step, counter)]);
    const every = after.phase === "cloning" ? everyTokens : recipe.copying.tokens;
    const isDue = Math.floor(after.tokens / every) > Math.floor(progress.tokens / every);
    if (isDue || after.step % 25 === 0) {
      const evaluated = isDue ? await run.evaluate(after, trainer) : { likelihood: null, episodes: null, greedy: null };
      log(run, { ...after, learningRate: step.learningRate, training: counter.score(), ...evaluated });
      counter = new LikelihoodCounter(preparation.isCopied);
    }
    progress = after;
    step = next;
    if (isDue || steps + 1 >= stopAfterSteps || isStopped()) {
      const optimizer = await trainer.optimizerState();
      await saveState(stateFolder, recipe, { progress, rows: run.rows, weights: trainer.weights(), optimizer });
    }
  }
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
  /** True for tokens that "copy accuracy" counts. */
  readonly isCopied: (token: number) => boolean;
};

async function prepare(
  recipe: LearningRecipe,
  name: string,
  files: ChatTokenizerFiles,
  dialoguesOf: (tokenizer: Tokenizer) => DialogueSource,
): Promise<Preparation> {
  const tokenizer = await createTokenizer(name, files);
  const alphabet = copyAlphabet(tokenizer);
  const pairs = new Set(alphabet.pairs);
  return {
    files,
    tokenizer,
    config: { ...recipe.shape, vocabularySize: Math.ceil(tokenizer.vocabularySize / 8) * 8 },
    stepAt: curriculumOf(recipe, { alphabet, dialoguesAt: dialoguesOf(tokenizer) }),
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
async function saveState(folder: string, recipe: LearningRecipe, state: SavedState): Promise<void> {
  await makeFolder(folder);
  const path = join(folder, file);
  await writeFile(`${path}.new`, serialize({ ...state, recipe: JSON.stringify(recipe) }));
  await rename(`${path}.new`, path);
}

/** `null` if the folder has no state of this recipe. */
async function loadState(folder: string, recipe: LearningRecipe): Promise<SavedState | null> {
  try {
    const state = deserialize(await readFile(join(folder, file))) as SavedState & { readonly recipe: string };
    return state.recipe === JSON.stringify(recipe) ? state : null;
  } catch {
    return null;
  }
}
