// evaluate(): measures how reliable a policy is. Runs episodes like rollout(), through the same
// code, and then reads the run folder: scores come only from there, so an evaluation can be
// repeated on any run folder, and on a result file of upstream's τ-bench or τ²-bench, whose rewards
// are checked against the environment.

import { existsSync } from "node:fs";
import { realpath, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createChatModel, createModelCaller } from "../chat-models/index.ts";
import { ConfigurationError, type Taskset, useEnvironment, hasSplit } from "../core/index.ts";
import {
  type Agreement,
  agreementOf,
  createFaultGrader,
  type EpisodeScore,
  type Evaluation,
  evaluationOf,
  type JudgeModel,
  type LabelFile,
  onceEach,
  readLabels,
  readTauResults,
  rescore,
  type RescoredRun,
  scoreEpisode,
  tauResult,
  tauResultsText,
} from "../graders/index.ts";
import { createRandom, deriveSeed } from "../lib/random.ts";
import { openForeignFile } from "../foreign/index.ts";
import type { Comparison } from "../statistics/index.ts";
import { openRunFolder, runFacts, runFiles } from "../store/index.ts";
import { type EvalSettings, evalSettings } from "./eval-settings.ts";
import { checkReports, writeReports } from "./evaluation-report.ts";
import { checkChatModel } from "./first-contact.ts";
import { type RolloutSettings, groupSettings, readTaskList } from "./rollout-settings.ts";
import { Opened } from "../lib/opened.ts";
import { readFlag, readFlags } from "../parts/setting.ts";
import { type EnvironmentOptions, isRemote } from "./environments.ts";
import { closeRemote, loadEnvironment } from "./load-environment.ts";
import { type CallOptions, readOptions, type RolloutSettingOptions, type SettingSources } from "./options.ts";
import { readTau2File, scoreForeign, scoreTau2File, titleOf } from "./score-files.ts";
import type { Surroundings } from "./surroundings.ts";
import { type PreparedRollout, prepareRollout } from "./prepare-rollout.ts";
import { rolloutFrom, type RolloutOptions, type RolloutResult } from "./rollout.ts";
import type { RunToResume } from "./run-to-resume.ts";
import { readAccess } from "./secrets.ts";
import { taskFactsOf } from "./fault-policy.ts";
import { readRegular } from "../system/regular-file.ts";

/**
 * Options of {@link evaluate}: the settings of the command `eval` by their flags' names in camelCase. `trials` is the size of a
 * group; settings of groups that drop or add episodes have no effect.
 *
 * @example
 * { env: "bookshop", engine: "expert", trials: 4, tasks: "0-9" }
 */
export type EvaluateOptions = Omit<RolloutSettingOptions, keyof typeof groupSettings | "adapter"> &
  Partial<Omit<EvalSettings, "from" | "adapter">> & {
    /** The value of the setting, or several adapters, which are compared. */
    readonly adapter?: string | readonly string[] | null;
    /** The value of the setting, or a list of such paths. */
    readonly from?: string | readonly string[] | null;
  } & SettingSources &
  CallOptions &
  Pick<RolloutOptions, "onEvent">;

/** The results of one environment and split. */
export type DomainResult = Pick<EvaluateResult, "title" | "evaluation" | "scores">;

/** The result of an evaluation. */
export type EvaluateResult = {
  /** The run folder or file, as given or as generated. */
  readonly source: string;
  /** Title for people, such as "bookshop (train)". */
  readonly title: string;
  readonly evaluation: Evaluation;
  /** One per episode, by task and trial. */
  readonly scores: readonly EpisodeScore[];
  /**
   * The run that this evaluation made; `null` if `from` named the results, or the resumed run was
   * complete.
   */
  readonly rollout: RolloutResult | null;
  /**
   * Runs of a result file with the rewards that the environment gives; `null` if the source is a
   * run folder.
   */
  readonly rescored: readonly RescoredRun[] | null;
  /**
   * One result for each environment and split, with episodes combined, if `from` named several
   * results; empty otherwise.
   */
  readonly domains: readonly DomainResult[];
  /** One result for each source, if `from` named several; empty otherwise. */
  readonly parts: readonly EvaluateResult[];
  /** Agreement of the attribution of failures with each list of `labels`. */
  readonly agreement: ReadonlyMap<string, readonly Agreement[]>;
  /** Results of several adapters in order; the other fields are those of the first. @default one adapter */
  readonly adapters?: readonly { readonly adapter: string; readonly result: EvaluateResult }[];
  /** Comparison of the adapters with the first; absent if the evaluation was interrupted. @default one adapter */
  readonly comparison?: Comparison;
};

/** The public function of this name: `functions.ts`. */
export async function evaluate(options: EvaluateOptions = {}): Promise<EvaluateResult> {
  const names = readFlag(evalSettings.adapter, options.adapter) ?? [];
  if (names.length > 1) {
    const { evaluateAdapters } = await import("./evaluate-adapters.ts");
    return evaluateAdapters(names, options, (run) => evaluate({ ...options, ...run }));
  }
  const plan = await readEvaluation(options);
  checkReports(plan.own.report ?? [], plan.surroundings.cwd);
  const result = await evaluatePlanned(plan, options);
  await writeReports(plan.own.report ?? [], result, plan.surroundings.cwd);
  return result;
}

async function evaluatePlanned(plan: EvaluationPlan, options: EvaluateOptions): Promise<EvaluateResult> {
  const opened = new Opened();
  try {
    return await evaluateWith(await prepareScoring(plan, options, opened), plan, options);
  } finally {
    await opened.close();
  }
}

async function evaluateWith(scoring: Scoring, plan: EvaluationPlan, options: EvaluateOptions): Promise<EvaluateResult> {
  const { own, given, surroundings, resume } = plan;
  if (own.from !== null) return scoreAll(own.from, plan, scoring, options);
  const settings = await orderTasks(given, own, surroundings);
  const largest = Math.max(0, ...(own.passK ?? []));
  if (largest > settings.groupSize) {
    throw new ConfigurationError(
      `Cannot compute pass^${largest} from ${settings.groupSize} trials: pass --trials ${largest}, or a smaller --pass-k.`,
    );
  }
  const rollout =
    resume?.isComplete === true
      ? null
      : await rolloutFrom(settings, surroundings, { ...options, resume, isEvaluation: true });
  const folder = rollout?.folder ?? resume?.folder ?? "";
  const { result, text } = await scoreFolder(folder, { ...settings, options: settings }, scoring);
  await writeFile(join(resolve(surroundings.cwd, folder), "results.json"), text);
  return { ...result, rollout };
}

/** The public function of this name: `functions.ts`. */
export async function planEvaluation(options: EvaluateOptions = {}): Promise<PreparedRollout> {
  const { own, given, surroundings, resume } = await readEvaluation(options);
  const settings = await orderTasks(given, own, surroundings);
  return prepareRollout(settings, surroundings, { resumes: resume !== null, groups: "evaluated" });
}

type EvaluationPlan = {
  readonly own: EvalSettings;
  readonly given: RolloutSettings;
  readonly surroundings: Surroundings;
  readonly resume: RunToResume | null;
};

/**
 * An evaluation counts every episode of every task; training settings of a configuration file have
 * no effect on it.
 */
const noGroups = Object.fromEntries(
  Object.entries(groupSettings).map(([name, { default: value }]) => [name, value]),
) as Pick<RolloutSettings, keyof typeof groupSettings>;

async function readEvaluation(options: EvaluateOptions): Promise<EvaluationPlan> {
  const own = readFlags(evalSettings, options);
  if (own.from !== null && own.from.length > 1 && own.labels !== null) {
    throw new ConfigurationError(
      "Cannot use --labels with several results: labels name tasks by number, and the numbers would collide; name one result with --from.",
    );
  }
  if (own.from !== null && own.format !== "summary") {
    throw new ConfigurationError(
      `Cannot write "${own.from.join('", "')}" in format "${own.format}": what --from names is only read; remove --format.`,
    );
  }
  const { adapter: _, ...others } = options;
  const [adapter] = own.adapter ?? [];
  const { settings, surroundings, resume } = await readOptions(adapter === undefined ? others : { ...others, adapter });
  if (own.taskIds !== null && options.tasks !== undefined) {
    throw new ConfigurationError("Cannot use --tasks with --task-ids: both choose tasks; remove one of them.");
  }
  if (options.ranking !== undefined && options.ranking !== "off") {
    throw new ConfigurationError(
      "Cannot evaluate by a ranking: it compares episodes of one group, and says nothing across groups; remove --ranking, or pass --rubric.",
    );
  }
  const given = { ...settings, ...noGroups, groupSize: own.trials ?? settings.groupSize };
  return { own, given, surroundings, resume };
}

/** The settings with the tasks in the order in which they run: by index or id, shuffled by the seed of the run. */
async function orderTasks(
  settings: RolloutSettings,
  { taskIds, shuffle }: EvalSettings,
  surroundings: Surroundings,
): Promise<RolloutSettings> {
  if (taskIds === null && !shuffle) return settings;
  const { source, defaultSplit, defaultTasks } = await loadEnvironment(settings.env, {
    settings,
    split: settings.split,
    ...surroundings,
  });
  try {
    const split = settings.split ?? defaultSplit;
    // An unknown split is refused where every rollout checks it.
    if (!hasSplit(source, split)) return settings;
    const taskset = source.taskset(split);
    const indexes =
      taskIds === null
        ? readTaskList(settings.tasks ?? defaultTasks, taskset)
        : [...new Set(taskIds.map((id) => taskIndex(id, taskset)))];
    const ordered = shuffle ? createRandom(deriveSeed(settings.seed, "task order")).shuffle(indexes) : indexes;
    return { ...settings, tasks: ordered.join(",") };
  } finally {
    if (surroundings.parts?.env === undefined) await closeRemote(source);
  }
}

function taskIndex(id: string, taskset: Taskset): number {
  const { environment, split, size } = taskset;
  // Ids end in the index; comparing the ids of thousands of tasks would create all of them.
  const index = Number(/^\d+$/.test(id) ? id : (/(?<!\d)(\d+)$/.exec(id)?.[1] ?? NaN));
  if (Number.isInteger(index) && index < size && (/^\d+$/.test(id) || taskset.task(index).id === id)) return index;
  throw new ConfigurationError(
    `Cannot find task "${id}" in ${environment} (${split}): it has tasks 0 to ${size - 1}, and ids like "${taskset.task(0).id}"; correct --task-ids.`,
  );
}

type Scoring = Pick<EvalSettings, "passK" | "format"> & {
  readonly surroundings: Surroundings;
  readonly labels: LabelFile;
  readonly judge: JudgeModel | null;
  readonly signal?: AbortSignal;
  readonly notice: (message: string) => void;
  /** Receives the environments that are opened. */
  readonly opened: Opened;
};

/** Refuses settings that cannot be scored, before hours are spent on episodes. */
async function prepareScoring(
  { own, given, surroundings }: EvaluationPlan,
  { signal, drain, onEvent }: EvaluateOptions,
  opened: Opened,
): Promise<Scoring> {
  const { passK, format, labels: file } = own;
  const stop = AbortSignal.any([signal, drain].filter((one) => one !== undefined));
  const judge = await chooseJudge(given, surroundings, stop);
  const labels = file === null ? new Map() : await readLabels(resolve(surroundings.cwd, file), file);
  const notice = (message: string): void => onEvent?.({ type: "notice", message });
  return { passK, format, surroundings, labels, judge, notice, opened, ...(signal === undefined ? {} : { signal }) };
}

/**
 * Returns `null` if only rules attribute failures. Rejects with a `ConfigurationError` for settings
 * that cannot work and a server that cannot be reached.
 */
async function chooseJudge(
  settings: RolloutSettings,
  { env: variables, parts }: Surroundings,
  signal: AbortSignal,
): Promise<JudgeModel | null> {
  const { judgeModel: model, judgeUrl: url, judgeApiKeyEnv, judgeAuthorizationEnv } = settings;
  // A judge that the caller gives as a value is used only for grading.
  if (parts?.judgeModel !== undefined) return null;
  if (model === null) {
    if ((url ?? judgeApiKeyEnv ?? judgeAuthorizationEnv) === null) return null;
    throw new ConfigurationError("Cannot create a judge: no model is named; pass --judge-model <name>.");
  }
  const { apiKey, authorization } = readAccess("judge", settings, variables);
  const given = { ...(url === null ? {} : { url }), ...(apiKey === null ? {} : { apiKey }), authorization };
  const chat = createChatModel({ part: "judge", title: "the judge" }, { model, variables, ...given });
  if (url !== null) await checkChatModel({ part: "judge", url, model, apiKey, authorization, variables }, signal);
  const caller = createModelCaller(chat, "judge");
  return {
    complete: (messages, options) =>
      caller.ask(messages, ({ text }) => ({ text }), { signal: options?.signal, meter: () => undefined }),
  };
}

type Source = Pick<RolloutSettings, "env" | "data" | "split"> & { readonly options: Partial<EnvironmentOptions> };

/**
 * The environment of results, and the attribution of their failures. Only the judge's first failure
 * is reported.
 */
async function openSource({ env, data, options, split }: Source, scoring: Scoring) {
  const { surroundings, judge, notice, signal, opened } = scoring;
  const { source: environment, defaultSplit } = await loadEnvironment(env, {
    settings: { ...options, data },
    ...surroundings,
  });
  if (surroundings.parts?.env === undefined) opened.add(() => closeRemote(environment));
  let isReported = false;
  const gradeFault = createFaultGrader({
    environment,
    factsOf: taskFactsOf(environment, data === null ? null : resolve(surroundings.cwd, data)),
    judge,
    onJudgeFault: (reason) => {
      if (!isReported) notice(`Note: the judge did not answer, rules alone decide: ${reason}`);
      isReported = true;
    },
    ...(signal === undefined ? {} : { signal }),
  });
  return { environment, split: split ?? defaultSplit, gradeFault };
}

/**
 * Scores several results: those of each environment combined, and all of them; pass^k is the mean
 * over all tasks, as in upstream.
 */
async function scoreAll(
  names: readonly string[],
  plan: EvaluationPlan,
  scoring: Scoring,
  options: EvaluateOptions,
): Promise<EvaluateResult> {
  const known = new Map<string, string>();
  const parts: EvaluateResult[] = [];
  for (const name of names) {
    const path = resolve(plan.surroundings.cwd, name);
    const real = await realpath(path).catch(() => path);
    if (known.has(real)) {
      throw new ConfigurationError(
        `Cannot score "${known.get(real)}" and "${name}" together: they are the same result, whose trials would count twice; name it once.`,
      );
    }
    known.set(real, name);
    parts.push(await scoreFrom(name, plan, scoring, options));
  }
  const [only] = parts;
  if (only !== undefined && parts.length === 1) return only;
  const titles = [...new Set(parts.map(({ title }) => title))].toSorted();
  const domains = titles.map((title) => {
    const own: EpisodeScore[] = [];
    const seen = new Set<string>();
    for (const part of parts.filter((one) => one.title === title)) {
      const earlier = own.reduce((most, { trial }) => Math.max(most, trial + 1), 0);
      const { scores, repeated } = onceEach(part.scores, seen);
      tellRepeated(
        { source: part.source, repeated, of: part.scores.length, where: "those of an earlier result" },
        scoring,
      );
      own.push(...scores.map((score) => ({ ...score, trial: earlier + score.trial })));
    }
    return { title, scores: own, evaluation: resultOf("", title, own, scoring).evaluation };
  });
  // Tasks of several environments may have the same ids.
  const scores = domains.flatMap(({ title, scores: own }) =>
    own.map((score) => ({ ...score, taskId: `${title} ${score.taskId}` })),
  );
  return { ...resultOf(names.join(", "), "overall", scores, scoring), domains, parts };
}

async function scoreFrom(
  from: string,
  { given, surroundings }: EvaluationPlan,
  scoring: Scoring,
  options: EvaluateOptions,
): Promise<EvaluateResult> {
  const path = resolve(surroundings.cwd, from);
  let isFolder: boolean;
  try {
    isFolder = (await stat(path)).isDirectory();
  } catch (cause) {
    throw new ConfigurationError(`Cannot read "${from}": there is no such file or folder; correct --from.`, { cause });
  }
  const isRun = isFolder && existsSync(join(path, runFiles.manifest));
  const foreign = isRun ? null : await openForeignFile(path, from);
  const tau2 = foreign?.format === "tau2-bench" ? await readTau2File(path, from) : null;
  if (tau2 !== null) {
    const data = given.data === null ? null : resolve(surroundings.cwd, given.data);
    const { repeated } = tau2;
    tellRepeated({ source: from, repeated, of: tau2.simulations.length + repeated, where: "others in it" }, scoring);
    const rescored = await scoreTau2File(tau2, data);
    const scores = rescored.map(({ score }) => score);
    return { ...resultOf(from, `tau2-bench/${tau2.domain}`, scores, scoring), rescored };
  }
  if (!isFolder && options.env !== undefined && (foreign === null || foreign.format === "tau-bench")) {
    return scoreFile(from, { ...given, options: given }, scoring);
  }
  if (foreign !== null) {
    if (foreign.format === "tau-bench") {
      scoring.notice(
        "Note: rewards are those of the file; with --env tau-bench/<domain> and --data <folder> they are confirmed.",
      );
    }
    let repeated = 0;
    const scores = await scoreForeign(foreign, () => void repeated++);
    tellRepeated({ source: from, repeated, of: scores.length + repeated, where: "others in it" }, scoring);
    return resultOf(from, titleOf(foreign), scores, scoring);
  }
  if (!isFolder) {
    throw new ConfigurationError(
      `Cannot score "${from}": it is not a file of slime, verifiers, inspect, ATIF, τ-bench or τ²-bench; correct --from.`,
    );
  }
  // The configuration of the run, unless an option overrides it.
  const { configuration } = runFacts(await openRunFolder(path).manifest());
  const recorded = (name: "env" | "data" | "split"): string | null => {
    if (options[name] !== undefined) return given[name];
    const value = configuration?.get(name);
    return typeof value === "string" ? value : null;
  };
  const env = recorded("env") ?? given.env;
  if (options.env === undefined && isRemote(env)) {
    throw new ConfigurationError(
      `Cannot score "${from}": its environment "${env}" is remote, and an environment that a run folder names is not started; name it with --env.`,
    );
  }
  const source = { env, data: recorded("data"), split: recorded("split"), options: given };
  return (await scoreFolder(from, source, scoring)).result;
}

/** Holds one episode in memory at a time. `text` is the text of results.json. */
async function scoreFolder(
  folder: string,
  source: Source,
  scoring: Scoring,
): Promise<{ readonly result: EvaluateResult; readonly text: string }> {
  const { environment, split, gradeFault } = await openSource(source, scoring);
  const scores: EpisodeScore[] = [];
  const entries: { readonly trial: number; readonly task: number; readonly entry: ReturnType<typeof tauResult> }[] = [];
  const reader = openRunFolder(resolve(scoring.surroundings.cwd, folder), {
    onTornLine: ({ bytes }) => {
      const size = bytes.toLocaleString("en-US");
      scoring.notice(`Note: the last line of the run was cut off (${size} bytes) and is left out.`);
    },
  });
  for await (const episode of reader.episodes()) {
    scores.push(await scoreEpisode(episode, gradeFault));
    if (scoring.format !== "tau-bench") continue;
    const guidelines = await useEnvironment(environment, episode.task, (world) => world.guidelines);
    const entry = tauResult(episode, guidelines);
    entries.push({ trial: episode.sampleIndex, task: episode.task.index, entry });
  }
  scores.sort((a, b) => a.taskIndex - b.taskIndex || a.trial - b.trial);
  const title = `${environment.name} (${split})`;
  const result = resultOf(folder, title, scores, scoring);
  // Upstream's runner writes results trial by trial.
  entries.sort((a, b) => a.trial - b.trial || a.task - b.task);
  const text =
    scoring.format === "tau-bench"
      ? tauResultsText(entries.map(({ entry }) => entry))
      : `${JSON.stringify({ format: 1, title, ...result.evaluation, scores }, null, 2)}\n`;
  return { result, text };
}

async function scoreFile(from: string, source: Source, scoring: Scoring): Promise<EvaluateResult> {
  const all = readTauResults(await readRegular(resolve(scoring.surroundings.cwd, from), "utf8"), from);
  const runs = [...new Map(all.map((run) => [run.recording, run])).values()];
  tellRepeated({ source: from, repeated: all.length - runs.length, of: all.length, where: "others in it" }, scoring);
  const { environment, split, gradeFault } = await openSource(source, scoring);
  const taskset = environment.taskset(split);
  const rescored: RescoredRun[] = [];
  for (const run of runs) {
    if (run.taskIndex >= taskset.size) {
      throw new ConfigurationError(
        `Cannot score task ${run.taskIndex} of "${from}": ${source.env} has ${taskset.size} tasks in split "${taskset.split}"; correct --env or --split.`,
      );
    }
    rescored.push(await rescore(run, { environment, task: taskset.task(run.taskIndex), gradeFault }));
  }
  const scores = rescored.map(({ score }) => score);
  return { ...resultOf(from, `${environment.name} (${taskset.split})`, scores, scoring), rescored };
}

/** `where` describes the recordings that are repeated. */
function tellRepeated(
  {
    source,
    repeated,
    of,
    where,
  }: { readonly source: string; readonly repeated: number; readonly of: number; readonly where: string },
  { notice }: Scoring,
): void {
  if (repeated === 0) return;
  const repeat = repeated === 1 ? "repeats" : "repeat";
  notice(`Note: ${repeated} of ${of} episodes of "${source}" ${repeat} ${where}; each recording counts once.`);
}

function resultOf(
  source: string,
  title: string,
  scores: readonly EpisodeScore[],
  { passK, labels }: Scoring,
): EvaluateResult {
  const evaluation = evaluationOf(scores, passK === null ? {} : { ks: passK });
  const agreement = new Map([...labels].map(([name, list]) => [name, agreementOf(list, scores)]));
  return { source, title, evaluation, scores, agreement, rollout: null, rescored: null, domains: [], parts: [] };
}
