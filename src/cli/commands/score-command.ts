// `score`: parses flags, calls scoreRun(), prints.

import { Command, Option } from "commander";

import { engineNames, engineOptionNames } from "../../api/engines.ts";
import { rolloutSettings, type SettingName } from "../../api/rollout-settings.ts";
import { type ScoreCounts, scoreRun, type ScoreRunOptions } from "../../api/score-run.ts";
import { readFlag, section, whole } from "../../parts/setting.ts";
import { type CliContext, exitCodes, type RunCommand, sayWhenInterrupted } from "../cli-context.ts";
import { formatCount, oneMessage } from "../display/terminal-text.ts";
import { addSettings, jsonOption, shortHelp, writeJson } from "../flags.ts";
import { quoted } from "../rollout-display.ts";

const scorers = engineNames.filter((name) => name !== "expert");

/** Settings of a rollout that name the teacher here. */
const shared: readonly SettingName[] = [
  "model",
  ...engineOptionNames.filter((name) => name !== "expertNoise" && name !== "logprobsMode"),
  "concurrency",
  "turnTimeout",
];

const ownSettings = section("The teacher", {
  topTokens: whole(0, { min: 0, max: 256 }).help(
    "most probable tokens to list for each position; a vLLM server allows 20 unless it was started with --max-logprobs",
  ),
});

export function scoreCommand(run: RunCommand): Command {
  const command = new Command("score")
    .summary("score the tokens of a run under a teacher's weights, for distillation")
    .description(
      "Writes the logprobs of a run's tokens under a teacher's weights into teacher-scores.jsonl of the run folder; export then writes " +
        "them into the rows of slime, verl, TRL and tinker. An episode is scored once: an interrupted or killed command is repeated.",
    )
    .addOption(new Option("--run <folder>", "run folder, finished or in progress").makeOptionMandatory())
    .addOption(
      new Option("--teacher <engine>", "engine of the teacher")
        .choices(scorers)
        .makeOptionMandatory()
        .helpGroup("The teacher:"),
    );
  addSettings(command, ownSettings);
  addSettings(command, rolloutSettings, { names: shared, heading: "The teacher" });
  command.option("--follow", "wait for further episodes until the run ends").addOption(jsonOption());
  shortHelp(command, [
    "run",
    "teacher",
    "topTokens",
    "model",
    "url",
    "gguf",
    "apiKeyEnv",
    "concurrency",
    "follow",
    "json",
  ]);
  return command
    .addHelpText(
      "after",
      `
Exit codes: 0 done; 1 the teacher failed, and what is scored is kept; 2 a setting or file to correct; 130 interrupted.

Examples:
  $ npx trainable-agents score --run runs/one --teacher embedded --model bookshop-1m
  $ npx trainable-agents score --run runs/one --teacher sglang --url http://127.0.0.1:30000 --top-tokens 8
  $ npx trainable-agents export runs/one --format slime --output rows.jsonl`,
    )
    .action(async (flags: ScoreFlags) => run((context) => score(flags, context)));
}

type ScoreFlags = Omit<ScoreRunOptions, "topTokens" | "teacher"> & {
  readonly teacher: string;
  readonly topTokens?: string;
  readonly json?: true;
};

async function score({ json, topTokens, ...flags }: ScoreFlags, context: CliContext): Promise<number> {
  const { cwd, env: variables, drain, cancel, stdout, stderr, program } = context;
  let shownAt = -Infinity;
  const show = (counts: ScoreCounts): void => {
    const now = performance.now();
    if (stderr.isTTY !== true || now - shownAt < 1000) return;
    shownAt = now;
    stderr.write(`${formatCount(counts.scored)} episodes scored, ${formatCount(counts.tokens)} tokens\n`);
  };
  const unsay = sayWhenInterrupted(drain, () =>
    stderr.write("Interrupted: calls in flight are finished. Press Ctrl-C again to stop where it is.\n"),
  );
  const result = await scoreRun({
    ...flags,
    topTokens: readFlag(ownSettings.topTokens, topTokens),
    cwd,
    variables,
    drain,
    signal: cancel,
    onNotice: (message) => stderr.write(`${oneMessage(message)}\n`),
    onProgress: show,
  }).finally(unsay);
  if (json === true) writeJson(result, context);
  else {
    const { scored, known, samples, tokens, tooLong, reverseKl } = result;
    const before = known === 0 ? "" : ` (${formatCount(known)} were scored before)`;
    const distance = reverseKl === null ? "" : `, ${reverseKl.toFixed(4)} nats a token from the teacher`;
    stdout.write(
      `${formatCount(scored)} episodes scored${before}: ${formatCount(samples)} rows, ${formatCount(tokens)} sampled tokens${distance}\n`,
    );
    if (tooLong > 0)
      stdout.write(`${formatCount(tooLong)} rows do not fit the teacher's context and have no scores.\n`);
    stdout.write(`Next: ${program} export ${quoted(flags.run)} --format slime --output rows.jsonl\n`);
  }
  return result.end === "interrupted" ? exitCodes.interrupted : exitCodes.done;
}
