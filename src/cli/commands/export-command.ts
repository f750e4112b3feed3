// `export`: runs as the rows of a trainer, in one file. Streams group by group; what is left out is counted with its reason,
// and a token that would be lost or trained twice stops it before the file has its name.

import { existsSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { basename, dirname, extname, resolve } from "node:path";
import { Command, Option } from "commander";
import { ConfigurationError } from "../../core/index.ts";
import {
  createJsonLinesFile,
  createParquetFile,
  type ExportContext,
  type ExportFormat,
  type ExportFormatName,
  exportFormatNames,
  exportFormats,
  exportGroup,
  parseWhere,
  type RowFile,
  whereFieldKinds,
} from "../../export/index.ts";
import type { JsonObject } from "../../python-semantics/json/value.ts";
import { openRunFolder } from "../../store/index.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import { tokenizerOf } from "../../api/choose-model.ts";
import { formatCount } from "../display/terminal-text.ts";
import type { RunCommand } from "./command-result.ts";
import { type RunEnvironment, samplesOfRun, toolsOfRun } from "./export-environment.ts";
import { readExportGroups, type RunToExport } from "./export-groups.ts";
import { ExportTotals } from "./export-totals.ts";

const fileKinds = { jsonl: createJsonLinesFile, parquet: createParquetFile } as const;
type FileKind = keyof typeof fileKinds;

/** The run's own samples.jsonl: rows of slime with the run's numbers, as `rollout --write-samples` writes them. */
const ownSamples = "samples";

type ExportFlags = {
  readonly format: ExportFormatName | typeof ownSamples;
  readonly output: string;
  readonly to?: FileKind;
  readonly where?: string;
  readonly model?: string;
  readonly env?: string;
  readonly data?: string;
  readonly force?: boolean;
};

export function exportCommand(run: RunCommand): Command {
  return new Command("export")
    .summary("write runs as training rows: slime, verl, Atropos, tinker, TRL, SFT, ...")
    .description(
      "Writes the episodes of one or more runs as the rows that a trainer reads, and says what was left out and why. Every " +
        "sampled token is in exactly one row or is left out with a reason; otherwise nothing is written.",
    )
    .argument("<run...>", "run folders")
    .addOption(
      new Option("--format <name>", "whose rows; samples: the samples.jsonl that --write-samples would have written")
        .choices([...exportFormatNames, ownSamples])
        .makeOptionMandatory(),
    )
    .requiredOption("--output <file>", "the file to be written")
    .addOption(
      new Option("--to <kind>", "kind of file (default: parquet for a file named so, else jsonl)").choices(
        Object.keys(fileKinds),
      ),
    )
    .option("--where <expression>", "only episodes for which it holds; see below")
    .option("--model <folder>", "tokenizer, where the run's own is gone (slime, samples)")
    .option("--env <name>", "environment that knows tools and faults, where the run's is a module")
    .option("--data <folder>", "its data, where they lie elsewhere now")
    .option("--force", "replace the file if it exists")
    .addHelpText("after", afterHelp)
    .action(async (folders: string[], flags: ExportFlags) => run((context) => exportRuns(folders, flags, context)));
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

const sftNote = `Note: trainers render messages anew and train every token of them, unless the model's chat template marks what the
assistant says ({% generation %}). --format sft-tokens holds the tokens that were sampled, with labels.
`;

async function exportRuns(folders: readonly string[], flags: ExportFlags, context: CliContext): Promise<number> {
  // Its members differ in the types of their rows alone.
  const format: ExportFormat = exportFormats[flags.format === ownSamples ? "slime" : flags.format];
  if (flags.format === ownSamples && folders.length > 1) {
    throw new ConfigurationError(
      'Cannot export several runs as "samples": their numbers of groups and episodes would meet; export each by itself, or use --format slime.',
    );
  }
  const where = flags.where === undefined ? () => true : parseWhere(flags.where);
  const path = resolve(context.cwd, flags.output);
  checkOutput(path, flags);
  const runs = await openRuns(folders, flags, context);
  const options = { ...(await contextOf(runs, { flags, format, context })), where };
  const kind = flags.to ?? (extname(path) === ".parquet" ? "parquet" : "jsonl");
  const file = await openFile(path, { kind, format, flags });
  const totals = new ExportTotals();
  let groupSize: number | null = null;
  try {
    for await (const group of readExportGroups(runs, flags.format === ownSamples ? "run" : "export")) {
      if (context.drain.aborted || context.cancel.aborted) {
        await file.abandon();
        context.stderr.write("Interrupted: nothing is written.\n");
        return exitCodes.interrupted;
      }
      const exported = exportGroup(group, format, { ...options, groupSize });
      if (format.wholeGroups) groupSize ??= exported.rows.length === 0 ? null : exported.rows.length;
      totals.add(exported);
      await file.write(exported.rows);
    }
    if (totals.rows === 0) {
      for (const line of totals.leftOutLines()) context.stderr.write(`${line}\n`);
      throw new ConfigurationError(
        `Cannot export: no episode is left for format "${flags.format}"; nothing is written.`,
      );
    }
    const bytes = await file.close();
    for (const line of totals.lines(flags.format, { file: flags.output, bytes })) context.stdout.write(`${line}\n`);
    if (flags.format === "sft") context.stdout.write(sftNote);
    return exitCodes.done;
  } catch (error) {
    await file.abandon();
    throw error;
  }
}

function checkOutput(path: string, { output, force = false }: ExportFlags): void {
  if (force || !existsSync(path)) return;
  throw new ConfigurationError(
    `Cannot write "${output}": it exists; give --force to replace it, or name another file.`,
  );
}

async function openFile(
  path: string,
  options: { readonly kind: FileKind; readonly format: ExportFormat; readonly flags: ExportFlags },
): Promise<RowFile> {
  try {
    return await fileKinds[options.kind](path, options.format.columns);
  } catch (error) {
    const folder = dirname(path);
    const reason = error instanceof Error ? error.message : String(error);
    const remedy = existsSync(folder)
      ? `${reason}; correct --output.`
      : `there is no folder "${folder}"; make it first, or name another file with --output.`;
    throw new ConfigurationError(`Cannot write "${options.flags.output}": ${remedy}`, { cause: error });
  }
}

type OpenedRun = RunToExport & { readonly environment: RunEnvironment };

async function openRuns(folders: readonly string[], flags: ExportFlags, context: CliContext): Promise<OpenedRun[]> {
  const names = folders.map((folder) => basename(resolve(context.cwd, folder)));
  const areUnique = new Set(names).size === names.length;
  const opened = await Promise.all(
    folders.map(async (folder, at) => {
      const reader = openRunFolder(resolve(context.cwd, folder), {
        onTornLine: ({ bytes }) =>
          context.stderr.write(
            `Note: the last line of "${folder}" was cut off (${formatCount(bytes)} bytes) and is left out.\n`,
          ),
      });
      const name = folders.length === 1 ? null : areUnique ? (names[at] ?? folder) : folder;
      const given = { env: flags.env ?? null, data: flags.data ?? null, cwd: context.cwd };
      const environment = { manifest: await reader.manifest(), folder, ...given };
      return { reader, name, environment, samplesOf: await samplesOfRun(environment) };
    }),
  );
  await refuseTwice(opened, context.cwd);
  return opened;
}

/** A run may be given by two paths, by a link, or as a copy: its episodes would be trained twice. */
async function refuseTwice(runs: readonly OpenedRun[], cwd: string): Promise<void> {
  const known = new Map<string, string>();
  for (const { folder, manifest } of runs.map(({ environment }) => environment)) {
    const id = manifest.get("id");
    const keys = [await realpath(resolve(cwd, folder)), ...(typeof id === "string" ? [id] : [])];
    const twin = keys.map((key) => known.get(key)).find((other) => other !== undefined);
    if (twin !== undefined) {
      throw new ConfigurationError(
        `Cannot export "${twin}" and "${folder}" together: they are the same run, whose tokens would be trained twice; name it once.`,
      );
    }
    for (const key of keys) known.set(key, folder);
  }
}

/** What formats need beyond episodes, for each run. */
async function contextOf(
  runs: readonly OpenedRun[],
  asked: { readonly flags: ExportFlags; readonly format: ExportFormat; readonly context: CliContext },
): Promise<ExportContext> {
  const { flags, format, context } = asked;
  const decoders = new Map<string | null, (tokens: Uint32Array) => string>();
  const tools = new Map<string | null, ExportContext["toolsOf"]>();
  const showsTools = format.columns.some(({ name }) => name === "tools");
  for (const { name, environment } of runs) {
    const { folder, manifest } = environment;
    if (format.needsText) decoders.set(name, await decoderOf(manifest, { folder, flags, context }));
    if (!showsTools) continue;
    const onUnknown = (reason: string): void =>
      void context.stderr.write(`Note: the tools of "${folder}" are not known, so "tools" is null: ${reason}\n`);
    tools.set(name, await toolsOfRun(environment, onUnknown));
  }
  return {
    decode: (tokens, { run }) => decoders.get(run)?.(tokens) ?? "",
    toolsOf: (origin) => tools.get(origin.run)?.(origin) ?? null,
  };
}

async function decoderOf(
  manifest: JsonObject,
  asked: { readonly folder: string; readonly flags: ExportFlags; readonly context: CliContext },
): Promise<(tokens: Uint32Array) => string> {
  const model = manifest.get("model");
  const named = model instanceof Map ? model.get("folder") : null;
  const folder = asked.flags.model ?? (typeof named === "string" ? named : null);
  const tokenizer = await tokenizerOf(folder, asked.context.cwd);
  if (tokenizer !== null) return (tokens) => tokenizer.decode(tokens);
  throw new ConfigurationError(
    `Cannot export "${asked.folder}" to ${asked.flags.format}: its rows hold text, and the tokenizer in "${folder}" is not there; name its folder with --model.`,
  );
}
