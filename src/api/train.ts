// train(): a small model learns from episodes on this machine. Environment, user, strategy,
// renderer and loop are those of a rollout; the engine and the trainer hold the same weights.

import { existsSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { availableParallelism } from "node:os";
import { basename, join, resolve } from "node:path";
import { makeFolder } from "../system/make-folder.ts";
import { dumpJson, fromPlain, type JsonObject, toPlain } from "../python-semantics/json/index.ts";
import { subscribeToAbort } from "../lib/deadline.ts";
import { ConfigurationError, type Grading, lookIntoEnvironment, type Taskset } from "../core/index.ts";
import {
  createLiveOrder,
  createTaskOrder,
  firstState,
  type HeldOutTasks,
  type PolicyParts,
  readFields,
  replaceFile,
  type Sabotage,
  type StepMetrics,
  type TrainingEvent,
  type TaskTraits,
  type TrainingResult,
  runTraining,
} from "../learner/index.ts";
import { shippedCheckpoint, shippedCheckpoints } from "../learner/model/index.ts";
import { episodeRunner, groupRanking } from "../rollout/index.ts";
import { createLearner } from "./choose-learner.ts";
import { chooseModel } from "./choose-model.ts";
import { withShippedModel } from "./model-path.ts";
import { openTrainingTeacher, shownSettings } from "./train-teacher.ts";
import { isRealModel, loadEmbedded, loadTorch } from "./train-model.ts";
import { chooseTasks, holdOut, traitsIn } from "./train-tasks.ts";
import { samplingOf } from "./choose-policy.ts";
import { chooseGrading } from "./choose-groups.ts";
import { chooseStrategy, chooseUser } from "./choose-user.ts";
import { makeOwnModel } from "./from-expert.ts";
import { checkSplit, closeRemote, loadEnvironment } from "./load-environment.ts";
import { type CallOptions, readOptions, type RolloutSettingOptions } from "./options.ts";
import { packageVersions, type Surroundings } from "./surroundings.ts";
import { Disk, storeFault, type TrainFacts, trainManifest } from "../store/index.ts";
import { failedStartMs, Opened } from "../lib/opened.ts";
import { tellDisk } from "./open-run.ts";
import { type FlagValues, resolveSettings, settingsJson, settingsRecord, addressesOf } from "./resolve-settings.ts";
import { type RolloutSettings, rolloutSettings, readTaskList } from "./rollout-settings.ts";
import { milliseconds, keyOf, readFlag, readFlags } from "../parts/setting.ts";
import { type TrainSettings, trainSettings } from "./train-settings.ts";
import type { CurvePoint } from "../telemetry/index.ts";
import { newFolder } from "./rollout.ts";
import { accessVariables, redactorFor } from "./secrets.ts";
import { checkCurves, openCurves } from "./watch-run.ts";

/**
 * Options of {@link train}: the settings of the command `train` by their flags' names in camelCase, and those of the rollouts
 * that it makes.
 *
 * @example
 * { env: "bookshop", minutes: 2, out: "runs/first-training" }
 */
export type TrainOptions = Omit<RolloutSettingOptions, keyof TrainSettings> &
  Partial<TrainSettings> &
  CallOptions & {
    /** YAML file with rollout settings, named like the flags without the dashes. @default none */
    readonly config?: string;
    /** Receives events synchronously; must be fast and must not throw. @default none */
    readonly onEvent?: (event: TrainingEvent) => void;
  };

/** The result of a training. */
export type TrainResult = TrainingResult & {
  /**
   * The path for commands: relative to `cwd`, or as it was given. The folder holds train.json,
   * metrics.csv, groups.jsonl, pass-rate.svg and checkpoints/.
   */
  readonly folder: string;
};

/** The public function of this name: `functions.ts`. */
export async function train(options: TrainOptions = {}): Promise<TrainResult> {
  return trainFrom(await readTraining(options), options);
}

const never = new AbortController().signal;

/**
 * Same as {@link train}, but takes settings. For experiments: `sabotage` breaks a part to show that
 * the checks detect it; default "none". `makeRunner` runs the episodes of the same parts in another
 * way, such as with an outside program; default: the built-in loop.
 */
export async function trainFrom(given: TrainingSettings, controls: TrainingControls): Promise<TrainResult> {
  const opened = new Opened();
  try {
    const result = await trainWith(given, controls, opened);
    await opened.close();
    return result;
  } catch (error) {
    await opened.abandon(failedStartMs);
    throw error;
  }
}

type TrainingControls = Pick<TrainOptions, "signal" | "drain" | "onEvent"> & {
  readonly sabotage?: Sabotage;
  readonly makeRunner?: typeof episodeRunner;
};

/** `opened` receives the resources that the training opens. */
async function trainWith(
  given: TrainingSettings,
  {
    signal = never,
    drain = never,
    onEvent = () => undefined,
    sabotage = "none",
    makeRunner = episodeRunner,
  }: TrainingControls,
  opened: Opened,
): Promise<TrainResult> {
  const { settings, surroundings, folder } = given;
  const place = resolve(surroundings.cwd, folder);
  const begun = performance.now();
  const stopping = AbortSignal.any([signal, drain]);
  const prepared = await prepareTraining(given, { signal: stopping, onEvent, opened });
  if (prepared === null) {
    const end = { type: "interrupted", reason: "it was interrupted while the expert was cloned" } as const;
    const nothing = { steps: 0, checkpoint: "", comparison: null, greedy: null, verdict: null, alarms: [] };
    return { ...nothing, end, elapsedMs: performance.now() - begun, folder };
  }
  const { environment, split, modelFolder, heldOut, base, model } = prepared;
  const { saved } = model;
  const notice = (message: string): void => onEvent({ type: "notice", message });
  const disk = new Disk(place, { waitMs: milliseconds(base.diskWait) });
  tellDisk(disk, place, notice);
  // A stopped training does not wait for its disk.
  opened.add(subscribeToAbort(signal, () => disk.giveUp()));
  const refuse = (error: unknown): never => {
    throw storeFault("begin the training", place, error);
  };
  await makeFolder(place).catch(refuse);
  // Every running episode listens to these signals, and all episodes run at once.
  setMaxListeners(0, signal, drain);
  const state = saved?.state ?? firstState;
  const trained = await model.open(prepared.endTokenId);
  const { engine, trainer, reference, publish, cloner, keepBest } = trained;
  const { user, strategy, renderer } = prepared;
  const runnerOf = (grading: Grading | undefined, sampling = samplingOf(base)) =>
    makeRunner(
      { environment, user, engine, renderer, strategy, grading },
      {
        sampling,
        // Every turn has a seed of its own, so that a run can be repeated, and a resumed run
        // continues identically.
        seedTurns: true,
        limits: {
          maxTurns: base.maxTurns,
          maxSampledTokens: base.maxSampledTokens,
          maxContextTokens: model.contextLength,
        },
      },
    );
  const { grading } = prepared;
  const runEpisode = runnerOf(grading ?? undefined);
  // Evaluations use only the environment's grade where it has one, so they pay no judge.
  const measured = grading === null || grading.environmentWeight === null ? (grading ?? undefined) : undefined;
  const evaluate = runnerOf(measured);
  const runGreedily = runnerOf(measured, { ...samplingOf(base), temperature: 0 });
  const rank = grading === null ? null : groupRanking(grading);
  const taskset = prepared.trainTasks;
  const teacher = await openTrainingTeacher(given, modelFolder, { signal: stopping, notice, opened });
  const { order } = prepared;
  const parts: PolicyParts = { trainer, runEpisode, rank, publish, reference, taskset, order, teacher };
  const agreement = trained.agreement === undefined ? {} : { agreement: trained.agreement };
  const learner = await createLearner(given, parts, { base, modelFolder, state, sabotage, cloner, ...agreement });
  const id = settings.resume === null ? randomUUID() : await idOf(place);
  const sink = await openCurves(base.metrics, {
    folder: place,
    variables: surroundings.env,
    metricsAuthorizationEnv: base.metricsAuthorizationEnv,
    run: { id, name: basename(place), configuration: flagsOf(given) },
    onNotice: notice,
  });
  opened.add(() => sink.close());
  if (settings.resume === null) {
    const facts: TrainFacts = {
      format: 1,
      id,
      versions: packageVersions(),
      kernels: model.kernels,
      threads: model.threads,
      environment: environment.name,
      split,
      model: modelFolder,
      learning: fromPlain(shownSettings(settings)) as JsonObject,
      configuration: settingsJson(base),
    };
    await replaceFile(join(place, "train.json"), `${dumpJson(fromPlain(facts), { indent: 2 })}\n`).catch(refuse);
  }
  const { algorithm, minutes, steps, evalEvery, checkpointEvery } = settings;
  notice(`${environment.name} (${split}), ${basename(modelFolder)}, ${algorithm}; writing to ${folder}`);
  if (model.notice !== null) notice(model.notice);
  if (prepared.strangerTo !== null && saved === null) notice(prepared.strangerTo);
  const result = await runTraining({
    learner,
    save: trained.save,
    ...(keepBest === undefined ? {} : { onBest: keepBest }),
    runEpisode: evaluate,
    runGreedily,
    heldOut,
    saved,
    drain,
    signal,
    onEvent,
    onStep: (row) => sink.write(pointOf(row)),
    minutes,
    steps,
    evalEvery,
    checkpointEvery,
    seed: base.seed,
    folder: place,
    disk,
    begun,
    title: `${environment.name}: ${algorithm}, pass rate at temperature 1`,
    ...(trained.collapse === undefined ? {} : { collapse: trained.collapse }),
    stopsAtCollapse: sabotage === "none",
  });
  return { ...result, folder };
}

/** Measurements of a step, by column name of metrics.csv. */
function pointOf({ step, ...measured }: StepMetrics): CurvePoint {
  const scalars = Object.entries(measured).flatMap(([name, value]) => (value === null ? [] : [[name, value] as const]));
  return { step: step ?? 0, time: Date.now(), scalars };
}

/** The settings by the names of flags. */
function flagsOf({ settings, base }: Pick<TrainingSettings, "settings" | "base">): Readonly<Record<string, unknown>> {
  const own = Object.entries(shownSettings(settings)).map(([name, value]) => [keyOf(name), value] as const);
  return { ...settingsRecord(base), ...Object.fromEntries(own) };
}

/**
 * Distinguishes trainings whose folders have the same name; the folder's name where train.json has
 * no id.
 */
async function idOf(place: string): Promise<string> {
  const { id } = await readFields(join(place, "train.json"));
  return typeof id === "string" ? id : basename(place);
}

export type TrainingSettings = {
  readonly settings: TrainSettings;
  /** Settings of its rollouts. */
  readonly base: RolloutSettings;
  readonly folder: string;
  readonly surroundings: Surroundings;
};

/**
 * Defaults for the rollouts of a training. A small model writes short turns; a turn that does not
 * end by itself is truncated soon.
 */
export const rolloutDefaults: FlagValues = { maxNewTokens: 96, maxTurns: 20 };

/** Minutes below which the defaults are those of {@link shortTraining}. */
const shortMinutes = 5;

/** Settings that show progress soonest: steps of half the size, without a KL penalty. */
const shortTraining = { groups: 8, warmUp: 2, kl: 0, finalTasks: 48 };

/**
 * One habit to unlearn: at first, shipped and delivered orders are cancelled like all others. The
 * episodes are short.
 */
const shortBookshop = { cases: "cancel/plain,cancel/shipped,cancel/delivered" };

/**
 * Defaults for a real model: few groups per step, because each costs a minute on two cores; the
 * learning rate with which rank 16 learnt fastest; a checkpoint at every step, which holds only the
 * adapter.
 */
const realTraining = {
  minutes: 40,
  groups: 4,
  lr: 1e-4,
  warmUp: 1,
  kl: 0,
  evalEvery: 5,
  evalTasks: 16,
  checkpointEvery: 1,
};

/** Options that may be given again to a resumed training. */
const changeable: ReadonlySet<string> = new Set([
  ...["resume", "steps", "minutes", "metrics", "quiet", "python", "install", "teacherUrl", "teacherApiKeyEnv"],
  ...["cwd", "variables", "signal", "drain", "onEvent"],
]);

/**
 * Converts options to settings. Throws a `ConfigurationError` that names the flag, or file, line
 * and column.
 */
export async function readTraining({ resume, ...options }: TrainOptions): Promise<TrainingSettings> {
  const folder = readFlag(trainSettings.resume, resume);
  if (folder !== null) return readTrainingToResume(folder, options);
  const { settings: given, surroundings } = await readOptions(options, rolloutDefaults);
  const isReal = await isRealModel(given, surroundings.cwd);
  const asked = readFlags(trainSettings, isReal ? { ...realTraining, ...options } : options);
  const isShort =
    !isReal &&
    asked.minutes < shortMinutes &&
    asked.steps === null &&
    asked.algorithm === "grpo" &&
    asked.fromExpert === null;
  const isShown = isShort && given.env === "bookshop" && (given.model === null || given.model === "bookshop-nano");
  const demonstration = { ...shortTraining, ...(isShown ? shortBookshop : {}) };
  const settings = isShort ? readFlags(trainSettings, { ...demonstration, ...options }) : asked;
  // The small model makes several steps in the time in which the large one makes one.
  const base = isShown ? { ...given, model: "bookshop-nano" } : given;
  checkCurves(base);
  const own = (["size", "cloneTokens"] as const).find((name) => options[name] !== undefined);
  if (settings.fromExpert === null && own !== undefined) {
    throw new ConfigurationError(
      `Cannot use --${keyOf(own)} without --from-expert: it configures the model that is made from an expert; remove it.`,
    );
  }
  if (settings.fromExpert !== null && (base.model !== null || settings.algorithm === "sft")) {
    const other = base.model === null ? "--algorithm sft" : "--model";
    throw new ConfigurationError(
      `Cannot use --from-expert with ${other}: it makes its own model and then learns from rewards; remove one of them.`,
    );
  }
  const out = base.out ?? newFolder(`${base.env}-train`, surroundings.cwd);
  if (existsSync(resolve(surroundings.cwd, out, "train.json"))) {
    throw new ConfigurationError(
      `Cannot train in "${out}": it holds a training run; continue it with --resume ${out}, or name another --out.`,
    );
  }
  // A short training that evaluated all final tasks would do little else; making a model of its own
  // takes half of the time.
  const minutes = settings.fromExpert === null ? settings.minutes : settings.minutes / 2;
  const affordable = isReal
    ? Math.min(60, Math.max(8, Math.round(minutes * 1.5)))
    : Math.max(21, Math.round(minutes * 52.5));
  const finalTasks = options.finalTasks ?? Math.min(settings.finalTasks, affordable);
  return { settings: { ...settings, finalTasks }, base, folder: out, surroundings };
}

/**
 * The original settings of the run; a few may be given again, and so may parts that only a program
 * has.
 */
async function readTrainingToResume(folder: string, options: TrainOptions): Promise<TrainingSettings> {
  const parts = Object.entries(options).filter(([name, value]) => !changeable.has(name) && typeof value === "object");
  const given = Object.keys(options).find((name) => !changeable.has(name) && !parts.some(([part]) => part === name));
  if (given !== undefined) {
    throw new ConfigurationError(
      `Cannot resume "${folder}" with --${keyOf(given)}: a run continues as it began; only --steps, --minutes and --metrics may change.`,
    );
  }
  const { cwd, variables } = options;
  const call = { ...(cwd === undefined ? {} : { cwd }), ...(variables === undefined ? {} : { variables }) };
  const { surroundings } = await readOptions({ ...Object.fromEntries(parts), ...call });
  const facts = fromPlain(await readFields(resolve(surroundings.cwd, folder, "train.json")));
  const { learning, configuration, threads } = trainManifest.read(facts, "train.json");
  if (learning === null || configuration === null) {
    throw new ConfigurationError(`Cannot resume "${folder}": its train.json does not say how it was trained.`);
  }
  const values = Object.keys(rolloutSettings).map((name) => {
    return [name, toPlain(configuration.get(keyOf(name)) ?? null) ?? undefined];
  });
  const { metrics } = options;
  const again = metrics === undefined ? {} : { metrics };
  const base = resolveSettings({ ...(Object.fromEntries(values) as FlagValues), ...again }, null);
  checkCurves(base);
  const settings = readFlags(trainSettings, {
    groupSize: learning.get("samples"),
    ...(toPlain(learning) as Readonly<Record<string, unknown>>),
    threads,
    ...options,
    resume: folder,
  });
  return { settings, base: { ...base, quiet: options.quiet === true }, folder, surroundings };
}

/**
 * Resolves with `null` when it was stopped while a model was made. Throws a `ConfigurationError`
 * for settings that the caller can correct.
 */
async function prepareTraining(
  { settings, base: given, folder, surroundings }: TrainingSettings,
  {
    signal,
    onEvent,
    opened,
  }: Required<Pick<TrainOptions, "onEvent">> & { readonly signal: AbortSignal; readonly opened: Opened },
) {
  const { fromExpert } = settings;
  const isMade = fromExpert !== null && settings.resume === null;
  const isReal = await isRealModel(given, surroundings.cwd);
  const base = isReal
    ? { ...given, engine: "sglang" as const }
    : withShippedModel({ ...given, engine: "embedded", ...(isMade ? { model: join(folder, "model") } : {}) });
  const { cwd } = surroundings;
  const { source: environment, defaultSplit } = await loadEnvironment(base.env, {
    settings: base,
    split: base.split,
    ...surroundings,
  });
  if (surroundings.parts?.env === undefined) opened.add(() => closeRemote(environment));
  const split = checkSplit(environment, base.split ?? defaultSplit);
  const evalSplit = checkSplit(
    environment,
    settings.evalSplit ?? ["validation", "test"].find((one) => environment.splits.includes(one)) ?? split,
    "--eval-split",
  );
  const modelFolder = base.gguf ?? base.model ?? "";
  const [user, strategy] = await Promise.all([
    chooseUser(base, environment, surroundings),
    chooseStrategy(base, environment, surroundings),
  ]);
  const { finalFrom, finalTasks, evalTasks } = settings;
  const trainTasks = environment.taskset(split);
  const taskset = environment.taskset(evalSplit);
  const traitsOf = (of: Taskset, index: number): TaskTraits =>
    traitsIn(lookIntoEnvironment(environment, of.task(index), ({ info }) => info) ?? new Map());
  const chosen = (of: Taskset, list: readonly number[]): readonly number[] =>
    chooseTasks(list, (index) => traitsOf(of, index), settings.cases);
  const indexes = chosen(trainTasks, readTaskList(base.tasks ?? "all", trainTasks));
  const [held, trained] =
    evalSplit === split
      ? holdOut(indexes, finalFrom + finalTasks)
      : [chosen(taskset, [...Array(taskset.size).keys()]), indexes];
  if (isMade) {
    const { size, cloneTokens: tokens, minutes, minReward, threads } = settings;
    const isWhole = await makeOwnModel({
      fromExpert,
      size,
      tokens,
      minutes,
      minReward,
      environment,
      user,
      strategy,
      signal,
      cwd,
      seed: base.seed,
      maxTurns: base.maxTurns,
      folder: resolve(cwd, folder),
      threads: threads ?? Math.min(8, availableParallelism()),
      tasks: { count: trained.length, at: (place) => trainTasks.task(trained[place]!) },
      notice: (message) => onEvent({ type: "notice", message }),
    });
    if (!isWhole) return null;
  }
  const placed = { settings, base, place: resolve(cwd, folder), surroundings, opened };
  const notice = (message: string): void => onEvent({ type: "notice", message });
  const model = isReal ? await loadTorch(placed, { signal, notice }) : await loadEmbedded(placed);
  const { tokenizer, renderer } = await chooseModel({ ...base, gguf: null, model: model.rendererFolder }, cwd);
  const redact = redactorFor(surroundings.env, { variables: accessVariables(base), urls: addressesOf(base) });
  const graded = { ...base, groupSize: settings.groupSize };
  const grading = await chooseGrading(graded, environment, { ...surroundings, redact });
  if (model.vocabularySize !== null && tokenizer.vocabularySize > model.vocabularySize) {
    throw new ConfigurationError(
      `Cannot train "${modelFolder}": its tokenizer has ${tokenizer.vocabularySize} tokens, but its config.json says ` +
        `${model.vocabularySize}; use the files of one model.`,
    );
  }
  const least = lookIntoEnvironment(environment, trainTasks.task(trained[0] ?? 0), ({ guidelines, tools }) => {
    const opening = strategy.open({ guidelines, tools, firstUtterance: "", seed: 0 });
    return renderer.renderPrompt(opening.messages, opening.tools).tokens.length;
  });
  const { contextLength } = model;
  if (least !== null && least >= contextLength) {
    throw new ConfigurationError(
      `Cannot train "${modelFolder}" on "${environment.name}": a prompt has ${least} tokens before anything is said, and the model's ` +
        `context has ${contextLength}, so no episode would have a turn; give a --model with a longer context.`,
    );
  }
  if (finalFrom > Math.max(0, held.length - 2)) {
    throw new ConfigurationError(
      `Cannot compare on held-out tasks from ${finalFrom}: there are ${held.length}, expected at least two; lower --final-from.`,
    );
  }
  const final = held.slice(finalFrom, finalFrom + finalTasks);
  const heldOut: HeldOutTasks = { taskset, final, periodic: final.slice(0, evalTasks), traitsOf };
  const createOrder = settings.order === "live" ? createLiveOrder : createTaskOrder;
  const order = createOrder({ indexes: trained, traitsOf: (index) => traitsOf(trainTasks, index), seed: base.seed });
  const endTokenId = renderer.stopTokenIds[0] ?? 0;
  const isShipped = shippedCheckpoints.some((name) => shippedCheckpoint(name) === modelFolder);
  const strangerTo =
    !isShipped || environment.name === "bookshop"
      ? null
      : `The model "${basename(modelFolder)}" has only seen the bookshop, never "${environment.name}", so hardly an episode will earn a reward to learn from; ` +
        "clone an expert first (--from-expert), or name a --model that knows this environment.";
  return { base, environment, split, modelFolder, model, renderer, user, strategy, grading, trainTasks, order, heldOut, endTokenId, strangerTo }; // prettier-ignore
}
