// `rollout`: parses flags, calls rollout(), prints.

import { Command, Option } from "commander";
import { planRollout, rollout, type RolloutOptions } from "../../api/rollout.ts";
import { rolloutSettings, settingNames } from "../../api/rollout-settings.ts";
import { settingsYaml } from "../../api/settings-text.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import { exitCodeOf, showRollout, showTable } from "../rollout-display.ts";
import type { RunCommand } from "./command-result.ts";

export function rolloutCommand(runCommand: RunCommand): Command {
  const command = new Command("rollout")
    .summary("play episodes and write a run folder with samples for a trainer")
    .description("Plays episodes of an environment and writes a run folder with samples for a trainer.");
  for (const name of settingNames) {
    const { group, flag, help, default: value } = rolloutSettings[name];
    const isShown = typeof value === "number" || typeof value === "string";
    const option = new Option(flag, isShown ? `${help} (default: ${value})` : help);
    command.addOption(option.helpGroup(`${group}:`));
  }
  command.addOption(
    new Option("--config <file>", "YAML with the same names, without the dashes; flags win").helpGroup("Output:"),
  );
  command.addOption(
    new Option("--dry-run", "check everything but the server, print the configuration and stop").helpGroup("Output:"),
  );
  command.addOption(resumeOption());
  command.addHelpText("after", examples);
  command.action(async (flags: Readonly<Record<string, unknown>>) => runCommand((context) => run(flags, context)));
  return command;
}

const examples = `
Paths are read from the current folder. Exit codes: 0 done, 1 every episode failed, 2 something to correct, 130 interrupted.

Examples:
  # The bookshop, played by a scripted expert. Needs nothing.
  $ npx trainable-agents rollout --samples-per-task 8

  # A model behind SGLang on tau-bench.
  $ npx trainable-agents rollout --env tau-bench/retail --data ./tau-bench --tasks 0-49 --samples-per-task 8 \\
      --url http://router:30000 --model ./Qwen3-4B-Instruct-2507 --user-model openai/gpt-4o

  # A run that was interrupted or killed: what has ended is kept, the rest goes on at the turn where it stopped.
  $ npx trainable-agents rollout --resume runs/20260101-120000-bookshop

  # Your own environment; see docs/adding-an-environment.md.
  $ npx trainable-agents rollout --env ./my-env.ts --url http://127.0.0.1:30000 --model ./Qwen2.5-7B-Instruct

  # Keep what a command would do, change one thing, run it.
  $ npx trainable-agents rollout --seed 7 --dry-run > run.yaml
  $ npx trainable-agents rollout --config run.yaml --temperature 0.7`;

async function run(flags: Readonly<Record<string, unknown>>, context: CliContext): Promise<number> {
  const options: RolloutOptions = flags;
  if (flags["dryRun"] === true) {
    const { redact, settings } = await planRollout({ ...options, cwd: context.cwd, variables: context.env });
    context.stdout.write(redact(settingsYaml(settings)));
    return exitCodes.done;
  }
  const result = await showRollout(context, "rollout", (call) => rollout({ ...options, ...call }));
  showTable(result, context);
  return exitCodeOf(result);
}

export function resumeOption(): Option {
  return new Option(
    "--resume <run>",
    "continue the run in this folder, with its settings; only addresses, keys, concurrency and the like may be given again",
  ).helpGroup("Output:");
}
