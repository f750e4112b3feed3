// `eval`: how good a policy is. Plays like `rollout`, through the same code, and then reads what it wrote: scores come from
// the run folder, so an evaluation can be repeated on a folder that is there already.

import { Command, Option } from "commander";
import { ConfigurationError } from "../../core/index.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import { presetDefaults } from "../../api/presets.ts";
import { prepareRollout } from "../../api/prepare-rollout.ts";
import { readRunToResume, type RunToResume } from "../../api/run-to-resume.ts";
import { evaluateFrom } from "../evaluation/evaluate-from.ts";
import { checkEvaluation, evaluateRun } from "../evaluation/evaluate-run.ts";
import { orderTasks } from "../evaluation/order-tasks.ts";
import { readConfigFile } from "../../api/config-file.ts";
import { type EvalSettings, evalSettingNames, evalSettings } from "../../api/eval-settings.ts";
import { type FlagValues, readFlag, resolveSettings } from "../../api/resolve-settings.ts";
import { groupSettings } from "../../api/group-settings.ts";
import { rolloutSettings, type RolloutSettings, settingNames } from "../../api/rollout-settings.ts";
import { settingsYaml } from "../../api/settings-text.ts";
import type { Setting } from "../../api/setting.ts";
import type { RunCommand } from "./command-result.ts";
import { rolloutFrom } from "../../api/rollout.ts";
import { exitCodeOf, noteLines, showRollout } from "../rollout-display.ts";
import { refuseBesideResume, resumeOption } from "./rollout-command.ts";

type EvalFlags = FlagValues &
  Readonly<Partial<Record<keyof EvalSettings, unknown>>> & {
    readonly config?: string;
    readonly dryRun?: boolean;
    readonly resume?: string;
  };

export function evalCommand(run: RunCommand): Command {
  const command = new Command("eval")
    .summary("play each task several times, or read results, and say how reliable the policy is")
    .description(
      "Plays like rollout and prints pass^k, pass@k, the mean reward with its interval, every task, errors, faults, cost and " +
        "time; or scores results that are there already. Writes results.json into the run folder.",
    );
  const add = ({ group, flag, help, default: value }: Setting<unknown>): void => {
    const isShown = typeof value === "number" || (typeof value === "string" && !help.includes("(default"));
    command.addOption(new Option(flag, isShown ? `${help} (default: ${value})` : help).helpGroup(`${group}:`));
  };
  for (const name of evalSettingNames) add(evalSettings[name]);
  for (const name of settingNames)
    if (name !== "samplesPerTask" && !Object.hasOwn(noGroups, name)) add(rolloutSettings[name]);
  command.addOption(
    new Option("--config <file>", "YAML with the settings of a rollout; flags win").helpGroup("Output:"),
  );
  command.addOption(
    new Option("--dry-run", "check everything but the server, print the configuration and stop").helpGroup("Output:"),
  );
  command.addOption(resumeOption());
  command.addHelpText("after", examples);
  command.action(async (flags: EvalFlags) => run((context) => evaluate(flags, context)));
  return command;
}

/** An evaluation counts every episode of every task, whatever a configuration file says about training. */
const noGroups = Object.fromEntries(
  Object.entries(groupSettings).map(([name, { default: value }]) => [name, value]),
) as Pick<RolloutSettings, keyof typeof groupSettings>;

const examples = `
Exit codes: 0 done, 1 every episode failed, 2 something to correct, 130 interrupted. A low score is no error.

Examples:
  # Four trials of every airline task.
  $ npx trainable-agents eval --env tau-bench/airline --data ./tau-bench --trials 4 \\
      --url http://router:30000 --model ./Qwen3-4B-Instruct-2507 --user-model openai/gpt-4o

  # A run folder again, or a result file of upstream's runner.
  $ npx trainable-agents eval --from runs/20260101-120000-tau-bench-airline
  $ npx trainable-agents eval --from results.json --env tau-bench/airline --data ./tau-bench

  # Without a server.
  $ npx trainable-agents eval --trials 8 --tasks 0-3`;

async function evaluate(flags: EvalFlags, context: CliContext): Promise<number> {
  const asked = readEvalSettings(flags);
  const resume = flags.resume === undefined ? null : await readRunToResume(flags.resume, context.cwd);
  const given = await readSettings(flags, { asked, resume }, context);
  if (asked.from !== null) {
    const named = new Set(settingNames.filter((name) => flags[name] !== undefined));
    return evaluateFrom(asked.from, { asked, given, named, context });
  }
  const settings = await orderTasks({ ...given, ...noGroups }, asked, context);
  if (flags.dryRun === true) {
    const prepared = await prepareRollout(settings, context, { resumes: resume !== null });
    context.stdout.write(prepared.redact(settingsYaml(prepared.settings)));
    return 0;
  }
  await checkEvaluation(asked, context);
  const largest = Math.max(0, ...(asked.passK ?? []));
  if (largest > settings.samplesPerTask) {
    throw new ConfigurationError(
      `Cannot compute pass^${largest} from ${settings.samplesPerTask} trials: give --trials ${largest}, or a smaller --pass-k.`,
    );
  }
  const result =
    resume?.isComplete === true
      ? null
      : await showRollout(context, "eval", (call) =>
          rolloutFrom(settings, { env: context.env, cwd: context.cwd }, { ...call, resume }),
        );
  const folder = result?.folder ?? resume?.folder ?? "";
  await evaluateRun(folder, { asked, settings, context, isOurs: true });
  const notes = result === null ? [] : noteLines(result, context);
  if (notes.length > 0) context.stdout.write(`${notes.join("\n")}\n\n`);
  return result === null ? exitCodes.done : exitCodeOf(result);
}

function readEvalSettings(flags: EvalFlags): EvalSettings {
  return Object.fromEntries(
    evalSettingNames.map((name) => [name, readFlag<unknown>(evalSettings[name], flags[name])]),
  ) as EvalSettings;
}

async function readSettings(
  flags: EvalFlags,
  { asked, resume }: { readonly asked: EvalSettings; readonly resume: RunToResume | null },
  { cwd }: CliContext,
): Promise<RolloutSettings> {
  const file = flags.config === undefined ? null : await readConfigFile(flags.config, cwd);
  const preset = flags.preset ?? file?.values.get("preset")?.value;
  const defaults = presetDefaults(typeof preset === "string" ? preset : null);
  if (resume !== null) refuseBesideResume(flags);
  const settings = resolveSettings(flags, resume?.settings ?? file, defaults);
  if (asked.taskIds !== null && flags.tasks !== undefined) {
    throw new ConfigurationError("Cannot use --tasks and --task-ids together: leave one of both out.");
  }
  return { ...settings, samplesPerTask: asked.trials ?? settings.samplesPerTask };
}
