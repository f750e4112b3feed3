// `rollout`: flags and configuration file to settings, settings to a run.

import { Command, Option } from "commander";
import type { CliContext } from "../cli-context.ts";
import { presetDefaults } from "../../api/presets.ts";
import { prepareRollout } from "../../api/prepare-rollout.ts";
import { readRunToResume, type RunToResume } from "../../api/run-to-resume.ts";
import { readConfigFile } from "../../api/config-file.ts";
import { resolveSettings, type FlagValues } from "../../api/resolve-settings.ts";
import { rolloutSettings, type RolloutSettings, settingNames } from "../../api/rollout-settings.ts";
import { settingsYaml } from "../../api/settings-text.ts";
import type { RunCommand } from "./command-result.ts";
import { playRollout } from "./play-rollout.ts";
import { refuseBesideResume, resumeOption, sayComplete } from "./resume-flag.ts";

type RolloutFlags = FlagValues & { readonly config?: string; readonly dryRun?: boolean; readonly resume?: string };

export function rolloutCommand(run: RunCommand): Command {
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
  command.action(async (flags: RolloutFlags) => run((context) => rollout(flags, context)));
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

async function rollout(flags: RolloutFlags, context: CliContext): Promise<number> {
  const resume = flags.resume === undefined ? null : await readRunToResume(flags.resume, context.cwd);
  const settings = await readSettings(flags, resume, context);
  if (flags.dryRun !== true) {
    if (resume?.isComplete === true) return sayComplete(resume, context);
    return (await playRollout(settings, context, { resume })).exitCode;
  }
  const prepared = await prepareRollout(settings, context, { goesOn: resume !== null });
  context.stdout.write(prepared.redact(settingsYaml(prepared.settings)));
  return 0;
}

/** Flags over the run that goes on, or over a configuration file. */
async function readSettings(
  flags: RolloutFlags,
  resume: RunToResume | null,
  { cwd }: CliContext,
): Promise<RolloutSettings> {
  if (resume !== null) {
    refuseBesideResume(flags);
    return resolveSettings(flags, resume.settings);
  }
  const file = flags.config === undefined ? null : await readConfigFile(flags.config, cwd);
  const preset = flags.preset ?? file?.values.get("preset")?.value;
  return resolveSettings(flags, file, presetDefaults(typeof preset === "string" ? preset : null));
}
