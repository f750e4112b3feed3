// A training from first evaluation to comparison: measures the model, lets it learn step by step, measures it again on the same
// tasks. Owns the contents of the folder, the time, and the reasons to stop; prints nothing.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Taskset } from "../core/index.ts";
import type { RunEpisode } from "../rollout/index.ts";
import { CollapseWatch } from "./collapse-watch.ts";
import { type ComparedKind, compare, evaluatePolicy, passRateOf, type TaskOutcome } from "./comparison.ts";
import type { LearnerState, StepMetrics } from "./policy-learner.ts";
import type { Trainer } from "./trainer.ts";
import {
  appendMetrics,
  type PassRateCurve,
  passRatePlot,
  readMetrics,
  readOutcomes,
  type SavedTraining,
  saveTraining,
  writeMetrics,
  writeOutcomes,
} from "./training-folder.ts";

/** An algorithm: makes one step after the other. */
export interface Learner {
  readonly state: LearnerState;
  /** `null`: the signal aborted it, and nothing has changed. The engine has the new weights afterwards. */
  step(signal: AbortSignal): Promise<StepMetrics | null>;
}

/** Why a training ended. Only "collapse" is a bad end. */
export type TrainingEnd = { readonly type: "steps" | "minutes" | "interrupted" | "collapse"; readonly reason: string };

export type TrainingResult = {
  readonly end: TrainingEnd;
  /** Made in all, those before a resumption included. */
  readonly steps: number;
  /** Folder of the last checkpoint. */
  readonly checkpoint: string;
  /** Before and after on the same held-out tasks: of all, then of each kind. `null`: it was interrupted. */
  readonly comparison: readonly ComparedKind[] | null;
  /** Of all processes together. */
  readonly elapsedMs: number;
};

export type TrainingProgress = {
  readonly curve: PassRateCurve;
  /** Of the last step; `null` before the first. */
  readonly metrics: StepMetrics | null;
  /** What is in progress: "step 3", or "evaluating: 4 of 21 held-out tasks". */
  readonly activity: string;
  /** Of all processes together. */
  readonly elapsedMs: number;
  readonly budgetMs: number;
};

export type TrainingEvent =
  /** A line for people. */
  | { readonly type: "notice"; readonly message: string }
  /** A step was made, an evaluation moved on. */
  | { readonly type: "progress"; readonly progress: TrainingProgress };

export type HeldOutTasks = {
  readonly taskset: Taskset;
  /** Indexes for the comparison of before and after. */
  readonly final: readonly number[];
  /** Indexes for evaluations during the training; the first of `final`. */
  readonly periodic: readonly number[];
  readonly kindOf: (taskset: Taskset, index: number) => string;
};

export type TrainingRunOptions = {
  readonly learner: Learner;
  readonly trainer: Trainer;
  readonly runEpisode: RunEpisode;
  readonly heldOut: HeldOutTasks;
  /** Of evaluations. */
  readonly seed: number;
  /** Absolute; exists. */
  readonly folder: string;
  /** Of the model that the training began with, absolute; its tokenizer goes into every checkpoint. */
  readonly modelFolder: string;
  readonly endTokenId: number;
  /** Title of the plot. */
  readonly title: string;
  /** For everything, the closing evaluation included. */
  readonly minutes: number;
  /** `null`: as many as the minutes allow. */
  readonly steps: number | null;
  /** Steps between evaluations; 0: before and after alone. */
  readonly evalEvery: number;
  readonly checkpointEvery: number;
  /** False: a collapse does not stop it. */
  readonly stopsAtCollapse: boolean;
  /** To continue; `null`: it begins. */
  readonly saved: SavedTraining | null;
  /** The running step is finished and saved; an evaluation stops at once. */
  readonly drain: AbortSignal;
  /** Everything stops at once. */
  readonly signal: AbortSignal;
  readonly onEvent: (event: TrainingEvent) => void;
};

const interrupted: TrainingEnd = { type: "interrupted", reason: "it was interrupted" };

export class TrainingRun {
  readonly #options: TrainingRunOptions;
  /** Nothing of an evaluation is saved: either signal stops it. */
  readonly #stop: AbortSignal;
  readonly #watch = new CollapseWatch();
  readonly #rows: StepMetrics[] = [];
  readonly #curve: { -readonly [Name in keyof PassRateCurve]: PassRateCurve[Name][number][] } = {
    training: [],
    evaluations: [],
  };
  readonly #begun = performance.now();
  /** What an evaluation of all held-out tasks takes; reserved for the end. */
  #evaluationMs = 0;
  #lastCheckpoint = "";

  constructor(options: TrainingRunOptions) {
    this.#options = options;
    this.#stop = AbortSignal.any([options.drain, options.signal]);
  }

  /** Rejects with what stopped the learner. */
  async run(): Promise<TrainingResult> {
    const { learner } = this.#options;
    await this.#restore();
    const before = await this.#before();
    if (before !== null) {
      this.#notice(`before: ${(passRateOf(before) * 100).toFixed(1)} % of ${before.length} held-out tasks`);
    }
    const end = before === null ? interrupted : await this.#learn();
    if (this.#lastCheckpoint === "") await this.#save();
    const after = before === null || end.type === "interrupted" ? null : await this.#evaluate("final");
    const comparison = before === null || after === null ? null : compare(before, after);
    if (after !== null) {
      await writeOutcomes(this.#path("after.jsonl"), after);
      const result = { end, steps: learner.state.step, elapsedMs: Math.round(this.#elapsedMs()), comparison };
      await writeFile(this.#path("result.json"), `${JSON.stringify(result, null, 2)}\n`);
    }
    return {
      end: comparison === null && end.type !== "collapse" ? interrupted : end,
      steps: learner.state.step,
      checkpoint: this.#lastCheckpoint,
      comparison,
      elapsedMs: this.#elapsedMs(),
    };
  }

  /** The steps up to the checkpoint; those after it are dropped. */
  async #restore(): Promise<void> {
    const { saved } = this.#options;
    if (saved === null) return;
    this.#lastCheckpoint = saved.folder;
    const rows = await readMetrics(this.#path("metrics.csv"));
    for (const row of rows.filter((one) => (one["step"] ?? 0) <= saved.state.step)) this.#remember(row);
    await writeMetrics(this.#path("metrics.csv"), this.#rows);
  }

  async #learn(): Promise<TrainingEnd> {
    const { learner, steps, minutes, evalEvery, checkpointEvery, drain, signal, title } = this.#options;
    for (;;) {
      const { step } = learner.state;
      if (steps !== null && step >= steps) return { type: "steps", reason: `${step} steps are made` };
      if (!this.#hasTime()) return { type: "minutes", reason: `the ${minutes} minutes are over` };
      if (drain.aborted || signal.aborted) return this.#interrupt();
      this.#report(`step ${step + 1}`);
      const metrics = await learner.step(signal);
      if (metrics === null) return this.#interrupt();
      const isDue = evalEvery > 0 && learner.state.step % evalEvery === 0;
      const outcomes = isDue ? await this.#evaluate("periodic") : null;
      const row = { ...metrics, held_out_pass_rate: outcomes === null ? null : passRateOf(outcomes) };
      await appendMetrics(this.#path("metrics.csv"), row, this.#rows.length === 0);
      const collapse = this.#remember(row);
      await writeFile(this.#path("pass-rate.svg"), passRatePlot(this.#curve, title));
      this.#report("");
      const isLast = learner.state.step === steps || collapse !== null || drain.aborted || !this.#hasTime();
      if (isLast || learner.state.step % checkpointEvery === 0) await this.#save();
      if (collapse !== null) {
        this.#notice(`Stopped at step ${learner.state.step}: ${collapse}.`);
        return { type: "collapse", reason: collapse };
      }
    }
  }

  /** Why this row is a reason to stop. */
  #remember(row: StepMetrics): string | null {
    this.#rows.push(row);
    const step = row["step"] ?? 0;
    const value = (name: string): number | null => row[name] ?? null;
    const [passRate, heldOut] = [value("pass_rate"), value("held_out_pass_rate")];
    if (passRate !== null) this.#curve.training.push({ step, rate: passRate });
    if (heldOut !== null) this.#curve.evaluations.push({ step, rate: heldOut });
    const watched = { passRate, entropy: value("entropy"), commonestBehaviour: value("commonest_behaviour") };
    const reason = this.#watch.step(watched) ?? (heldOut === null ? null : this.#watch.evaluation(heldOut));
    return this.#options.stopsAtCollapse ? reason : null;
  }

  async #before(): Promise<readonly TaskOutcome[] | null> {
    const { saved, heldOut } = this.#options;
    const known = saved === null ? null : await readOutcomes(this.#path("before.jsonl"), heldOut.final.length);
    const begun = performance.now();
    const before = known ?? (await this.#evaluate("final"));
    if (known === null) this.#evaluationMs = performance.now() - begun;
    if (before === null) return null;
    if (known === null) await writeOutcomes(this.#path("before.jsonl"), before);
    const rate = passRateOf(before.slice(0, heldOut.periodic.length));
    this.#curve.evaluations.unshift({ step: 0, rate });
    if (known === null) this.#watch.evaluation(rate);
    return before;
  }

  #evaluate(which: "final" | "periodic"): Promise<readonly TaskOutcome[] | null> {
    const { runEpisode, heldOut, seed } = this.#options;
    const indexes = heldOut[which];
    return evaluatePolicy(indexes, {
      ...{ runEpisode, seed, taskset: heldOut.taskset, kindOf: heldOut.kindOf, signal: this.#stop },
      onEpisode: (finished) => this.#report(`evaluating: ${finished} of ${indexes.length} held-out tasks`),
    });
  }

  async #interrupt(): Promise<TrainingEnd> {
    if (this.#rows.length > 0) await this.#save();
    return interrupted;
  }

  async #save(): Promise<void> {
    const { folder, trainer, learner, modelFolder, endTokenId } = this.#options;
    this.#lastCheckpoint = await saveTraining(folder, {
      checkpoint: { config: trainer.config, weights: trainer.weights() },
      optimizer: await trainer.optimizerState(),
      state: learner.state,
      elapsedMs: this.#elapsedMs(),
      modelFolder,
      endTokenId,
    });
  }

  #path(name: string): string {
    return join(this.#options.folder, name);
  }

  #notice(message: string): void {
    this.#options.onEvent({ type: "notice", message });
  }

  #report(activity: string): void {
    const progress = {
      curve: this.#curve,
      metrics: this.#rows.at(-1) ?? null,
      activity,
      elapsedMs: this.#elapsedMs(),
      budgetMs: this.#options.minutes * 60_000,
    };
    this.#options.onEvent({ type: "progress", progress });
  }

  #elapsedMs(): number {
    return (this.#options.saved?.elapsedMs ?? 0) + performance.now() - this.#begun;
  }

  /** Whether another step and the closing evaluation fit. */
  #hasTime(): boolean {
    const last = this.#rows.at(-1);
    const stepMs = ((last?.["rollout_seconds"] ?? 0) + (last?.["train_seconds"] ?? 0)) * 1000;
    return this.#elapsedMs() + stepMs + this.#evaluationMs < this.#options.minutes * 60_000;
  }
}
