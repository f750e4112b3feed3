// `compare`: parses flags, calls compareRuns(), prints.

import { Command, Option } from "commander";
import { compareRuns } from "../../api/compare-runs.ts";
import { numberWithin, readFlag } from "../../api/setting.ts";
import type { CliContext, RunCommand } from "../cli-context.ts";
import { comparisonView } from "../display/comparison-view.ts";
import { coloursFor } from "../display/terminal-text.ts";
import { jsonOption, writeJson } from "../flags.ts";

type CompareFlags = { readonly seed?: string; readonly all?: true; readonly json?: true };

export function compareCommand(run: RunCommand): Command {
  return new Command("compare")
    .summary("compare two or more runs task by task, with a paired test")
    .description(
      "Compares each later run with the first: tasks matched by their content, those that are lost or gained first, the mean " +
        "difference with its 95 % interval (bootstrap over tasks) and an exact sign-flip test.",
    )
    .argument("<run...>", "run folders, results.json of evaluations, files of other tools")
    .addOption(new Option("--seed <number>", "of the bootstrap (default: 0)"))
    .option("--all", "show every task, not only those that differ")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      `
Exit codes: 0 done, whatever the difference; 2 something to correct.

Examples:
  $ npx trainable-agents compare runs/before runs/after
  $ npx trainable-agents compare runs/before/results.json runs/after/results.json --json
  $ npx trainable-agents compare before.eval after.eval`,
    )
    .action(async (runs: string[], flags: CompareFlags) => run((context) => compare(runs, flags, context)));
}

const seedFlag = {
  ...{ flag: "--seed <number>", help: "", expected: "a whole number", default: 0 },
  schema: numberWithin({}).refine(Number.isSafeInteger),
};

async function compare(runs: readonly string[], flags: CompareFlags, context: CliContext): Promise<number> {
  const { cwd, stdout, stderr, env } = context;
  const comparison = await compareRuns({
    ...{ runs, cwd, seed: readFlag(seedFlag, flags.seed) },
    onNotice: (message) => stderr.write(`${message}\n`),
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
