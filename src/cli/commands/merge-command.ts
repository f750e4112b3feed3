// `merge`: parses flags, calls mergeRun(), prints.

import { Command } from "commander";
import { mergeRun } from "../../api/merge-run.ts";
import { type CliContext, exitCodes, type RunCommand } from "../cli-context.ts";
import { formatCount } from "../display/terminal-text.ts";
import { jsonOption, writeJson } from "../flags.ts";
import { quoted } from "../rollout-display.ts";

type MergeFlags = { readonly out?: string; readonly json?: true };

export function mergeCommand(run: RunCommand): Command {
  return new Command("merge")
    .summary("make one file of episodes out of the shards of a run")
    .description(
      "Writes the episodes of a run whose workers wrote shards into a new run folder without any, in the order of its index. Commands " +
        "here read shards as they are; a merge is for programs that read episodes.jsonl themselves. The run stays as it is.",
    )
    .argument("<run>", "run folder")
    .option("--out <folder>", "folder that is made; must not exist (default: <run>-merged)")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      `
Exit codes: 0 done; 2 something to correct, such as a run without shards or one in progress; 130 interrupted, and nothing is left.

Example:
  $ npx trainable-agents merge runs/large --out runs/large-merged`,
    )
    .action(async (folder: string, flags: MergeFlags) => run((context) => merge(folder, flags, context)));
}

async function merge(folder: string, { out, json }: MergeFlags, context: CliContext): Promise<number> {
  const { cwd, drain, cancel, stdout, stderr, program } = context;
  const signal = AbortSignal.any([drain, cancel]);
  const merged = await mergeRun({ run: folder, cwd, signal, ...(out === undefined ? {} : { out }) });
  if (merged === null) {
    stderr.write("Interrupted: nothing is written.\n");
    return exitCodes.interrupted;
  }
  if (json === true) return writeJson(merged, context);
  const { episodes, groups, shards, bytes } = merged;
  const counts = `${formatCount(episodes)} episodes and ${formatCount(groups)} groups from ${formatCount(shards)} shards`;
  stdout.write(`${merged.folder}: ${counts} (${(bytes / 1e6).toFixed(1)} MB)\n`);
  stdout.write(`Next: ${program} inspect ${quoted(merged.folder)}\n`);
  return exitCodes.done;
}
