// How a training goes, while it goes: a chart that repaints itself in a terminal, one line a step elsewhere. Writes to
// stderr, so that stdout holds results alone.

import { createLogUpdate } from "log-update";
import type { CliContext } from "../cli-context.ts";
import { isLiveTerminal } from "../display/progress-display.ts";
import { type Colours, coloursFor, formatDuration, formatPercent } from "../display/terminal-text.ts";
import type { MetricsRow } from "./metrics-file.ts";
import { type ChartData, terminalChart } from "./terminal-chart.ts";

export type LearningProgress = {
  readonly chart: ChartData;
  /** The last step; `null` before the first. */
  readonly metrics: MetricsRow | null;
  /** What is being done now. */
  readonly doing: string;
  readonly elapsedMs: number;
  /** Of all sittings together. */
  readonly budgetMs: number;
};

export interface LearningDisplay {
  update(progress: LearningProgress): void;
  /** A line that stays. */
  note(line: string): void;
  /** Leaves the last state standing, and lets go of the terminal. */
  stop(): void;
}

export function createLearningDisplay(
  context: Pick<CliContext, "stderr" | "env">,
  options: { readonly quiet: boolean },
): LearningDisplay {
  const { stderr, env } = context;
  const note = (line: string): void => void stderr.write(`${line}\n`);
  if (options.quiet) return { update: () => undefined, note, stop: () => undefined };
  return isLiveTerminal(stderr, env) ? liveDisplay(coloursFor(stderr, env)) : plainDisplay(note);
}

function plainDisplay(note: (line: string) => void): LearningDisplay {
  let shown = 0;
  return {
    update: ({ metrics }) => {
      const step = metrics?.["step"] ?? 0;
      if (metrics === null || step <= shown) return;
      shown = step;
      note(stepLine(metrics));
    },
    note,
    stop: () => undefined,
  };
}

function liveDisplay(colours: Colours): LearningDisplay {
  const block = createLogUpdate(process.stderr, { showCursor: true });
  let latest: LearningProgress | null = null;
  const paint = (): void => {
    if (latest !== null) block(learningBlock(latest, colours, process.stderr.columns));
  };
  return {
    update: (progress) => {
      latest = progress;
      paint();
    },
    note: (line) => {
      block.clear();
      process.stderr.write(`${line}\n`);
      paint();
    },
    stop: () => block.done(),
  };
}

/** The block: the curve, the last step, the time. */
export function learningBlock(progress: LearningProgress, colours: Colours, columns = 80): string {
  const { chart, metrics, doing, elapsedMs, budgetMs } = progress;
  const hasPoints = chart.training.length + chart.evaluations.length > 0;
  const size = { width: Math.min(100, columns - 2), height: 9 };
  return [
    ...(hasPoints ? terminalChart(chart, size) : []),
    colours.dim("• pass rate of the step   ◆ on held-out tasks"),
    ...(metrics === null ? [] : [stepLine(metrics)]),
    `${doing}  ${formatDuration(elapsedMs)} of ${formatDuration(budgetMs)}`,
  ].join("\n");
}

/** One step in one line. */
export function stepLine(metrics: MetricsRow): string {
  const value = (name: string): number | null => metrics[name] ?? null;
  const show = (name: string, digits: number): string => value(name)?.toFixed(digits) ?? "–";
  const scientific = (name: string): string => value(name)?.toExponential(1) ?? "–";
  const seconds = (value("rollout_seconds") ?? 0) + (value("train_seconds") ?? 0);
  const parts = [
    `step ${show("step", 0)}`,
    ...(value("pass_rate") === null ? [] : [`pass ${formatPercent(value("pass_rate"))}`]),
    ...(value("groups") === null ? [] : [`live groups ${show("live_groups", 0)} of ${show("groups", 0)}`]),
    `loss ${show("loss", 4)}`,
    `entropy ${show("entropy", 3)}`,
    `gradient ${show("gradient_norm", 2)}`,
    ...(value("logprob_difference_mean") === null
      ? []
      : [
          `logprobs differ ${scientific("logprob_difference_mean")}, at most ${scientific("logprob_difference_largest")}`,
        ]),
    `${seconds.toFixed(1)} s`,
  ];
  const held = value("held_out_pass_rate");
  return [...parts, ...(held === null ? [] : [`held-out ${formatPercent(held)}`])].join(", ");
}
