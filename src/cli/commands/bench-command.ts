// `bench trainer`: estimates, without a GPU, how large a rollout side a trainer needs. Real
// episodes, groups and scheduling; simulated durations of the model, the user and the training.

import { performance } from "node:perf_hooks";
import { Command } from "commander";
import { createToolCalling } from "../../agents/index.ts";
import { ConfigurationError, defaultSampling } from "../../core/index.ts";
import { bookshopSource } from "../../environments/bookshop/index.ts";
import { createQwenRenderer } from "../../renderers/index.ts";
import { createRolloutProducer, tasksInOrder, episodeRunner } from "../../rollout/index.ts";
import { measureLoopLag } from "../../telemetry/index.ts";
import { createReadableTokenizer } from "../../tokenizers/index.ts";
import { agendaUser } from "../../users/index.ts";
import { type CliContext, exitCodes, type RunCommand, sayWhenInterrupted } from "../cli-context.ts";
import { formatCount, formatPercent } from "../display/terminal-text.ts";
import { textTable } from "../../lib/text.ts";
import {
  fasterClock,
  createSimulatedEngine,
  slowUser,
  simulateTrainer,
  type TrainerStep,
} from "../simulation/simulated-parts.ts";
import { milliseconds, type SettingValues, number, readFlags, section, whole } from "../../parts/setting.ts";
import { addSettings, jsonOption, writeJson } from "../flags.ts";

const positive = { min: 0, max: Number.MAX_VALUE };

const trainerFlags = section("The trainer", {
  steps: whole(10).help("training steps"),
  batchGroups: whole(16).help("groups per training step"),
  groupSize: whole(8).help("episodes per group"),
  stepSeconds: number("<s>", 60, positive).help("how long a training step takes"),
  updateSeconds: number("<s>", 5, positive).help(
    "how long new weights take to reach the engines; no episode begins meanwhile",
  ),
  engineSeconds: number("<s>", 4, positive).help("median time of an engine call"),
  userSeconds: number("<s>", 2, positive).help("median time of a user line"),
  spread: number("<sigma>", 0.5, positive).help(
    "spread of these times (standard deviation of the logarithm): 0 none, 0.5 usual, 1 a long tail",
  ),
  concurrency: whole(256).help("concurrent episodes"),
  maxStaleness: whole(1, { min: 0 }).help("maximum age of a token, in weight versions; 0 is synchronous"),
  speed: number("<factor>", 20, { min: 0.01, max: Number.MAX_VALUE }).help("simulated seconds per real second"),
});

type Numbers = SettingValues<typeof trainerFlags>;

export function benchCommand(run: RunCommand): Command {
  const command = new Command("bench")
    .summary("size the rollout side of a trainer, without a GPU")
    .description(
      "bench trainer runs bookshop groups for a simulated trainer that waits as long as a real one computes, with a model " +
        "and a user as slow as yours, and reports how long the trainer waited and how stale its tokens were.",
    )
    .argument("<what>", "trainer");
  addSettings(command, trainerFlags);
  return command
    .addOption(jsonOption())
    .addHelpText(
      "after",
      `
Examples:
  $ npx trainable-agents bench trainer
  $ npx trainable-agents bench trainer --step-seconds 30 --batch-groups 32 --concurrency 512 --max-staleness 2`,
    )
    .action(async (what: string, flags: Readonly<Record<string, unknown>>) =>
      run((context) => {
        if (what === "trainer") return benchTrainer(readFlags(trainerFlags, flags), context, flags["json"] === true);
        throw new ConfigurationError(`Cannot bench "${what}": there is trainer; write "bench trainer".`);
      }),
    );
}

async function benchTrainer(settings: Numbers, context: CliContext, asJson: boolean): Promise<number> {
  const { stdout, stderr, drain, cancel } = context;
  const clock = fasterClock(settings.speed);
  const tokenizer = createReadableTokenizer();
  const duration = (seconds: number) => ({ medianMs: milliseconds(seconds), sigma: settings.spread });
  const engine = createSimulatedEngine({ tokenizer, noise: 0.2, turn: duration(settings.engineSeconds), clock });
  const environment = bookshopSource();
  const runEpisode = episodeRunner(
    {
      engine,
      environment,
      renderer: createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }),
      strategy: createToolCalling(),
      user: slowUser(agendaUser(), duration(settings.userSeconds), clock),
    },
    { sampling: defaultSampling, seedTurns: true, clock },
  );
  const taskset = environment.taskset("train");
  const indexes = Array.from({ length: taskset.size }, (_, index) => index);
  const lag = measureLoopLag();
  const [begun, cpu] = [performance.now(), process.cpuUsage()];
  const producer = createRolloutProducer(
    {
      taskset,
      tasks: tasksInOrder(indexes, { passes: Infinity }),
      groupSize: settings.groupSize,
      seed: 0,
      batchGroups: settings.batchGroups,
    },
    { runEpisode },
    { maxStaleness: settings.maxStaleness, concurrency: settings.concurrency, weightVersion: "0", clock },
  );
  const isSaid = sayWhenInterrupted(
    drain,
    () => void stderr.write("Interrupted: the steps that were made are reported.\n"),
  );
  const steps = await simulateTrainer(producer, {
    steps: settings.steps,
    batchGroups: settings.batchGroups,
    stepMs: milliseconds(settings.stepSeconds),
    updateMs: milliseconds(settings.updateSeconds),
    clock,
    setVersion: (version) => {
      engine.version = version;
    },
    onStep: ({ step, waitedMs }) => stderr.write(`step ${step}: waited ${(waitedMs / 1000).toFixed(1)} s\n`),
    signal: AbortSignal.any([drain, cancel]),
  });
  isSaid();
  const { dropped } = producer.status;
  await producer.cancel();
  const realSeconds = (performance.now() - begun) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const { p99 } = lag.read();
  lag.stop();
  const measured = { settings, dropped, realSeconds, cpuSeconds: (user + system) / 1e6, lagMs: p99 };
  if (asJson) writeJson({ steps, ...measured }, context);
  else for (const line of report(steps, measured)) stdout.write(`${line}\n`);
  return steps.length < settings.steps ? exitCodes.interrupted : exitCodes.done;
}

type Measured = {
  readonly settings: Numbers;
  readonly dropped: Readonly<Record<string, number>>;
  readonly realSeconds: number;
  readonly cpuSeconds: number;
  readonly lagMs: number;
};

function report(steps: readonly TrainerStep[], measured: Measured): string[] {
  const { settings, dropped, realSeconds, cpuSeconds, lagMs } = measured;
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  const rows = steps.map(({ step, waitedMs, groups, trainedTokens, staleness, runningEpisodes }) => [
    String(step),
    (waitedMs / 1000).toFixed(1),
    String(groups),
    formatCount(trainedTokens),
    mean(staleness).toFixed(2),
    String(Math.max(0, ...staleness)),
    formatCount(runningEpisodes),
  ]);
  const table = textTable(">step | >waited s | >groups | >tokens | >mean staleness | >most | >running", rows);
  // The first batch starts from an empty queue, so every trainer waits for it once.
  const later = steps.slice(1);
  const waited = later.reduce((sum, { waitedMs }) => sum + waitedMs / 1000, 0);
  const seconds = waited + later.length * (settings.stepSeconds + settings.updateSeconds);
  const share = seconds === 0 ? 0 : waited / seconds;
  const tokens = later.reduce((sum, { trainedTokens }) => sum + trainedTokens, 0);
  const droppedText = Object.entries(dropped).map(([reason, count]) => `${reason} ${formatCount(count)}`);
  return [
    ...table,
    "",
    `trainer waited     ${formatPercent(share)} of the time after its first step`,
    `trained tokens     ${(seconds === 0 ? 0 : tokens / seconds).toFixed(0)} per second`,
    `dropped groups     ${droppedText.length === 0 ? "none" : droppedText.join(", ")}`,
    `this process       ${realSeconds.toFixed(1)} s, ${cpuSeconds.toFixed(1)} s of CPU, event loop late by ${lagMs.toFixed(0)} ms (p99)`,
    "",
    advice(share, measured),
  ];
}

function advice(share: number, { settings, lagMs }: Measured): string {
  if (lagMs * settings.speed > 0.25 * milliseconds(settings.engineSeconds)) {
    return "The clock runs too fast for this machine: its own work shows in the figures; lower --speed.";
  }
  if (share < 0.05) return "The rollout side keeps up; fewer episodes at once (--concurrency) may do.";
  return settings.maxStaleness === 0
    ? "The trainer waits for every batch, because nothing runs while it trains; --max-staleness 1 overlaps the two."
    : "The trainer waits: more episodes at once (--concurrency, more engines) or a higher --max-staleness would help.";
}
