// `train`: a small model learns from episodes on this machine, with nothing but Node.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { Command } from "commander";
import { ConfigurationError } from "../../core/index.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import { coloursFor } from "../display/terminal-text.ts";
import { comparisonTable } from "../learning/comparison.ts";
import { readFields } from "../learning/learning-folder.ts";
import { endLine, trainPolicy, type TrainingResult } from "../learning/train-policy.ts";
import { readConfigFile } from "../../api/config-file.ts";
import { type FlagValues, resolveSettings } from "../../api/resolve-settings.ts";
import { type RolloutSettings, type SettingName, rolloutSettings } from "../../api/rollout-settings.ts";
import { keyOf, readFlag } from "../../api/setting.ts";
import {
  type TrainFlags,
  type TrainSettings,
  readTrainSettings,
  resolveTrainSettings,
  rolloutDefaults,
  trainSettings,
} from "../../api/train-settings.ts";
import type { RunCommand } from "./command-result.ts";
import { newFolder } from "../../api/rollout.ts";
import { addSettings, configOption } from "../flags.ts";
import { quoted } from "../rollout-display.ts";

type CommandFlags = TrainFlags & { readonly config?: string };

/** Of a rollout; the others can stand in a configuration file. */
const sharedFlags = [
  "env",
  "data",
  "split",
  "tasks",
  "seed",
  "model",
  "maxNewTokens",
  "maxTurns",
  "out",
  "quiet",
] as const satisfies readonly SettingName[];

/** May be given anew to a run that is resumed. */
const changeable: ReadonlySet<string> = new Set(["resume", "steps", "minutes", "quiet"]);

export function trainCommand(run: RunCommand): Command {
  const command = new Command("train")
    .summary("let a small model learn from episodes, on this machine")
    .description(
      "Trains the embedded model by reinforcement learning (or by imitation) through the same episodes, masks and samples as a " +
        "rollout, and compares it before and after on the same held-out tasks.",
    );
  addSettings(command, trainSettings);
  addSettings(command, rolloutSettings, { names: sharedFlags, initial: rolloutDefaults });
  command.addOption(configOption());
  command.addHelpText("after", examples);
  command.action(async (flags: CommandFlags) => run((context) => train(flags, context)));
  return command;
}

const examples = `
Without --model the shipped model of the bookshop learns. Exit codes: 0 done, 1 it collapsed or broke, 2 something to
correct, 130 interrupted.

Examples:
  # Twelve minutes on two cores.
  $ npx trainable-agents train

  # A minute, to see it move.
  $ npx trainable-agents train --minutes 2

  # Go on with a run that was interrupted, or that shall learn for longer.
  $ npx trainable-agents train --resume runs/20260101-120000-bookshop-train --minutes 30

  # Imitate the scripted expert.
  $ npx trainable-agents rollout --engine expert --model <folder> --tasks 0-999 --out runs/expert
  $ npx trainable-agents train --algorithm sft --from runs/expert --model <folder>`;

async function train(flags: CommandFlags, context: CliContext): Promise<number> {
  const resume = readFlag(trainSettings.resume, flags.resume);
  const { settings, base, folder } = resume === null ? await begin(flags, context) : await goOn(resume, flags, context);
  const result = await trainPolicy({ settings, base, folder: resolve(context.cwd, folder), context });
  show(result, folder, context);
  if (result.end.type === "interrupted") return exitCodes.interrupted;
  return result.end.type === "collapse" ? exitCodes.failed : exitCodes.done;
}

type Asked = { readonly settings: TrainSettings; readonly base: RolloutSettings; readonly folder: string };

async function begin(flags: CommandFlags, context: CliContext): Promise<Asked> {
  const file = flags.config === undefined ? null : await readConfigFile(flags.config, context.cwd);
  const { settings, base } = resolveTrainSettings(flags, file);
  const folder = base.out ?? newFolder(`${base.env}-train`, context.cwd);
  if (existsSync(resolve(context.cwd, folder, "train.json"))) {
    throw new ConfigurationError(
      `Cannot train in "${folder}": it holds a training; go on with --resume ${folder}, or name another --out.`,
    );
  }
  return { settings, base, folder };
}

/** The settings of the run, as they were; a few may be given anew. */
async function goOn(folder: string, flags: CommandFlags, { cwd }: CliContext): Promise<Asked> {
  const given = Object.keys(flags).find((name) => !changeable.has(name));
  if (given !== undefined) {
    throw new ConfigurationError(
      `Cannot resume "${folder}" with --${keyOf(given)}: a run goes on as it began; only --steps and --minutes may change.`,
    );
  }
  const facts = await readFields(resolve(cwd, folder, "train.json"));
  const { learning, configuration, threads } = facts as Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  if (learning === undefined || configuration === undefined) {
    throw new ConfigurationError(`Cannot resume "${folder}": its train.json does not say how it was trained.`);
  }
  const values = Object.keys(rolloutSettings).map((name) => [
    name,
    configuration[keyOf(name as SettingName)] ?? undefined,
  ]);
  const base = resolveSettings(Object.fromEntries(values) as FlagValues, null);
  const settings = readTrainSettings({ ...learning, threads, ...flags });
  return { settings, base: { ...base, quiet: flags.quiet === true }, folder };
}

function show(result: TrainingResult, folder: string, { stdout, env, program }: CliContext): void {
  const colours = coloursFor(stdout, env);
  const table = result.comparison === null ? [] : comparisonTable(result.comparison);
  const lines = [
    "",
    colours.bold(endLine(result)),
    ...(table.length === 0 ? [] : ["", "pass rate in per cent, at temperature 1, on held-out tasks"]),
    ...table.map((line, index) => `  ${index === 0 ? colours.dim(line) : line}`),
    "",
    `  ${colours.dim("files")}  ${folder}/ train.json, metrics.csv, pass-rate.svg, checkpoints/`,
    `  ${colours.dim("next")}   ${program} train --resume ${quoted(folder)} --minutes <more>`,
    "",
  ];
  stdout.write(`${lines.join("\n")}\n`);
}
