// A training from first evaluation to comparison: measures the model, lets it learn step by step,
// measures it again on the same tasks. Owns the contents of the folder, the time, and the reasons
// to stop; prints nothing.

import { join } from "node:path";
import type { Taskset } from "../core/index.ts";
import type { RunEpisode } from "../rollout/index.ts";
import { type Disk, storeFault } from "../store/index.ts";
import { type CollapseLimits, CollapseWatch } from "./collapse-watch.ts";
import {
  type ComparedKind,
  compare,
  trainingVerdict,
  evaluatePolicy,
  fallenCases,
  passRateOf,
  type TaskOutcome,
  type TaskTraits,
} from "./comparison.ts";
import type { LearnerState, StepMetrics } from "./policy-learner.ts";
import {
  appendMetrics,
  type CurvePoint,
  type PassRateCurve,
  passRatePlot,
  readMetrics,
  readOutcomes,
  replaceFile,
  type TrainingProgressSaved,
  writeMetrics,
  writeOutcomes,
} from "./training-folder.ts";
import { appendGroups, groupsFile, keepGroups, type StepGroups } from "./group-records.ts";

/** An algorithm: makes one step after another. */
export interface Learner {
  readonly state: LearnerState;
  /**
   * Resolves with `null` if the signal aborted it; nothing has changed then. Otherwise the engine
   * has the new weights.
   */
  step(signal: AbortSignal): Promise<StepMetrics | null>;
  /** Groups of the last step, for groups.jsonl. @default none are recorded */
  lastGroups?(): StepGroups | null;
}

/** Reason why a training ended. Only "collapse" is a bad end. */
export type TrainingEnd = {
  readonly type: "steps" | "minutes" | "interrupted" | "no-signal" | "collapse";
  readonly reason: string;
};

export type TrainingResult = {
  readonly end: TrainingEnd;
  /** Total number of steps, including those before a resumption. */
  readonly steps: number;
  /** Folder of the last checkpoint. */
  readonly checkpoint: string;
  /**
   * Pass rates before and after on the same held-out tasks, sampled as in training: for all, each
   * kind, each case. `null` if interrupted.
   */
  readonly comparison: readonly ComparedKind[] | null;
  /**
   * The same tasks at temperature 0. `null` if interrupted, or if the first evaluation had no
   * greedy run.
   */
  readonly greedy: readonly ComparedKind[] | null;
  /** One sentence: whether the pass rate rose, and by how much. `null` if interrupted. */
  readonly verdict: string | null;
  /**
   * Plainest cases whose pass rate fell, found at evaluations during the training and at its end.
   */
  readonly alarms: readonly string[];
  /** Time of all processes together. */
  readonly elapsedMs: number;
};

export type TrainingProgress = {
  readonly curve: PassRateCurve;
  /** Metrics of the last step; `null` before the first. */
  readonly metrics: StepMetrics | null;
  /** Current activity: "step 3", or "evaluating: 4 of 21 held-out tasks". */
  readonly activity: string;
  /** Time of all processes together. */
  readonly elapsedMs: number;
  readonly budgetMs: number;
};

export type TrainingEvent =
  /** A line for people. */
  | { readonly type: "notice"; readonly message: string }
  /** A step was made, or an evaluation progressed. */
  | { readonly type: "progress"; readonly progress: TrainingProgress };

export type HeldOutTasks = {
  readonly taskset: Taskset;
  /** Indexes for the comparison of before and after. */
  readonly final: readonly number[];
  /** Indexes for evaluations during the training; a prefix of `final`. */
  readonly periodic: readonly number[];
  readonly traitsOf: (taskset: Taskset, index: number) => TaskTraits;
};

/** The same tasks in two ways: at the temperature of training, and at 0. Aligned with each other. */
type Evaluation = { readonly sampled: readonly TaskOutcome[]; readonly greedy: readonly TaskOutcome[] };

export type TrainingRunOptions = {
  readonly learner: Learner;
  /** Writes a checkpoint; resolves with its folder. */
  readonly save: (progress: Omit<TrainingProgressSaved, "folder">) => Promise<string>;
  /**
   * Receives the folder of a checkpoint that passed more periodic tasks greedily than all before
   * it, the untrained model included. @default none
   */
  readonly onBest?: (checkpoint: string) => Promise<void>;
  readonly runEpisode: RunEpisode;
  /** Runs at temperature 0, which shows what was learnt apart from a reduction of noise. */
  readonly runGreedily: RunEpisode;
  readonly heldOut: HeldOutTasks;
  /** Seed of evaluations. */
  readonly seed: number;
  /** Folder of the training, absolute; must exist. */
  readonly folder: string;
  /** The disk of the folder: writes wait for it for the time that it allows. */
  readonly disk: Disk;
  /** Title of the plot. */
  readonly title: string;
  /** Time limit for everything, including the closing evaluation. */
  readonly minutes: number;
  /** Start of the time, by `performance.now()`: making the model counts. @default now */
  readonly begun?: number;
  /** Number of steps; `null` for as many as the minutes allow. */
  readonly steps: number | null;
  /** Steps between evaluations; 0: only before and after. */
  readonly evalEvery: number;
  readonly checkpointEvery: number;
  /** Signs of a collapse. @default those of small models */
  readonly collapse?: CollapseLimits;
  /** False if a collapse does not stop the training. */
  readonly stopsAtCollapse: boolean;
  /** Training to continue; `null` to begin. */
  readonly saved: TrainingProgressSaved | null;
  /** Stops after the step in progress, which is saved; stops an evaluation at once. */
  readonly drain: AbortSignal;
  /** Stops everything at once. */
  readonly signal: AbortSignal;
  readonly onEvent: (event: TrainingEvent) => void;
  /**
   * Receives each row of metrics.csv once it is written; a resumed training makes the steps after
   * its checkpoint again. @default none
   */
  readonly onStep?: (row: StepMetrics) => void;
};

/** Number of steps without any signal after which there is nothing left to learn from. */
const silentSteps = 3;

const interrupted: TrainingEnd = { type: "interrupted", reason: "it was interrupted" };

/** Rejects with the error that stopped the learner. */
export async function runTraining(options: TrainingRunOptions): Promise<TrainingResult> {
  const { learner, heldOut, folder, minutes, steps, saved, drain, signal, onEvent } = options;
  const rows: StepMetrics[] = [];
  const curve: Record<keyof PassRateCurve, CurvePoint[]> = { training: [], evaluations: [], greedy: [] };
  const alarms = new Set<string>();
  const watch = new CollapseWatch(options.collapse);
  const { begun = performance.now() } = options;
  let lastCheckpoint = saved?.folder ?? "";
  /** Duration of an evaluation of all held-out tasks; reserved for the end. */
  let evaluationMs = 0;
  const outOfTime = `the ${minutes} minutes are over`;
  const path = (name: string): string => join(folder, name);
  const notice = (message: string): void => onEvent({ type: "notice", message });
  const elapsedMs = (): number => (saved?.elapsedMs ?? 0) + performance.now() - begun;

  if (saved !== null) {
    // The steps up to the checkpoint; those after it are dropped.
    const kept = (await readMetrics(path("metrics.csv"))).filter((row) => (row["step"] ?? 0) <= saved.state.step);
    // Rows written by versions without greedy evaluation lack this column.
    kept.forEach((row) => remember({ ...row, held_out_greedy: row["held_out_greedy"] ?? null }));
    await keep(() => writeMetrics(path("metrics.csv"), rows));
    await keep(() => keepGroups(path(groupsFile), saved.state.step));
  }
  const before = await evaluateBefore();
  if (before !== null) notice(`before: ${ratesText(before)} of ${before.sampled.length} held-out tasks`);
  const end = before === null ? interrupted : await learn();
  if (lastCheckpoint === "") await save();
  const after = before === null || end.type === "interrupted" ? null : await evaluate("final");
  const comparison = before === null || after === null ? null : compare(before.sampled, after.sampled);
  const isGreedyKnown = before !== null && before.greedy.length > 0;
  const comparedGreedily = after === null || !isGreedyKnown ? null : compare(before.greedy, after.greedy);
  const verdict =
    comparison === null
      ? null
      : trainingVerdict({
          sampled: comparison[0]!,
          greedy: comparedGreedily?.[0] ?? null,
          steps: learner.state.step,
          taught: rows.length === 0 || rows.some((row) => (row["trained_tokens"] ?? row["loss"] ?? 0) !== 0),
          minutes,
        });
  if (before !== null && after !== null) {
    watchCases(before, after);
    await writeEvaluation("after", after);
    const result = {
      end,
      steps: learner.state.step,
      elapsedMs: Math.round(elapsedMs()),
      comparison,
      greedy: comparedGreedily,
      verdict,
      alarms: [...alarms],
    };
    await keep(() => replaceFile(path("result.json"), `${JSON.stringify(result, null, 2)}\n`));
  }
  return {
    end: comparison === null && end.type !== "collapse" ? interrupted : end,
    steps: learner.state.step,
    checkpoint: lastCheckpoint,
    comparison,
    greedy: comparedGreedily,
    verdict,
    alarms: [...alarms],
    elapsedMs: elapsedMs(),
  };

  async function learn(): Promise<TrainingEnd> {
    for (;;) {
      const { step } = learner.state;
      if (steps !== null && step >= steps) return { type: "steps", reason: `${step} steps are done` };
      if (!hasTime()) return { type: "minutes", reason: outOfTime };
      const isStopped = drain.aborted || signal.aborted;
      if (!isStopped) report(`step ${step + 1}`);
      const deadline = new AbortController();
      const timer = setTimeout(() => deadline.abort(), Math.min(remainingMs(), 2 ** 31 - 1));
      const stop = AbortSignal.any([signal, deadline.signal]);
      const metrics = isStopped ? null : await learner.step(stop).finally(() => clearTimeout(timer));
      clearTimeout(timer);
      if (metrics === null) {
        if (rows.length > 0) await save();
        return isStopped || signal.aborted ? interrupted : { type: "minutes", reason: outOfTime };
      }
      const made = learner.state.step;
      const isDue = options.evalEvery > 0 && made % options.evalEvery === 0;
      const found = isDue ? await evaluate("periodic") : null;
      if (found !== null && before !== null) watchCases(before, found);
      const row = {
        ...metrics,
        held_out_pass_rate: found === null ? null : passRateOf(found.sampled),
        held_out_greedy: found === null ? null : passRateOf(found.greedy),
      };
      const groups = learner.lastGroups?.() ?? null;
      if (groups !== null) await keep(() => appendGroups(path(groupsFile), { step: made, ...groups }));
      await keep(() => appendMetrics(path("metrics.csv"), row, rows.length === 0));
      options.onStep?.(row);
      const collapse = remember(row);
      await keep(() => replaceFile(path("pass-rate.svg"), passRatePlot(curve, options.title)));
      report("");
      const silence = silenceIn(rows);
      const isLast = made === steps || (collapse ?? silence) !== null || drain.aborted || !hasTime();
      if (isLast || isBest(row) || made % options.checkpointEvery === 0) await save();
      if (isBest(row)) await keepBest();
      if (collapse !== null) {
        notice(`Stopped at step ${made}: ${collapse}.`);
        return { type: "collapse", reason: collapse };
      }
      if (silence !== null) {
        notice(`Stopped at step ${made}: ${silence}.`);
        return { type: "no-signal", reason: silence };
      }
    }
  }

  /** True if the newest row passed more held-out tasks greedily than every evaluation before it. */
  function isBest({ held_out_greedy: rate = null }: StepMetrics): boolean {
    return rate !== null && curve.greedy.slice(0, -1).every((earlier) => earlier.rate < rate);
  }

  async function keepBest(): Promise<void> {
    await keep(async () => options.onBest?.(lastCheckpoint));
  }

  /** Records the row; returns a reason to stop, or `null`. */
  function remember(row: StepMetrics): string | null {
    rows.push(row);
    const { step, pass_rate: passRate = null, held_out_pass_rate: heldOutRate = null } = row;
    if (passRate !== null) curve.training.push({ step: step ?? 0, rate: passRate });
    if (heldOutRate !== null) curve.evaluations.push({ step: step ?? 0, rate: heldOutRate });
    const { held_out_greedy: greedyRate = null } = row;
    if (greedyRate !== null) curve.greedy.push({ step: step ?? 0, rate: greedyRate });
    const { entropy = null, commonest_behaviour: commonestBehaviour = null } = row;
    const watched = watch.step({ passRate, entropy, commonestBehaviour });
    const reason = watched ?? (heldOutRate === null ? null : watch.evaluation(heldOutRate));
    return options.stopsAtCollapse ? reason : null;
  }

  async function evaluateBefore(): Promise<Evaluation | null> {
    const known = saved === null ? null : await readEvaluation("before");
    const started = performance.now();
    const found = known ?? (await evaluate("final"));
    if (known === null) evaluationMs = performance.now() - started;
    if (found === null) return null;
    const rateOf = (outcomes: readonly TaskOutcome[]): number => passRateOf(outcomes.slice(0, heldOut.periodic.length));
    curve.evaluations.unshift({ step: 0, rate: rateOf(found.sampled) });
    if (found.greedy.length > 0) curve.greedy.unshift({ step: 0, rate: rateOf(found.greedy) });
    if (known === null) {
      await writeEvaluation("before", found);
      watch.evaluation(rateOf(found.sampled));
    }
    return found;
  }

  /** No part of an evaluation is saved, so either signal stops it. */
  async function evaluate(which: "final" | "periodic"): Promise<Evaluation | null> {
    const { taskset, traitsOf, [which]: indexes } = heldOut;
    const evaluateBy = (runEpisode: RunEpisode, how: string): Promise<readonly TaskOutcome[] | null> =>
      evaluatePolicy(indexes, {
        runEpisode,
        seed: options.seed,
        taskset,
        traitsOf,
        signal: AbortSignal.any([drain, signal]),
        onEpisode: (finished) => report(`evaluating${how}: ${finished} of ${indexes.length} held-out tasks`),
      });
    const sampled = await evaluateBy(options.runEpisode, "");
    const greedy = sampled === null ? null : await evaluateBy(options.runGreedily, " greedily");
    return sampled === null || greedy === null ? null : { sampled, greedy };
  }

  /**
   * Reports at once a plain case that the model could do and has lost, instead of only in the last
   * table.
   */
  function watchCases(first: Evaluation, now: Evaluation): void {
    const { step } = learner.state;
    for (const how of ["sampled", "greedy"] as const) {
      for (const { kind, tasks, before: was, after: is } of fallenCases(
        first[how].slice(0, now[how].length),
        now[how],
      )) {
        const rates = `from ${(was * 100).toFixed(0)} % to ${(is * 100).toFixed(0)} % of ${tasks} tasks`;
        const alarm = `${kind} fell ${rates} by step ${step}, ${how === "greedy" ? "greedily" : "sampled"}`;
        if (!alarms.has(alarm)) notice(`ALARM: ${alarm}`);
        alarms.add(alarm);
      }
    }
  }

  async function writeEvaluation(when: "before" | "after", { sampled, greedy }: Evaluation): Promise<void> {
    await keep(() => writeOutcomes(path(`${when}-greedy.jsonl`), greedy));
    await keep(() => writeOutcomes(path(`${when}.jsonl`), sampled));
  }

  async function readEvaluation(when: "before"): Promise<Evaluation | null> {
    const { length } = heldOut.final;
    const sampled = await readOutcomes(path(`${when}.jsonl`), length);
    // Without its greedy outcomes, which a deleted file may have held, the first weights are gone.
    const greedy = (await readOutcomes(path(`${when}-greedy.jsonl`), length)) ?? [];
    return sampled === null ? null : { sampled, greedy };
  }

  async function save(): Promise<void> {
    const progress = { state: learner.state, elapsedMs: elapsedMs() };
    lastCheckpoint = await keep(() => options.save(progress));
  }

  /**
   * Writes, waiting for the disk as long as it allows. Rejects with a failure of the store, which
   * names the remedy.
   */
  async function keep<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await options.disk.repeat(write);
    } catch (error) {
      throw storeFault("keep the training", folder, error);
    }
  }

  function report(activity: string): void {
    const metrics = rows.at(-1) ?? null;
    const progress = { curve, metrics, activity, elapsedMs: elapsedMs(), budgetMs: minutes * 60_000 };
    onEvent({ type: "progress", progress });
  }

  /** True if there is time for another step and the closing evaluation. */
  function hasTime(): boolean {
    const { rollout_seconds: rollout, train_seconds: training } = rows.at(-1) ?? {};
    const stepMs = ((rollout ?? 0) + (training ?? 0)) * 1000;
    return remainingMs() > stepMs;
  }

  /** Time that steps may still take; the closing evaluation needs the rest. */
  function remainingMs(): number {
    return minutes * 60_000 - elapsedMs() - evaluationMs;
  }
}

/** Reason to stop when the newest steps had no group whose rewards differ; `null` otherwise. */
function silenceIn(rows: readonly StepMetrics[]): string | null {
  const newest = rows.slice(-silentSteps);
  if (newest.length < silentSteps || newest.some((row) => row["live_groups"] !== 0)) return null;
  const groups = newest.reduce((sum, row) => sum + (row["groups"] ?? 0), 0);
  const rate = newest.reduce((sum, row) => sum + (row["pass_rate"] ?? 0), 0) / silentSteps;
  const found = `in ${groups} groups of ${silentSteps} steps all episodes of a task earned the same`;
  if (rate > 0.99) return `everything is learnt: ${found}, and they pass`;
  if (rate < 0.01) return `there is nothing to learn from: ${found}, and none passes`;
  return `there is nothing left to learn from: ${found}, and ${(rate * 100).toFixed(0)} % pass`;
}

function ratesText({ sampled, greedy }: Evaluation): string {
  const percent = (outcomes: readonly TaskOutcome[]): string => `${(passRateOf(outcomes) * 100).toFixed(1)} %`;
  return greedy.length === 0 ? percent(sampled) : `${percent(sampled)} sampled and ${percent(greedy)} greedily`;
}
