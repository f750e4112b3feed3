// `compare`: parses flags, calls compareRuns(), prints.

import { Command } from "commander";

import { compareRuns } from "../../api/compare-runs.ts";
import { custom, numberWithin, readFlags, section } from "../../parts/setting.ts";
import { wrapLines, visibleLine } from "../../lib/text.ts";
import { type Comparison, type ComparisonPair, comparisonSentence, type TaskInRun } from "../../statistics/index.ts";
import type { CliContext, RunCommand } from "../cli-context.ts";
import { type Colours, coloursFor, formatCount, oneMessage, tableLines } from "../display/terminal-text.ts";
import { addSettings, jsonOption, writeJson } from "../flags.ts";

type CompareFlags = { readonly seed?: string; readonly all?: true; readonly json?: true };

const schema = numberWithin({}).refine(Number.isSafeInteger);
const compareFlags = section("Options", {
  seed: custom("<number>", { default: 0, expected: "a whole number", schema }).help("seed of the bootstrap"),
});

export function compareCommand(run: RunCommand): Command {
  const command = new Command("compare")
    .summary("compare two or more runs task by task, with a paired test")
    .description(
      "Compares each later run with the first: tasks matched by content, lost and gained ones listed first, the mean " +
        "difference with its 95 % interval (bootstrap over tasks) and an exact sign-flip test.",
    )
    .argument("<run...>", "run folders, results.json of evaluations, files of other tools");
  return addSettings(command, compareFlags)
    .option("--all", "show every task, not only those that differ")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      `
Exit codes: 0 done, whatever the difference; 2 a setting or file to correct.

Examples:
  $ npx trainable-agents compare runs/before runs/after
  $ npx trainable-agents compare runs/before/results.json runs/after/results.json --json
  $ npx trainable-agents compare before.eval after.eval`,
    )
    .action(async (runs: string[], flags: CompareFlags) => run((context) => compare(runs, flags, context)));
}

async function compare(runs: readonly string[], flags: CompareFlags, context: CliContext): Promise<number> {
  const { cwd, stdout, stderr, env } = context;
  const comparison = await compareRuns({
    runs,
    cwd,
    seed: readFlags(compareFlags, flags).seed,
    onNotice: (message) => stderr.write(`${oneMessage(message)}\n`),
  });
  if (flags.json === true) return writeJson(comparison, context);
  const lines = comparisonView(comparison, {
    colours: coloursFor(stdout, env),
    showsAll: flags.all === true,
    columns: stdout.columns,
  });
  stdout.write(`${lines.join("\n")}\n`);
  return 0;
}

// A comparison as lines for people: the result, the compared runs, and the tasks that differ.

/** Rows that are shown without --all. */
const mostRows = 30;

/** Also the end of `eval` with several adapters. */
export function comparisonView(
  { runs, pairs, rows }: Comparison,
  {
    colours,
    showsAll,
    columns,
  }: { readonly colours: Colours; readonly showsAll: boolean; readonly columns?: number | undefined },
): string[] {
  const lines = pairs.flatMap((pair) => [
    "",
    ...wrapLines(visibleLine(comparisonSentence(pair)), columns ?? Infinity).map(colours.bold),
    ...notesOf(pair),
  ]);
  const differing = showsAll ? rows : rows.filter(({ changes }) => changes.some(isDifference));
  const shown = showsAll ? differing : differing.slice(0, mostRows);
  if (shown.length > 0) {
    const table = tableLines(
      `task | ${runs.map(({ name }) => `>${visibleLine(name).replaceAll("|", "/")}`).join(" | ")} | change`,
      shown.map(({ taskId, runs: cells, changes }) => [
        visibleLine(taskId),
        ...cells.map(cellText),
        changes.map((change) => change ?? "–").join(", "),
      ]),
      { colours, columns, indent: 2 },
    );
    lines.push("", ...table);
  }
  const hidden = differing.length - shown.length;
  if (hidden > 0) lines.push(`  … ${formatCount(hidden)} more tasks differ; --all shows every task`);
  return [...lines, ""];
}

function isDifference(change: string | null): boolean {
  return change !== null && change !== "same";
}

/** "3 of 4", and the mean reward if it adds information. */
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
    [ungraded, "without a graded episode in one of them"],
  ] as const;
  const left = notes.flatMap(([count, text]) => (count > 0 ? [`${formatCount(count)} ${text}`] : []));
  const isApproximate = [passRate, reward].some((difference) => difference?.isExact === false);
  return [
    ...(left.length > 0 ? [`not compared: ${left.join(", ")}`] : []),
    ...(byId > 0 ? [`${formatCount(byId)} tasks are matched by id: a run does not record their content`] : []),
    ...(isApproximate
      ? ["p is estimated from random signs, because there are too many different rewards to enumerate"]
      : []),
  ].map((line) => `  ${visibleLine(line)}`);
}
