// `rollout`: parses flags, calls rollout(), prints.

import { Command } from "commander";
import { planRollout, rollout, type RolloutOptions } from "../../api/rollout.ts";
import { rolloutSettings, settingNames } from "../../api/rollout-settings.ts";
import { type CliContext, exitCodes, type RunCommand } from "../cli-context.ts";
import { addSettings, configOption, dryRunOption, jsonOption, resumeOption, shortHelp, writeJson } from "../flags.ts";
import { exitCodeOf, showRollout, sayLink, showTable } from "../rollout-display.ts";

export function rolloutCommand(runCommand: RunCommand): Command {
  const command = new Command("rollout")
    .summary("run episodes and write a run folder for a trainer")
    .description("Runs episodes of an environment and writes a run folder for a trainer.");
  addSettings(command, rolloutSettings);
  command.addOption(configOption()).addOption(dryRunOption()).addOption(resumeOption()).addOption(jsonOption());
  shortHelp(command, [...settingNames.filter((name) => rolloutSettings[name].isCommon), "config"]);
  command.addHelpText("after", examples);
  command.action(async (flags: Readonly<Record<string, unknown>>) => runCommand((context) => run(flags, context)));
  return command;
}

const examples = `
Paths are read from the current folder. Exit codes: 0 done, 1 every episode failed, 2 a setting, file or server to correct, 130 interrupted.

Examples:
  # The bookshop with a scripted expert. Needs nothing else.
  $ npx trainable-agents rollout --group-size 8

  # A model behind SGLang on tau-bench.
  $ npx trainable-agents rollout --env tau-bench/retail --data ./tau-bench --tasks 0-49 --group-size 8 \\
      --url http://router:30000 --model ./Qwen3-4B-Instruct-2507 --user-model openai/gpt-4o

  # Resume an interrupted or killed run: ended episodes are kept, the others resume at the turn where they stopped.
  $ npx trainable-agents rollout --resume runs/20260101-120000-bookshop

  # Your own environment; see docs/environments.md.
  $ npx trainable-agents rollout --env ./my-env.ts --url http://127.0.0.1:30000 --model ./Qwen2.5-7B-Instruct

  # Save the configuration of a command, then run it with one change.
  $ npx trainable-agents rollout --seed 7 --dry-run > run.yaml
  $ npx trainable-agents rollout --config run.yaml --temperature 0.7`;

async function run(flags: Readonly<Record<string, unknown>>, context: CliContext): Promise<number> {
  const options: RolloutOptions = flags;
  if (flags["dryRun"] === true) {
    const plan = await planRollout({ ...options, cwd: context.cwd, variables: context.env });
    const { settingsYaml } = await import("../../api/config-file.ts");
    context.stdout.write(plan.redact(settingsYaml(plan.settings)));
    await plan.close();
    return exitCodes.done;
  }
  const result = await showRollout(context, "rollout", (call) => rollout({ ...options, ...call }));
  if (flags["json"] === true) writeJson((await import("../json-results.ts")).rolloutJson(result), context);
  else showTable(result, context);
  await sayLink(result.folder, null, context);
  return exitCodeOf(result);
}
