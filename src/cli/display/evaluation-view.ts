// An evaluation as lines for people: rates first, then tasks, then errors.

import type { EvaluateResult } from "../../api/evaluate.ts";
import {
  type Agreement,
  type Counts,
  type EpisodeScore,
  type Evaluation,
  type Interval,
  isUnconfirmed,
  passHatK,
  type RescoredRun,
} from "../../graders/index.ts";
import { textTable, visibleLine } from "../../lib/text.ts";
import {
  type Colours,
  countsText,
  formatCount,
  labelledRows,
  formatDuration,
  formatNumber,
  tableLines,
} from "./terminal-text.ts";

/** Number of kinds of errors that are shown; results.json has all. */
const shownErrors = 12;

type View = { readonly colours: Colours; readonly columns: number };

/** The evaluation as lines; for a result file also whether the environment confirms its rewards. */
export function evaluationView(result: EvaluateResult, colours: Colours, columns = 80): string[] {
  const view = { colours, columns };
  if (result.parts.length > 0) return domainsView(result, view);
  const { source, title, evaluation, scores, rescored, agreement } = result;
  const lines = [
    "",
    colours.bold(visibleLine(rescored === null ? title : `${source}: ${title}`)),
    ...summaryView(evaluation, view),
  ];
  if (rescored !== null) {
    lines.push("", ...confirmationView(rescored, colours), ...upstreamView(evaluation, scores, colours));
  }
  for (const [name, list] of agreement) lines.push("", ...agreementView(name, list));
  return lines;
}

/** One row for each environment of several results, and one for all. */
function domainsView({ evaluation, scores, domains, parts }: EvaluateResult, view: View): string[] {
  const rows = [...domains, { title: "overall", evaluation, scores }];
  const ks = [...new Set(rows.flatMap((row) => row.evaluation.passRates.map(({ k }) => k)))].toSorted((a, b) => a - b);
  const { colours } = view;
  const table = tableLines(
    `environment | >tasks | >episodes | >graded | >reward${ks.map((k) => ` | >pass^${k}`).join("")}`,
    rows.map(({ title, evaluation: { tasks, episodes, graded, meanReward, passRates } }) => [
      ...[visibleLine(title), formatCount(tasks.length), formatCount(episodes), formatCount(graded), rate(meanReward)],
      ...ks.map((k) => rate(passRates.find((one) => one.k === k)?.passHatK ?? null)),
    ]),
    { ...view, indent: 2 },
  );
  const lines = ["", colours.bold(`${formatCount(parts.length)} results`), ...table];
  for (const row of domains) {
    const [missing] = upstreamView(row.evaluation, row.scores, colours);
    if (missing !== undefined) lines.push(`  ${visibleLine(row.title)}:${missing}`);
  }
  for (const { source, title, rescored } of parts) {
    if (rescored === null || rescored.every(({ replayedReward }) => replayedReward === null)) continue;
    lines.push("", `  ${visibleLine(`${source}: ${title}`)}`, ...confirmationView(rescored, colours));
  }
  return lines;
}

function summaryView(evaluation: Evaluation, view: View): string[] {
  const { colours, columns } = view;
  const { episodes, graded, successes, meanReward, rewardInterval } = evaluation;
  const rows: [string, string][] = [
    ["episodes", `${formatCount(episodes)}, ${formatCount(graded)} graded, ${formatCount(successes)} successes`],
    ["mean reward", `${rate(meanReward)}${interval(rewardInterval)}`],
    ["stop reasons", countsText(evaluation.endings)],
    ["turns", turnsText(evaluation)],
    ["format errors", countsText(evaluation.problems)],
    ["failures by", countsText(evaluation.faults)],
    ["agent cost", costText(evaluation.agentCost)],
    ["user cost", costText(evaluation.userCost)],
    ["durations", durationsText(evaluation.durations)],
  ];
  return [
    ...labelledRows(rows, colours, columns - 2).map((line) => `  ${line}`),
    "",
    ...passTable(evaluation, view),
    "",
    ...taskTable(evaluation, view),
    ...countsTable("tool errors", evaluation.toolErrors, view),
    ...countsTable("reasons for the attribution of failures", evaluation.faultRules, view),
  ];
}

function turnsText({ meanTurns, toolCalls }: Evaluation): string {
  const turns = meanTurns === null ? "not recorded" : `${formatNumber(meanTurns)} an episode`;
  return `${turns}, tool calls ${toolCalls === null ? "not recorded" : formatCount(toolCalls)}`;
}

function costText(cost: number | null): string {
  return cost === null ? "not known" : `$${cost.toFixed(2)}`;
}

function passTable({ passRates }: Evaluation, view: View): string[] {
  return tableLines(
    ">k | >pass^k | 95 % | >pass@k",
    passRates.map(({ k, passHatK: all, passAtK: any, interval: bounds }) => [
      String(k),
      rate(all),
      bounds === null ? "" : `${rate(bounds.low)} to ${rate(bounds.high)}`,
      rate(any),
    ]),
    { ...view, indent: 2 },
  );
}

function taskTable({ tasks }: Evaluation, view: View): string[] {
  return tableLines(
    ">task | >passed | >of | >reward | failures by",
    tasks.map((task) => [
      String(task.taskIndex),
      String(task.successes),
      task.trials === task.episodes ? String(task.trials) : `${task.trials} (${task.episodes - task.trials} lost)`,
      rate(task.meanReward),
      Object.keys(task.faults).length === 0 ? "" : countsText(task.faults),
    ]),
    { ...view, indent: 2 },
  );
}

function countsTable(title: string, counts: Counts, view: View): string[] {
  const entries = Object.entries(counts);
  if (entries.length === 0) return [];
  const shown = entries.slice(0, shownErrors).map(([name, number]) => [formatCount(number), visibleLine(name)]);
  const table = tableLines(`> | ${title}`, shown, { ...view, indent: 2 });
  const more = entries.length - shown.length;
  return ["", ...table, ...(more > 0 ? [`  … ${more} more kinds`] : [])];
}

function durationsText(durations: Evaluation["durations"]): string {
  if (durations === null) return "not known";
  const { mean, median, p95, byPart } = durations;
  return (
    `mean ${formatDuration(mean)}, median ${formatDuration(median)}, 95th percentile ${formatDuration(p95)} an episode ` +
    `(policy ${formatDuration(byPart.policy)}, user ${formatDuration(byPart.user)}, tools ${formatDuration(byPart.tools)})`
  );
}

/** A rate with three decimals: 0.420. */
function rate(value: number | null): string {
  return value === null ? "–" : value.toFixed(3);
}

function interval(bounds: Interval | null): string {
  return bounds === null ? "" : ` (95 %: ${rate(bounds.low)} to ${rate(bounds.high)})`;
}

/** Agreement between the attribution of failures and a list of labels given by hand. */
function agreementView(name: string, agreement: readonly Agreement[]): string[] {
  const ratio = (right: number, all: number): string => (all === 0 ? "–" : (right / all).toFixed(3));
  return textTable(
    `${name} | >by hand | >found | >right | >precision | >recall`,
    agreement
      .filter(({ labelled, found }) => labelled + found > 0)
      .map(({ label, labelled, found, right }) => [
        label,
        String(labelled),
        String(found),
        String(right),
        ratio(right, found),
        ratio(right, labelled),
      ]),
  );
}

/**
 * Upstream's runner counts a task's missing trials as failed; its rates are shown if that makes a
 * difference.
 */
function upstreamView(evaluation: Evaluation, scores: readonly EpisodeScore[], colours: Colours): string[] {
  const trials = new Set(scores.map(({ trial }) => trial)).size;
  if (evaluation.tasks.every((task) => task.trials === trials)) return [];
  const tallies = evaluation.tasks.map(({ taskId, successes }) => ({ taskId, trials, successes }));
  const rates = Array.from(
    { length: trials },
    (_, at) => `k=${at + 1} ${passHatK(tallies, at + 1)?.toFixed(3) ?? "–"}`,
  );
  return [`  ${colours.dim("pass^k with missing trials counted as failures, as in upstream")}  ${rates.join(", ")}`];
}

/** States whether the environment gives the recorded rewards. */
function confirmationView(rescored: readonly RescoredRun[], colours: Colours): string[] {
  const replayed = rescored.filter(({ replayedReward }) => replayedReward !== null);
  const unconfirmed = rescored.filter(isUnconfirmed);
  const changed = rescored.reduce((sum, run) => sum + run.changedObservations, 0);
  const calls = rescored.reduce((sum, { score }) => sum + (score.toolCalls ?? 0), 0);
  const lines = [
    `  ${colours.dim("replayed")}  ${formatCount(replayed.length)} of ${formatCount(rescored.length)} runs, ` +
      `${formatCount(changed)} of ${formatCount(calls)} observations of tools are not as recorded`,
    `  ${colours.dim("rewards")}       ${formatCount(replayed.length - unconfirmed.length)} confirmed, ${formatCount(unconfirmed.length)} not`,
  ];
  for (const { score, recordedReward, replayedReward } of unconfirmed) {
    lines.push(
      `    task ${score.taskIndex}, trial ${score.trial}: recorded ${recordedReward}, the environment gives ${replayedReward}`,
    );
  }
  return lines;
}
