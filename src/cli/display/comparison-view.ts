// A comparison as lines for people: what came out, what was compared, and the tasks that differ.

import { textTable } from "../../lib/text.ts";
import { type Comparison, type ComparisonPair, comparisonSentence, type TaskInRun } from "../../statistics/index.ts";
import { type Colours, formatCount, printable, wrapLines } from "./terminal-text.ts";

/** Rows that are shown without --all. */
const mostRows = 30;

export function comparisonView(
  { runs, pairs, rows }: Comparison,
  {
    colours,
    showsAll,
    columns = Infinity,
  }: { readonly colours: Colours; readonly showsAll: boolean; readonly columns?: number | undefined },
): string[] {
  const lines = pairs.flatMap((pair) => [
    "",
    ...wrapLines(printable(comparisonSentence(pair)), columns).map(colours.bold),
    ...notesOf(pair),
  ]);
  const differing = showsAll ? rows : rows.filter(({ changes }) => changes.some(isDifference));
  const shown = showsAll ? differing : differing.slice(0, mostRows);
  if (shown.length > 0) {
    const [header = "", ...table] = textTable(
      `task | ${runs.map(({ name }) => `>${printable(name).replaceAll("|", "/")}`).join(" | ")} | change`,
      shown.map(({ taskId, runs: cells, changes }) => [
        printable(taskId),
        ...cells.map(cellText),
        changes.map((change) => change ?? "–").join(", "),
      ]),
    );
    lines.push("", `  ${colours.dim(header)}`, ...table.map((line) => `  ${line}`));
  }
  const hidden = differing.length - shown.length;
  if (hidden > 0) lines.push(`  … ${formatCount(hidden)} more tasks differ; --all shows every task`);
  return [...lines, ""];
}

function isDifference(change: string | null): boolean {
  return change !== null && change !== "same";
}

/** "3 of 4", and the mean reward where that says more. */
function cellText(task: TaskInRun | null): string {
  if (task === null) return "–";
  const { successes, trials, meanReward } = task;
  const passed = `${successes} of ${trials}`;
  return Math.abs(meanReward - successes / trials) < 1e-9 ? passed : `${passed} (${meanReward.toFixed(3)})`;
}

function notesOf({ baseline, other, byId, unmatched, passRate, reward }: ComparisonPair): string[] {
  const { baselineOnly, otherOnly, ungraded, contentChanged } = unmatched;
  const notes = [
    [baselineOnly, `only in ${baseline}`],
    [otherOnly, `only in ${other}`],
    [contentChanged, "with other content under the same id (counted on both sides)"],
    [ungraded, "without a graded episode in one of both"],
  ] as const;
  const left = notes.flatMap(([count, text]) => (count > 0 ? [`${formatCount(count)} ${text}`] : []));
  const isApproximate = [passRate, reward].some((difference) => difference?.isExact === false);
  return [
    ...(left.length > 0 ? [`not compared: ${left.join(", ")}`] : []),
    ...(byId > 0 ? [`${formatCount(byId)} tasks are matched by id: a run does not record their content`] : []),
    ...(isApproximate ? ["p is from random signs: there are too many different rewards to enumerate"] : []),
  ].map((line) => `  ${printable(line)}`);
}
