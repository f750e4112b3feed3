// `eval`: parses flags, calls evaluate(), prints.

import { resolve } from "node:path";
import { Command } from "commander";
import { evalSettings } from "../../api/eval-settings.ts";
import { evaluate, type EvaluateOptions, planEvaluation } from "../../api/evaluate.ts";
import { groupSettings, rolloutSettings, settingNames } from "../../api/rollout-settings.ts";
import { type CliContext, exitCodes, type RunCommand } from "../cli-context.ts";
import { evaluationView } from "../display/evaluation-view.ts";
import { coloursFor } from "../display/terminal-text.ts";
import { exitCodeOf, noteLines, quoted, showRollout, writtenFiles, sayLink } from "../rollout-display.ts";
import { visibleLine } from "../../lib/text.ts";
import { addSettings, configOption, dryRunOption, jsonOption, resumeOption, shortHelp, writeJson } from "../flags.ts";
import { evaluationJson } from "../json-results.ts";

export function evalCommand(runCommand: RunCommand): Command {
  const command = new Command("eval")
    .summary("run each task several times, or read results, and report how reliable the policy is")
    .description(
      "Runs episodes like rollout and prints pass^k, pass@k, the mean reward with its interval, every task, errors, faults, cost and " +
        "time; or scores existing results. Writes results.json into the run folder.",
    );
  addSettings(command, evalSettings);
  const names = settingNames.filter(
    (name) => name !== "groupSize" && name !== "adapter" && !Object.hasOwn(groupSettings, name),
  );
  addSettings(command, rolloutSettings, { names });
  command.addOption(configOption()).addOption(dryRunOption()).addOption(resumeOption()).addOption(jsonOption());
  shortHelp(command, [
    ...["trials", "passK", "from", "report", "env", "data", "tasks", "engine", "url", "model", "agentCommand"],
    ...["agentModel", "out"],
  ]);
  command.addHelpText("after", examples);
  command.action(async (flags: Readonly<Record<string, unknown>>) => runCommand((context) => run(flags, context)));
  return command;
}

const examples = `
Exit codes: 0 done, 1 every episode failed, 2 a setting, file or server to correct, 130 interrupted. A low score is not an error.

Examples:
  # Your own program, with the model that it uses now.
  $ npx trainable-agents eval --env tasks.jsonl --trials 4 \\
      --agent-command "node my-agent.mjs" --agent-model openai/gpt-4o-mini

  # Four trials of every airline task.
  $ npx trainable-agents eval --env tau-bench/airline --data ./tau-bench --trials 4 \\
      --url http://router:30000 --model ./Qwen3-4B-Instruct-2507 --user-model openai/gpt-4o

  # Two LoRA adapters of one server.
  $ npx trainable-agents eval --trials 4 --url http://router:30000 --model ./Qwen3-4B --adapter math-1 --adapter math-2

  # Score a run folder again, or a result file of upstream's runner.
  $ npx trainable-agents eval --from runs/20260101-120000-tau-bench-airline
  $ npx trainable-agents eval --from results.json --env tau-bench/airline --data ./tau-bench

  # For CI and a pull request.
  $ npx trainable-agents eval --trials 2 --report junit:eval.xml,markdown:eval.md

  # Without a server.
  $ npx trainable-agents eval --trials 8 --tasks 0-3`;

async function run(flags: Readonly<Record<string, unknown>>, context: CliContext): Promise<number> {
  const { stdout, env, cwd, program } = context;
  const options: EvaluateOptions = flags;
  if (flags["dryRun"] === true) {
    const plan = await planEvaluation({ ...options, cwd, variables: env });
    const { settingsYaml } = await import("../../api/config-file.ts");
    stdout.write(plan.redact(settingsYaml(plan.settings)));
    await plan.close();
    return exitCodes.done;
  }
  const result = await showRollout(context, "eval", (call) => evaluate({ ...options, ...call }));
  const { rollout, source } = result;
  if (flags["json"] === true) {
    writeJson(evaluationJson(result), context);
    return rollout === null ? exitCodes.done : exitCodeOf(rollout);
  }
  const colours = coloursFor(stdout, env);
  const shown = result.adapters ?? [{ adapter: null, result }];
  const lines = shown.flatMap((one) => [
    ...(one.adapter === null ? [] : ["", colours.bold(`adapter ${visibleLine(one.adapter)}`)]),
    ...evaluationView(one.result, colours, stdout.columns),
  ]);
  if (result.comparison !== undefined) {
    const { comparisonView } = await import("./compare-command.ts");
    lines.push(...comparisonView(result.comparison, { colours, showsAll: false, columns: stdout.columns }));
  }
  if (options.from === undefined && result.adapters === undefined) {
    lines.push(
      "",
      `  ${colours.dim("files")}  ${source}/ results.json, ${writtenFiles(resolve(cwd, source))}`,
      `  ${colours.dim("next")}   ${program} inspect ${quoted(source)} --outcome failing`,
    );
  }
  stdout.write(`${lines.join("\n")}\n\n`);
  await sayLink(source, null, context);
  if (rollout === null) return exitCodes.done;
  const notes = noteLines(rollout, context);
  if (notes.length > 0) stdout.write(`${notes.join("\n")}\n\n`);
  return exitCodeOf(rollout);
}
