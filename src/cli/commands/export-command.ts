// `export`, `merge` and `export-model`: parse flags, call exportRun(), mergeRun() and exportGguf(), print.

import { stat } from "node:fs/promises";
import { relative, resolve } from "node:path";

import { Command, Option } from "commander";

import { modelPath } from "../../api/model-path.ts";
import { type ExportCounts, NothingToExportError } from "../../api/export-counts.ts";
import { exportFileKinds, exportNames, exportRun, type ExportRunOptions } from "../../api/export-run.ts";
import { mergeRun } from "../../api/merge-run.ts";
import { ConfigurationError } from "../../core/index.ts";
import { turnRewardsChoices } from "../../export/index.ts";
import { exportGguf } from "../../learner/model/index.ts";
import { whereFieldKinds } from "../../store/index.ts";
import { type CliContext, exitCodes, type RunCommand } from "../cli-context.ts";
import { formatCount, oneMessage } from "../display/terminal-text.ts";
import { jsonOption, writeJson } from "../flags.ts";
import { quoted } from "../rollout-display.ts";

type ExportModelFlags = { readonly to?: string; readonly json?: true };

export function exportModelCommand(run: RunCommand): Command {
  return new Command("export-model")
    .summary("write a model folder as one GGUF file, for llama.cpp")
    .description(
      "Reads config.json, model.safetensors, tokenizer.json and tokenizer_config.json of a model that the embedded engine runs, " +
        "and writes them as GGUF with 32-bit weights. Send llama.cpp token ids, because it tokenizes text differently.",
    )
    .argument("<model>", "a model folder, or a shipped model: bookshop-1m, bookshop-nano")
    .option("--to <file>", "file to write; must be new")
    .addOption(jsonOption())
    .addHelpText("after", "\nExample:\n  $ trainable-agents export-model bookshop-1m --to bookshop-1m.gguf")
    .action(async (model: string, flags: ExportModelFlags) => run((context) => exportModel(model, flags, context)));
}

async function exportModel(model: string, { to, json }: ExportModelFlags, context: CliContext): Promise<number> {
  const { cwd, stdout } = context;
  if (to === undefined) {
    throw new ConfigurationError(`Cannot export "${model}": no file is named; pass --to <file>.`);
  }
  const path = resolve(cwd, to);
  if ((await stat(path).catch(() => null)) !== null) {
    throw new ConfigurationError(`Cannot export "${model}": "${to}" exists; name a new file with --to.`);
  }
  await exportGguf(modelPath(model, cwd), path);
  const { size } = await stat(path);
  if (json === true) return writeJson({ output: to, bytes: size }, context);
  stdout.write(`${relative(cwd, path) || path}: ${(size / 1e6).toFixed(1)} MB\n`);
  return exitCodes.done;
}

export function exportCommand(run: RunCommand): Command {
  return new Command("export")
    .summary("write runs as training rows: slime, verl, Atropos, tinker, TRL, SFT, ...")
    .description(
      "Writes the episodes of one or more runs as the rows that a trainer reads, and reports what was left out and why. Every " +
        "sampled token is in exactly one row or is left out with a reason; otherwise nothing is written.",
    )
    .argument("<run...>", "run folders")
    .addOption(
      new Option(
        "--format <name>",
        "format of the rows; samples: the samples.jsonl that --write-samples would have written; tau2: the file of simulations that tau2-bench's evaluator reads; tau2-submission: a folder for its leaderboard",
      )
        .choices(exportNames)
        .makeOptionMandatory(),
    )
    .option("--output <file>", "file to write, a folder for tau2-submission; also --out")
    .addOption(new Option("--out <file>").hideHelp())
    .addOption(
      new Option("--to <kind>", "kind of file (default: parquet for a file named *.parquet, else jsonl)").choices(
        exportFileKinds,
      ),
    )
    .option("--where <expression>", "only episodes that match the expression; see below")
    .option("--model <folder>", "tokenizer folder, if the run's own no longer exists (slime, samples)")
    .option("--env <name>", "environment that supplies tools and faults, if the run's is a module")
    .option("--data <folder>", "folder of the environment's data, if it has moved")
    .addOption(
      new Option("--turn-rewards <what>", "rewards of turns: keep, or ignore for formats without a field for them")
        .choices(turnRewardsChoices)
        .default("keep"),
    )
    .option("--force", "replace the file if it exists")
    .addOption(jsonOption())
    .addHelpText("after", afterHelp)
    .action(async (folders: string[], { out, ...flags }: ExportFlags) =>
      run((context) =>
        exportRuns(
          { ...flags, output: outputOf(flags.output, out), runs: folders },
          { ...context, json: flags.json === true },
        ),
      ),
    );
}

type ExportFlags = Omit<ExportRunOptions, "runs" | "output"> & {
  readonly output?: string;
  readonly out?: string;
  readonly json?: true;
};

/** Other commands name this flag --out. */
function outputOf(output: string | undefined, out: string | undefined): string {
  if (output !== undefined && out !== undefined) throw new ConfigurationError("Cannot use --out with --output: both name the file; give only one."); // prettier-ignore
  const file = output ?? out;
  if (file === undefined) throw new ConfigurationError("Cannot export: no file is named; pass --output <file>.");
  return file;
}

const afterHelp = `
Expressions compare fields with values (==, !=, <, <=, >, >=, in), joined by and, or, not and parentheses:
${Object.entries(whereFieldKinds)
  .map(([name, { type, meaning }]) => `  ${name.padEnd(15)} ${type.padEnd(7)} ${meaning}`)
  .join("\n")}

Examples:
  $ npx trainable-agents export runs/one --format verl --output train.parquet
  $ npx trainable-agents export runs/one runs/two --format sft --where 'reward == 1 and problems == 0' --output sft.jsonl
  $ npx trainable-agents export runs/one --format preferences --where 'not (task_id in ("a", "b"))' --output pairs.jsonl`;

const sftNote = `Note: trainers render messages again and train every token of them, unless the model's chat template marks what the
assistant says ({% generation %}). --format sft-tokens holds the tokens that were sampled, with labels.
`;

async function exportRuns(
  options: ExportRunOptions,
  context: CliContext & { readonly json: boolean },
): Promise<number> {
  const { stdout, stderr, cwd, drain, cancel } = context;
  try {
    const result = await exportRun({
      ...options,
      cwd,
      drain,
      signal: cancel,
      onNotice: (message) => stderr.write(`${oneMessage(message)}\n`),
    });
    if (result === null) {
      stderr.write("Interrupted: nothing is written.\n");
      return exitCodes.interrupted;
    }
    if (context.json) return writeJson({ format: options.format, output: options.output, ...result }, context);
    const { rows, episodes, groups, trainedTokens, bytes, expertBytes, maskBytes } = result;
    const tokens = trainedTokens === null ? "" : `, ${formatCount(trainedTokens)} trained tokens`;
    const from = `${counted(episodes, "episode")} of ${counted(groups, "group")}${tokens}`;
    const written = `${counted(rows, "row")} for ${options.format} in ${options.output} (${formatBytes(bytes)}): ${from}`;
    const experts =
      expertBytes === 0 ? [] : [`Their experts in ${options.output}.routed-experts.bin (${formatBytes(expertBytes)}).`];
    const masks =
      maskBytes === 0 ? [] : [`Their kept ids in ${options.output}.sampling-masks.bin (${formatBytes(maskBytes)}).`];
    for (const line of [written, ...experts, ...masks, ...leftOutLines(result)]) stdout.write(`${line}\n`);
    if (options.format === "sft") stdout.write(sftNote);
    return exitCodes.done;
  } catch (error) {
    if (error instanceof NothingToExportError) {
      for (const line of leftOutLines(error.counts)) stderr.write(`${line}\n`);
    }
    throw error;
  }
}

function leftOutLines({ leftOut }: ExportCounts): string[] {
  if (leftOut.length === 0) return [];
  return [
    "Left out:",
    ...leftOut.map(
      ({ reason, episodes, sampledTokens }) =>
        `  ${counted(episodes, "episode")} (${formatCount(sampledTokens)} sampled tokens): ${reason}`,
    ),
  ];
}

function counted(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

type MergeFlags = { readonly out?: string; readonly json?: true };

export function mergeCommand(run: RunCommand): Command {
  return new Command("merge")
    .summary("merge the shards of a run into one file of episodes")
    .description(
      "Writes the episodes of a run whose workers wrote shards into a new run folder without shards, in the order of its index. Commands " +
        "of this package read shards directly; a merge is for programs that read episodes.jsonl themselves. The run is not changed.",
    )
    .argument("<run>", "run folder")
    .option("--out <folder>", "folder to create; must not exist (default: <run>-merged)")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      `
Exit codes: 0 done; 2 a setting or run to correct, such as a run without shards or one in progress; 130 interrupted, and nothing is left.

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
