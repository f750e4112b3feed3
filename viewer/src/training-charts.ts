// The charts of a training, and of another one over it: measurements of metrics.csv by what they mean.
// The lines of the other training are dashed.

import type { Interval, Training } from "../../src/viewer/wire/index.ts";
import type { Line } from "./chart.tsx";
import { percent } from "./format.tsx";

type Values = readonly (number | null)[];

/** Colours of the other training's lines, by those of the same lines of this one. */
const otherColours: Readonly<Record<string, string>> = {
  "--accent": "--warm",
  "--good": "--bad",
  "--warm": "--accent",
};

export type TrainingChart = {
  readonly title: string;
  readonly format: (value: number) => string;
  readonly lines: readonly Line[];
  readonly range?: readonly [number, number];
  /** False if nothing of it was measured, or everything is 0. */
  readonly isKnown: boolean;
};

/** Steps of one training or both, in their order. */
export function stepsOf(training: Training, other: Training | null): readonly number[] {
  const all = [training, other].flatMap((one) => one?.steps.flatMap((step) => step["step"] ?? []) ?? []);
  return [...new Set(all)].sort((a, b) => a - b);
}

/** `x`: the steps at which lines have values. */
export function chartsOf(training: Training, other: Training | null, x: readonly number[]): readonly TrainingChart[] {
  const own = linesOf(training, x);
  const others = other === null ? null : linesOf(other, x);
  return own.map(({ lines, ...chart }, at) => {
    // The smoothed curve is enough where two trainings lie over each other.
    const isShown = ({ isFaint }: Line): boolean => others === null || isFaint !== true;
    const dashed = (others?.[at]?.lines ?? []).filter(isShown).map((line) => ({
      ...line,
      label: `${other!.facts.name}: ${line.label}`,
      dash: [5, 4],
      colour: otherColours[line.colour] ?? "--quiet",
    }));
    const shown = [...lines.filter(isShown), ...dashed];
    const isKnown = shown.some(({ values }) => values.some((value) => value !== null && value !== 0));
    return { ...chart, lines: shown, isKnown };
  });
}

type Titled = Omit<TrainingChart, "isKnown">;

function linesOf({ steps }: Training, x: readonly number[]): readonly Titled[] {
  const byStep = new Map(steps.map((step) => [step["step"], step]));
  const of = (name: string): Values => x.map((step) => byStep.get(step)?.[name] ?? null);
  const ratio = (name: string, whole: string): Values => {
    const [parts, wholes] = [of(name), of(whole)];
    return parts.map((part, at) => (part === null || !wholes[at] ? null : part / wholes[at]));
  };
  const line = (label: string, values: Values, colour: string, more: Partial<Line> = {}): Line => ({
    label,
    values,
    colour,
    ...more,
  });
  const chart = (title: string, format: (value: number) => string, ...lines: readonly Line[]): Titled => ({
    title,
    format,
    lines,
    ...(format === percent ? { range: [0, 1] as const } : {}),
  });
  const pass = of("pass_rate");
  return [
    chart(
      "Pass rate of training",
      percent,
      line("of training", pass, "--good", {
        isFaint: true,
        band: { low: of("pass_rate_low"), high: of("pass_rate_high") },
      }),
      line("smoothed", smoothed(pass), "--good"),
    ),
    chart(
      "Pass rate on held-out tasks",
      percent,
      line("sampled", of("held_out_pass_rate"), "--accent", {
        points: { low: of("held_out_low"), high: of("held_out_high") },
      }),
      line("greedy", of("held_out_greedy"), "--good", {
        points: { low: of("greedy_low"), high: of("greedy_high") },
        dash: [2, 3],
      }),
    ),
    chart("Reward", small, line("mean", of("mean_reward"), "--accent")),
    chart("Groups that taught", percent, line("share", ratio("live_groups", "groups"), "--warm")),
    chart("Turns of an episode", small, line("mean", of("turns_per_episode"), "--warm")),
    chart("Sampled tokens of an episode", small, line("mean", ratio("sampled_tokens", "episodes"), "--warm")),
    chart("KL to the first policy", small, line("mean", of("kl"), "--accent")),
    chart("Entropy", small, line("mean", of("entropy"), "--accent")),
    chart("Staleness, in steps", small, line("oldest weights", of("staleness"), "--warm")),
    chart("Format errors of an episode", small, line("mean", of("problems_per_episode"), "--bad")),
    chart("Violations of an episode", small, line("mean", of("rule_violations_per_episode"), "--bad")),
    chart("Episodes that failed", small, line("number", of("failed_episodes"), "--bad")),
    chart(
      "Mismatch of logprobs",
      small,
      line("mean", of("logprob_difference_mean"), "--bad"),
      line("largest", of("logprob_difference_largest"), "--warm", { dash: [2, 3] }),
    ),
    chart("Gradient norm", small, line("norm", of("gradient_norm"), "--accent")),
  ];
}

type Measure = { readonly name: string; readonly text: string; readonly interval: Interval | null };

/** The last value of what two trainings are compared by, with its interval. */
export function lastMeasures({ steps }: Training): readonly Measure[] {
  const measure = (name: string, column: string, text: (value: number) => string, bounds: string | null): Measure[] => {
    const step = steps.findLast((one) => typeof one[column] === "number");
    if (step === undefined) return [];
    const [low, high] = [step[`${bounds}_low`] ?? null, step[`${bounds}_high`] ?? null];
    const value = `${text(step[column]!)} at step ${step["step"]}`;
    return [{ name, text: value, interval: low === null || high === null ? null : { low, high } }];
  };
  return [
    ...measure("pass rate on held-out tasks, sampled", "held_out_pass_rate", percent, "held_out"),
    ...measure("pass rate on held-out tasks, greedy", "held_out_greedy", percent, "greedy"),
    ...measure("pass rate of training", "pass_rate", percent, "pass_rate"),
    ...measure("reward", "mean_reward", small, null),
    ...measure("KL to the first policy", "kl", small, null),
    ...measure("entropy", "entropy", small, null),
  ];
}

function small(value: number): string {
  if (value === 0) return "0";
  return Math.abs(value) < 0.001 || Math.abs(value) >= 10_000
    ? value.toExponential(0)
    : String(Number(value.toPrecision(2)));
}

/** The mean of up to five steps on either side. */
export function smoothed(values: Values): (number | null)[] {
  return values.map((_, at) => {
    const near = values.slice(Math.max(0, at - 5), at + 6).flatMap((value) => value ?? []);
    return near.length === 0 ? null : near.reduce((sum, one) => sum + one, 0) / near.length;
  });
}
