// `train`: parses flags, calls train(), prints.

import { Command } from "commander";
import { type SettingName, rolloutSettings } from "../../api/rollout-settings.ts";
import { trainSettings } from "../../api/train-settings.ts";
import { rolloutDefaults, train, type TrainOptions, type TrainResult } from "../../api/train.ts";
import { type CliContext, exitCodes, type RunCommand, sayWhenInterrupted } from "../cli-context.ts";
import { wrapLines } from "../../lib/text.ts";
import { coloursFor, formatDuration } from "../display/terminal-text.ts";
import { loadPainter } from "../display/progress-display.ts";
import { comparisonTable, createTrainingDisplay } from "../display/training-display.ts";
import { addSettings, configOption, jsonOption, shortHelp, writeJson } from "../flags.ts";
import { quoted } from "../rollout-display.ts";

/** Rollout settings that are flags of this command; the others can be set in a configuration file. */
const sharedFlags = [
  "env",
  "data",
  "split",
  "solo",
  "retrieval",
  "tasks",
  "seed",
  "model",
  "gguf",
  "strategy",
  "maxContextTokens",
  "maxNewTokens",
  "maxTurns",
  "metrics",
  "metricsAuthorizationEnv",
  "diskWait",
  "out",
  "quiet",
] as const satisfies readonly SettingName[];

export function trainCommand(runCommand: RunCommand): Command {
  const command = new Command("train")
    .summary("train a model on episodes, on this machine")
    .description(
      "Trains the embedded model, or a real one (--gguf), by reinforcement learning (or by imitation) on the same episodes, masks and samples as a " +
        "rollout, and compares it before and after on the same held-out tasks.",
    );
  addSettings(command, trainSettings);
  addSettings(command, rolloutSettings, { names: sharedFlags, initial: rolloutDefaults });
  command.addOption(configOption()).addOption(jsonOption());
  shortHelp(command, [
    ...["algorithm", "minutes", "steps", "from", "fromExpert", "resume", "env", "data", "gguf", "model", "seed"],
    ...["out", "config"],
  ]);
  command.addHelpText("after", examples);
  command.action(async (flags: Readonly<Record<string, unknown>>) => runCommand((context) => run(flags, context)));
  return command;
}

const examples = `
Without --model, the shipped bookshop model is trained. Exit codes: 0 done, 1 collapsed or failed, 2 a setting or file to
correct, 130 interrupted.

Examples:
  # Twelve minutes on two cores.
  $ npx trainable-agents train

  # Two minutes, for a first look: below five, a smaller model is trained.
  $ npx trainable-agents train --minutes 2

  # Continue a run that was interrupted, or that should train for longer.
  $ npx trainable-agents train --resume runs/20260101-120000-bookshop-train --minutes 30

  # Imitate the scripted expert.
  $ npx trainable-agents rollout --engine expert --model <folder> --tasks 0-999 --out runs/expert
  $ npx trainable-agents train --algorithm sft --from runs/expert --model <folder>`;

async function run(flags: Readonly<Record<string, unknown>>, context: CliContext): Promise<number> {
  const { cwd, env: variables, drain, cancel: signal } = context;
  const options: TrainOptions = flags;
  const display = createTrainingDisplay(context, {
    quiet: options.quiet === true,
    painter: await loadPainter(context),
  });
  const unsay = sayWhenInterrupted(drain, () =>
    display.note("Interrupted: the running step is finished and saved. Press Ctrl-C again to stop where it is."),
  );
  const result = await train({
    ...options,
    cwd,
    variables,
    drain,
    signal,
    onEvent: (event) => {
      if (event.type === "notice") display.note(event.message);
      else display.update(event.progress);
    },
  }).finally(() => {
    unsay();
    display.stop();
  });
  if (flags["json"] === true) writeJson(result, context);
  else show(result, context);
  if (result.end.type === "interrupted") return exitCodes.interrupted;
  return result.end.type === "collapse" ? exitCodes.failed : exitCodes.done;
}

function show(result: TrainResult, { stdout, env, program }: CliContext): void {
  const { end, steps, elapsedMs, comparison, greedy, verdict, alarms, folder } = result;
  const colours = coloursFor(stdout, env);
  const table = comparison === null ? [] : comparisonTable(comparison, greedy);
  const lines = [
    colours.bold(`${steps} step${steps === 1 ? "" : "s"} in ${formatDuration(elapsedMs)}: ${end.reason}`),
    ...table.map((line, index) => `  ${index < 2 ? colours.dim(line) : line}`),
    ...alarms.map((alarm) => colours.red(`ALARM: ${alarm}`)),
    ...(verdict === null ? [] : wrapLines(verdict, 79).map(colours.bold)),
    "",
    `  ${colours.dim("look")}  ${program} view ${quoted(folder)}`,
    `  ${colours.dim("next")}  ${program} train --resume ${quoted(folder)} --minutes <more>`,
  ];
  stdout.write(`${lines.join("\n")}\n`);
}
