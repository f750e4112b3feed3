// An evaluation for continuous integration: JUnit XML with a test case per episode, and Markdown
// for a pull request. Names of tasks and environments may hold any character, so both formats
// escape them.

import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { type EpisodeScore, type Evaluation, isSuccess } from "../graders/index.ts";

/** Content of a report. */
export type EvaluationToReport = {
  /** Title for people, such as "bookshop (train)". */
  readonly title: string;
  readonly evaluation: Evaluation;
  readonly scores: readonly EpisodeScore[];
};

const reports = { junit: junitReport, markdown: markdownReport } as const;

export type ReportKind = keyof typeof reports;
export type Report = { readonly kind: ReportKind; readonly file: string };

/** Reads "junit:<file>,markdown:<file>"; `null` for any other string. */
export function readReports(list: string): readonly Report[] | null {
  const read = list.split(",").map((one) => {
    const [, kind, file] = /^(junit|markdown):(.+)$/.exec(one.trim()) ?? [];
    return kind === undefined || file === undefined ? null : { kind: kind as ReportKind, file };
  });
  return read.includes(null) ? null : (read as readonly Report[]);
}

/** The text of a report. */
export function evaluationReport(kind: ReportKind, evaluation: EvaluationToReport): string {
  return reports[kind](evaluation);
}

/**
 * Throws a `ConfigurationError` for a report whose folder does not exist, before any episode is
 * run.
 */
export function checkReports(list: readonly Report[], cwd: string): void {
  for (const { file } of list) {
    if (existsSync(dirname(resolve(cwd, file)))) continue;
    throw new ConfigurationError(
      `Cannot write the report "${file}": its folder does not exist; create it, or correct --report.`,
    );
  }
}

/** Writes each report. Rejects with a `ConfigurationError` for a file that cannot be written. */
export async function writeReports(
  list: readonly Report[],
  evaluation: EvaluationToReport,
  cwd: string,
): Promise<void> {
  for (const { kind, file } of list) {
    await writeFile(resolve(cwd, file), evaluationReport(kind, evaluation)).catch((cause: unknown) => {
      throw new ConfigurationError(`Cannot write the report "${file}": ${messageOf(cause)}; correct --report.`, {
        cause,
      });
    });
  }
}

/**
 * The report in the JUnit schema of Jenkins and Ant, which every reader accepts. An episode without
 * a reward counts as an error, not as a failure.
 */
function junitReport({ title, evaluation, scores }: EvaluationToReport): string {
  const failed = scores.filter(({ reward }) => reward !== null && !isSuccess(reward)).length;
  const errors = scores.filter(({ reward }) => reward === null).length;
  const counts = `tests="${scores.length}" failures="${failed}" errors="${errors}"`;
  const time = scores.reduce((sum, score) => sum + secondsOf(score), 0).toFixed(3);
  const properties = evaluation.passRates.flatMap(({ k, passHatK, passAtK }) => [
    ...(passHatK === null ? [] : [`<property name="pass^${k}" value="${passHatK}"/>`]),
    ...(passAtK === null ? [] : [`<property name="pass@${k}" value="${passAtK}"/>`]),
  ]);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites ${counts} time="${time}">`,
    `  <testsuite name="${xml(title)}" ${counts} skipped="0" time="${time}">`,
    ...(properties.length === 0
      ? []
      : ["    <properties>", ...properties.map((line) => `      ${line}`), "    </properties>"]),
    ...scores.map((score) => `    ${junitCase(title, score)}`),
    "  </testsuite>",
    "</testsuites>",
    "",
  ].join("\n");
}

function junitCase(title: string, score: EpisodeScore): string {
  const { taskId, trial, reward, ending, fault } = score;
  const head = `<testcase classname="${xml(title)}" name="${xml(taskId)} trial ${trial}" time="${secondsOf(score).toFixed(3)}"`;
  const reason = fault === null ? "" : `: ${fault.fault}, ${fault.rule}`;
  if (reward === null)
    return `${head}><error type="${xml(ending)}" message="${xml(`not graded: ${ending}${reason}`)}"/></testcase>`;
  if (isSuccess(reward)) return `${head}/>`;
  return `${head}><failure type="${xml(ending)}" message="${xml(`reward ${reward}, ${ending}${reason}`)}"/></testcase>`;
}

function secondsOf({ durations }: EpisodeScore): number {
  return durations === null ? 0 : (durations.policy + durations.user + durations.tools) / 1000;
}

/** XML cannot hold control characters and lone surrogates, not even escaped. */
function xml(text: string): string {
  return (
    Buffer.from(text)
      .toString()
      .replaceAll("&", "&amp;")
      .replaceAll("<", "&lt;")
      .replaceAll(">", "&gt;")
      .replaceAll('"', "&quot;")
      .replaceAll(/[\t\n\r]/g, " ")
      // oxlint-disable-next-line no-control-regex
      .replaceAll(/[\u0000-\u001f\u007f\ufffe\uffff]/g, "\ufffd")
  );
}

/** Maximum number of listed tasks: a comment on a pull request holds 65,536 characters. */
const mostTasks = 100;

function markdownReport({ title, evaluation, scores }: EvaluationToReport): string {
  const { episodes, graded, successes, meanReward, rewardInterval, passRates, tasks, agentCost, userCost } = evaluation;
  const number = (value: number | null): string => (value === null ? "–" : value.toFixed(3));
  const range = (bounds: Evaluation["rewardInterval"]): string =>
    bounds === null ? "" : `${number(bounds.low)} to ${number(bounds.high)}`;
  const failing = tasks.filter((task) => task.successes < task.episodes);
  const endings = new Map<string, Set<string>>();
  for (const { taskId, reward, ending } of scores) {
    if (reward === null || !isSuccess(reward)) endings.set(taskId, (endings.get(taskId) ?? new Set()).add(ending));
  }
  const costs = [["agent", agentCost], ["user", userCost]].flatMap(([who, cost]) => (typeof cost === "number" && cost > 0 ? [`${who} $${cost.toFixed(2)}`] : [])); // prettier-ignore
  const interval = rewardInterval === null ? "" : ` (95 %: ${range(rewardInterval)})`;
  return [
    `### ${markdown(title)}`,
    "",
    `${successes} of ${graded} graded episodes passed${graded < episodes ? `, ${episodes - graded} were not graded` : ""}; ` +
      `mean reward ${number(meanReward)}${interval}${costs.length === 0 ? "" : `; ${costs.join(", ")}`}.`,
    "",
    ...markdownTable(
      "k | pass^k | 95 % | pass@k",
      passRates.map(({ k, passHatK, interval: bounds, passAtK }) => [
        String(k),
        number(passHatK),
        range(bounds),
        number(passAtK),
      ]),
    ),
    "",
    ...(failing.length === 0
      ? ["Every task passed in every trial."]
      : [
          `<details><summary>${failing.length} of ${tasks.length} tasks failed at least once</summary>`,
          "",
          ...markdownTable(
            "task | passed | reward | ended",
            failing
              .slice(0, mostTasks)
              .map((task) => [
                markdown(task.taskId),
                `${task.successes} of ${task.episodes}`,
                number(task.meanReward),
                markdown([...(endings.get(task.taskId) ?? [])].join(", ")),
              ]),
          ),
          ...(failing.length > mostTasks ? ["", `… and ${failing.length - mostTasks} more.`] : []),
          "",
          "</details>",
        ]),
    "",
  ].join("\n");
}

function markdownTable(header: string, rows: readonly (readonly string[])[]): string[] {
  const titles = header.split("|").map((title) => title.trim());
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(titles), line(titles.map(() => "---")), ...rows.map(line)];
}

/** Plain text for Markdown: it adds no markup, mentions no account and ends no table cell. */
function markdown(text: string): string {
  return text
    .replaceAll(/\s+/g, " ")
    .slice(0, 300)
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(/[\\`*_[\]|~#!]/g, (sign) => `\\${sign}`)
    .replaceAll("@", "&#64;");
}
