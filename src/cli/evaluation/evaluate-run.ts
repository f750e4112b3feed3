// Scores a run folder: ours, just played, or one that is there. One episode in memory at a time.

import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ConfigurationError } from "../../core/index.ts";
import type { JsonObject } from "../../python-semantics/json/value.ts";
import { openRunFolder } from "../../store/index.ts";
import type { CliContext } from "../cli-context.ts";
import { quoted, writtenFiles } from "../rollout-display.ts";
import { coloursFor, formatCount } from "../display/terminal-text.ts";
import { loadEnvironment } from "../../api/load-environment.ts";
import { taskFactsOf } from "../../api/task-facts.ts";
import type { EvalSettings } from "../../api/eval-settings.ts";
import { checkJudge, judgeParts } from "./choose-judge.ts";
import { type EpisodeScore, scoreEpisode } from "../../graders/index.ts";
import { evaluationOf } from "../../graders/index.ts";
import { agreementView, evaluationView } from "./evaluation-view.ts";
import { createFaultGrader } from "../../graders/index.ts";
import { agreementOf, readLabels } from "../../graders/index.ts";
import { tauResult, tauResultsText } from "../../graders/index.ts";

export type EvaluatedRun = {
  readonly asked: EvalSettings;
  readonly settings: {
    readonly env: string;
    readonly data: string | null;
    readonly split: string | null;
    readonly seed: number;
  };
  readonly context: CliContext;
  /** Just played: its results are written into its folder. Folders of others are read only. */
  readonly isOurs: boolean;
};

/** Refuses what could not be evaluated afterwards, before hours are spent on playing. */
export async function checkEvaluation(asked: EvalSettings, context: CliContext): Promise<void> {
  await checkJudge(asked, context);
  if (asked.labels !== null) await readLabels(resolve(context.cwd, asked.labels), asked.labels);
}

export async function evaluateRun(folder: string, { asked, settings, context, isOurs }: EvaluatedRun): Promise<void> {
  const { cwd, stdout, env, program } = context;
  const place = resolve(cwd, folder);
  const { source: environment, defaultSplit } = await loadEnvironment(settings.env, { data: settings.data, cwd });
  const data = settings.data === null ? null : resolve(cwd, settings.data);
  const labels = asked.labels === null ? null : await readLabels(resolve(cwd, asked.labels), asked.labels);
  const gradeFault = createFaultGrader({
    environment,
    factsOf: taskFactsOf(environment, data),
    ...judgeParts(asked, context),
  });
  const scores: EpisodeScore[] = [];
  const results: JsonObject[] = [];
  const reader = openRunFolder(place, {
    onTornLine: ({ bytes }) =>
      context.stderr.write(
        `Note: the last line of the run was cut off (${formatCount(bytes)} bytes) and is left out.\n`,
      ),
  });
  for await (const episode of reader.episodes()) {
    scores.push(await scoreEpisode(episode, gradeFault));
    if (asked.format === "tau-bench") results.push(tauResult(episode, environment.open(episode.task).guidelines));
  }
  scores.sort((a, b) => a.taskIndex - b.taskIndex || a.trial - b.trial);
  const evaluation = evaluationOf(scores, asked.passK === null ? {} : { ks: asked.passK });
  const title = `${environment.name} (${settings.split ?? defaultSplit})`;
  const colours = coloursFor(stdout, env);
  const lines = ["", colours.bold(title), ...evaluationView(evaluation, colours)];
  for (const [name, list] of labels ?? []) lines.push("", ...agreementView(name, agreementOf(list, scores)));
  if (isOurs) {
    const text =
      asked.format === "tau-bench" ? tauResultsText(sortResults(results)) : summaryText(title, evaluation, scores);
    await writeFile(join(place, "results.json"), text);
    lines.push(
      "",
      `  ${colours.dim("files")}  ${folder}/ results.json, ${writtenFiles(place)}`,
      `  ${colours.dim("next")}   ${program} inspect ${quoted(folder)} --outcome failing`,
    );
  }
  stdout.write(`${lines.join("\n")}\n\n`);
}

/** In the order of upstream's runner: trial by trial. */
function sortResults(results: readonly JsonObject[]): JsonObject[] {
  const number = (result: JsonObject, key: string): number => Number(result.get(key));
  return results.toSorted(
    (a, b) => number(a, "trial") - number(b, "trial") || number(a, "task_id") - number(b, "task_id"),
  );
}

/** results.json of format "summary". */
export function summaryText(title: string, evaluation: object, scores: readonly EpisodeScore[]): string {
  return `${JSON.stringify({ format: 1, title, ...evaluation, scores }, null, 2)}\n`;
}

/** Refuses a format that nothing can be written in. */
export function requireNoFormat(asked: EvalSettings, source: string): void {
  if (asked.format === "summary") return;
  throw new ConfigurationError(
    `Cannot write ${source} in format "${asked.format}": what --from names is read and left as it is; leave --format out.`,
  );
}
