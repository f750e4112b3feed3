// `eval --from`: a run folder of ours, or a result file of upstream, whose rewards the environment confirms or does not.

import { readFile, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { ConfigurationError } from "../../core/index.ts";
import type { JsonValue } from "../../python-semantics/json/value.ts";
import { openRunFolder } from "../../store/index.ts";
import type { CliContext } from "../cli-context.ts";
import { exitCodes } from "../cli-context.ts";
import { type Colours, coloursFor, formatCount } from "../display/terminal-text.ts";
import { loadEnvironment } from "../../api/load-environment.ts";
import { taskFactsOf } from "../../api/task-facts.ts";
import type { EvalSettings } from "../../api/eval-settings.ts";
import type { RolloutSettings, SettingName } from "../../api/rollout-settings.ts";
import { judgeParts } from "./choose-judge.ts";
import { passHatK } from "../../graders/index.ts";
import { type EpisodeScore, isUnconfirmed, rescore, type RescoredRun } from "../../graders/index.ts";
import { evaluationOf, type Evaluation } from "../../graders/index.ts";
import { agreementView, evaluationView } from "./evaluation-view.ts";
import { checkEvaluation, evaluateRun, requireNoFormat } from "./evaluate-run.ts";
import { createFaultGrader } from "../../graders/index.ts";
import { agreementOf, readLabels } from "../../graders/index.ts";
import { readTauResults } from "../../graders/index.ts";

type From = {
  readonly asked: EvalSettings;
  readonly given: RolloutSettings;
  /** Settings that were named on the command line. */
  readonly named: ReadonlySet<SettingName>;
  readonly context: CliContext;
};

export async function evaluateFrom(from: string, options: From): Promise<number> {
  const { asked, context } = options;
  requireNoFormat(asked, `"${from}"`);
  await checkEvaluation(asked, context);
  const path = resolve(context.cwd, from);
  let isFolder: boolean;
  try {
    isFolder = (await stat(path)).isDirectory();
  } catch (error) {
    throw new ConfigurationError(`Cannot read "${from}": there is no such file or folder; correct --from.`, {
      cause: error,
    });
  }
  await (isFolder ? evaluateFolder(from, path, options) : evaluateFile(from, path, options));
  return exitCodes.done;
}

/** What the folder says of itself, unless the command line says otherwise. */
async function evaluateFolder(from: string, path: string, { asked, given, named, context }: From): Promise<void> {
  const manifest = await openRunFolder(path).manifest();
  const configuration = manifest.get("configuration");
  const said = (name: "env" | "data" | "split"): string | null => {
    const value = configuration instanceof Map ? textOf(configuration.get(name)) : null;
    return named.has(name) ? given[name] : value;
  };
  const settings = { env: said("env") ?? given.env, data: said("data"), split: said("split"), seed: given.seed };
  await evaluateRun(from, { asked, settings, context, isOurs: false });
}

function textOf(value: JsonValue | undefined): string | null {
  return typeof value === "string" ? value : null;
}

async function evaluateFile(from: string, path: string, { asked, given, named, context }: From): Promise<void> {
  const { cwd, stdout, env } = context;
  if (!named.has("env")) {
    throw new ConfigurationError(
      `Cannot score "${from}": a result file does not say what was played; give --env tau-bench/<domain> and --data <folder>.`,
    );
  }
  const runs = readTauResults(await readFile(path, "utf8"), from);
  const { source: environment, defaultSplit } = await loadEnvironment(given.env, { data: given.data, cwd });
  const taskset = environment.taskset(given.split ?? defaultSplit);
  const data = given.data === null ? null : resolve(cwd, given.data);
  const labels = asked.labels === null ? null : await readLabels(resolve(cwd, asked.labels), asked.labels);
  const gradeFault = createFaultGrader({
    environment,
    factsOf: taskFactsOf(environment, data),
    ...judgeParts(asked, context),
  });
  const rescored: RescoredRun[] = [];
  for (const run of runs) {
    if (run.taskIndex >= taskset.size) {
      throw new ConfigurationError(
        `Cannot score task ${run.taskIndex} of "${from}": ${given.env} has ${taskset.size} tasks in split "${taskset.split}"; correct --env or --split.`,
      );
    }
    rescored.push(await rescore(run, { environment, task: taskset.task(run.taskIndex), gradeFault }));
  }
  const scores = rescored.map(({ score }) => score);
  const evaluation = evaluationOf(scores, asked.passK === null ? {} : { ks: asked.passK });
  const colours = coloursFor(stdout, env);
  const lines = [
    "",
    colours.bold(`${from}: ${environment.name} (${taskset.split})`),
    ...evaluationView(evaluation, colours),
    "",
    ...confirmationView(rescored, colours),
    ...upstreamView(evaluation, scores, colours),
  ];
  for (const [name, list] of labels ?? []) lines.push("", ...agreementView(name, agreementOf(list, scores)));
  stdout.write(`${lines.join("\n")}\n\n`);
}

/** Upstream's runner takes a task's missing trials as failed; told where that makes a difference. */
function upstreamView(evaluation: Evaluation, scores: readonly EpisodeScore[], colours: Colours): string[] {
  const trials = new Set(scores.map(({ trial }) => trial)).size;
  if (evaluation.tasks.every((task) => task.trials === trials)) return [];
  const tallies = evaluation.tasks.map(({ taskId, successes }) => ({ taskId, trials, successes }));
  const rates = Array.from(
    { length: trials },
    (_, at) => `k=${at + 1} ${passHatK(tallies, at + 1)?.toFixed(3) ?? "–"}`,
  );
  return [`  ${colours.dim("pass^k with missing trials counted as failed, as upstream does")}  ${rates.join(", ")}`];
}

/** Whether the environment gives the rewards that were recorded. */
export function confirmationView(rescored: readonly RescoredRun[], colours: Colours): string[] {
  const played = rescored.filter(({ replayedReward }) => replayedReward !== null);
  const unconfirmed = rescored.filter(isUnconfirmed);
  const changed = rescored.reduce((sum, run) => sum + run.changedObservations, 0);
  const calls = rescored.reduce((sum, { score }) => sum + score.toolCalls, 0);
  const lines = [
    `  ${colours.dim("played again")}  ${formatCount(played.length)} of ${formatCount(rescored.length)} runs, ` +
      `${formatCount(changed)} of ${formatCount(calls)} observations of tools are not as recorded`,
    `  ${colours.dim("rewards")}       ${formatCount(played.length - unconfirmed.length)} confirmed, ${formatCount(unconfirmed.length)} not`,
  ];
  for (const { score, recordedReward, replayedReward } of unconfirmed) {
    lines.push(
      `    task ${score.taskIndex}, trial ${score.trial}: recorded ${recordedReward}, the environment gives ${replayedReward}`,
    );
  }
  return lines;
}
