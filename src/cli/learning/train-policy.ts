// A training from settings to comparison: measures the model, lets it learn step by step, measures it again on the same
// tasks. Owns the folder, the display, the time, and the reasons to stop.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { setMaxListeners } from "node:events";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { ConfigurationError } from "../../core/index.ts";
import { CollapseWatch, createTrainer, firstState, type Trainer } from "../../learner/index.ts";
import { loadKernels } from "../../learner/model/index.ts";
import { formatDuration, formatPercent } from "../display/terminal-text.ts";
import { packageVersion } from "../../api/run-manifest.ts";
import { settingsRecord } from "../../api/resolve-settings.ts";
import { compare, type ComparedKind } from "./comparison.ts";
import { evaluatePolicy, passRateOf, type TaskOutcome } from "./evaluate-policy.ts";
import { createLearningDisplay, type LearningDisplay } from "./learning-display.ts";
import { loadTraining, type SavedTraining, saveTraining } from "./learning-folder.ts";
import { createStepper, type Stepper } from "./learning-steps.ts";
import { appendMetrics, type MetricsRow, readMetrics, writeMetrics } from "./metrics-file.ts";
import { passRatePlot } from "./pass-rate-plot.ts";
import { type PreparedLearning, prepareLearning } from "./prepare-learning.ts";
import type { TrainingOptions } from "./training-options.ts";
import type { ChartData } from "./terminal-chart.ts";
import { sayWhenInterrupted } from "../until-aborted.ts";

/** Why a training ended. Only "collapse" is a bad end. */
export type TrainingEnd = { readonly type: "steps" | "minutes" | "interrupted" | "collapse"; readonly reason: string };

export type TrainingResult = {
  readonly end: TrainingEnd;
  readonly steps: number;
  /** The last checkpoint. */
  readonly checkpoint: string;
  /** `null` when it was interrupted. */
  readonly comparison: readonly ComparedKind[] | null;
  readonly elapsedMs: number;
};

/** Rejects with a `ConfigurationError` for what the user can correct, and with what stopped the learner. */
export async function trainPolicy(options: TrainingOptions): Promise<TrainingResult> {
  const { settings, base, folder, context } = options;
  const prepared = await prepareLearning(settings, base, context);
  const saved = settings.resume === null ? null : await loadTraining(folder);
  const threads = settings.threads ?? Math.min(8, availableParallelism());
  const checkpoint = saved?.checkpoint ?? prepared.checkpoint;
  await mkdir(folder, { recursive: true });
  // Of an evaluation nothing is kept: the first Ctrl-C stops it.
  const stop = AbortSignal.any([context.drain, context.cancel]);
  // Every episode that runs listens to one of them, and all of them run at once.
  setMaxListeners(0, context.cancel, stop);
  const trainer = await createTrainer(checkpoint, {
    threads,
    ...(saved === null ? {} : { optimizer: saved.optimizer }),
  });
  const engine = prepared.startEngine(checkpoint, `step-${saved?.state.step ?? 0}`);
  const display = createLearningDisplay(context, { quiet: base.quiet });
  const unsay = sayWhenInterrupted(context.drain, () =>
    display.note("Interrupted: the running step is finished and saved. Press Ctrl-C again to stop where it is."),
  );
  try {
    const play = prepared.playerOf(engine);
    const stepper = await createStepper({
      ...options,
      prepared,
      trainer,
      play,
      publish: (weights, version) => engine.updateWeights(weights, version),
      state: saved?.state ?? firstState,
    });
    if (saved === null) await describe(options, prepared, threads);
    return await new Training({ ...options, prepared, trainer, stepper, play, display, saved, stop }).run();
  } finally {
    unsay();
    display.stop();
    await Promise.all([engine.close(), trainer.close()]);
  }
}

async function describe(
  { settings, base, folder }: TrainingOptions,
  prepared: PreparedLearning,
  threads: number,
): Promise<void> {
  const facts = {
    format: 1,
    versions: { "trainable-agents": packageVersion(), node: process.versions.node },
    kernels: loadKernels().build,
    threads,
    environment: prepared.environmentName,
    split: prepared.split,
    model: prepared.modelFolder,
    learning: settings,
    configuration: settingsRecord(base),
  };
  await writeFile(join(folder, "train.json"), `${JSON.stringify(facts, null, 2)}\n`);
}

type TrainingParts = TrainingOptions & {
  readonly prepared: PreparedLearning;
  readonly trainer: Trainer;
  readonly stepper: Stepper;
  readonly play: ReturnType<PreparedLearning["playerOf"]>;
  readonly display: LearningDisplay;
  readonly saved: SavedTraining | null;
  readonly stop: AbortSignal;
};

class Training {
  readonly #parts: TrainingParts;
  readonly #watch = new CollapseWatch();
  readonly #rows: MetricsRow[] = [];
  readonly #chart: { training: ChartData["training"][number][]; evaluations: ChartData["evaluations"][number][] } = {
    training: [],
    evaluations: [],
  };
  readonly #begun = performance.now();
  /** What an evaluation of all held-out tasks takes; kept free at the end. */
  #evaluationMs = 0;
  #lastCheckpoint = "";

  constructor(parts: TrainingParts) {
    this.#parts = parts;
  }

  async run(): Promise<TrainingResult> {
    const { display, prepared, folder, stepper, settings } = this.#parts;
    await this.#takeUp();
    display.note(
      `${prepared.environmentName} (${prepared.split}), ${prepared.modelFolder}, ${settings.algorithm}; writing to ${folder}`,
    );
    const before = await this.#before();
    if (before !== null)
      display.note(`before: ${formatPercent(passRateOf(before))} of ${before.length} held-out tasks`);
    const end = before === null ? interrupted : await this.#learn();
    if (this.#lastCheckpoint === "") await this.#save();
    const after = before === null || end.type === "interrupted" ? null : await this.#evaluate("final");
    const comparison = before === null || after === null ? null : compare(before, after);
    if (after !== null) {
      await this.#writeOutcomes("after", after);
      const result = { end, steps: stepper.state.step, elapsedMs: Math.round(this.#elapsedMs()), comparison };
      await writeFile(join(folder, "result.json"), `${JSON.stringify(result, null, 2)}\n`);
    }
    return {
      end: comparison === null && end.type !== "collapse" ? interrupted : end,
      steps: stepper.state.step,
      checkpoint: this.#lastCheckpoint,
      comparison,
      elapsedMs: this.#elapsedMs(),
    };
  }

  /** What a resumed run knows of its past: the rows up to its checkpoint. */
  async #takeUp(): Promise<void> {
    const { saved, folder } = this.#parts;
    if (saved === null) return;
    this.#lastCheckpoint = saved.folder;
    const rows = await readMetrics(join(folder, "metrics.csv"));
    for (const row of rows.filter((one) => (one["step"] ?? 0) <= saved.state.step)) this.#remember(row);
    await writeMetrics(join(folder, "metrics.csv"), this.#rows);
  }

  async #learn(): Promise<TrainingEnd> {
    const { stepper, settings, context, display, folder } = this.#parts;
    const { drain, cancel } = context;
    for (;;) {
      const { step } = stepper.state;
      if (settings.steps !== null && step >= settings.steps) {
        return { type: "steps", reason: `${step} steps are made` };
      }
      if (!this.#hasTime()) return { type: "minutes", reason: `the ${settings.minutes} minutes are over` };
      if (drain.aborted || cancel.aborted) return this.#interrupt();
      this.#show(`step ${step + 1}`);
      const metrics = await stepper.step(cancel);
      if (metrics === null) return this.#interrupt();
      const isDue = settings.evalEvery > 0 && stepper.state.step % settings.evalEvery === 0;
      const outcomes = isDue ? await this.#evaluate("onTheWay") : null;
      const row = { ...metrics, held_out_pass_rate: outcomes === null ? null : passRateOf(outcomes) };
      await appendMetrics(join(folder, "metrics.csv"), row, this.#rows.length === 0);
      const collapse = this.#remember(row);
      await this.#plot();
      this.#show("");
      const isSaved = stepper.state.step % settings.checkpointEvery === 0;
      if (isSaved || collapse !== null || drain.aborted || !this.#hasTime() || this.#isLast()) await this.#save();
      if (collapse !== null) {
        display.note(`Stopped at step ${stepper.state.step}: ${collapse}.`);
        return { type: "collapse", reason: collapse };
      }
    }
  }

  /** Why this row is a reason to stop. */
  #remember(row: MetricsRow): string | null {
    this.#rows.push(row);
    const step = row["step"] ?? 0;
    const value = (name: string): number | null => row[name] ?? null;
    const [passRate, heldOut] = [value("pass_rate"), value("held_out_pass_rate")];
    if (passRate !== null) this.#chart.training.push({ step, rate: passRate });
    if (heldOut !== null) this.#chart.evaluations.push({ step, rate: heldOut });
    const watched = { passRate, entropy: value("entropy"), commonestBehaviour: value("commonest_behaviour") };
    const reason = this.#watch.step(watched) ?? (heldOut === null ? null : this.#watch.evaluation(heldOut));
    return (this.#parts.sabotage ?? "none") === "none" ? reason : null;
  }

  async #before(): Promise<readonly TaskOutcome[] | null> {
    const known = this.#parts.saved === null ? null : await this.#readOutcomes("before");
    const begun = performance.now();
    const before = known ?? (await this.#evaluate("final"));
    if (known === null) this.#evaluationMs = performance.now() - begun;
    if (before === null) return null;
    if (known === null) await this.#writeOutcomes("before", before);
    const onTheWay = before.slice(0, this.#parts.prepared.heldOut.onTheWay.length);
    this.#chart.evaluations.unshift({ step: 0, rate: passRateOf(onTheWay) });
    if (known === null) this.#watch.evaluation(passRateOf(onTheWay));
    return before;
  }

  async #evaluate(which: "final" | "onTheWay"): Promise<readonly TaskOutcome[] | null> {
    const { prepared, play, base, stop } = this.#parts;
    const { heldOut } = prepared;
    const indexes = heldOut[which];
    const parts = { play, taskset: heldOut.taskset, kindOf: prepared.kindOf, seed: base.seed };
    return evaluatePolicy(indexes, parts, {
      signal: stop,
      onEpisode: (finished) => this.#show(`evaluating: ${finished} of ${indexes.length} held-out tasks`),
    });
  }

  async #interrupt(): Promise<TrainingEnd> {
    if (this.#rows.length > 0) await this.#save();
    return interrupted;
  }

  async #save(): Promise<void> {
    const { folder, trainer, stepper, prepared, context } = this.#parts;
    this.#lastCheckpoint = await saveTraining(folder, {
      checkpoint: { config: trainer.config, weights: trainer.weights() },
      optimizer: await trainer.optimizerState(),
      state: stepper.state,
      elapsedMs: this.#elapsedMs(),
      modelFolder: resolve(context.cwd, prepared.modelFolder),
      endTokenId: prepared.endTokenId,
    });
  }

  async #plot(): Promise<void> {
    const { folder, prepared, settings } = this.#parts;
    const title = `${prepared.environmentName}: ${settings.algorithm}, pass rate at temperature 1`;
    await writeFile(join(folder, "pass-rate.svg"), passRatePlot(this.#chart, title));
  }

  #show(doing: string): void {
    const { display, settings } = this.#parts;
    display.update({
      chart: this.#chart,
      metrics: this.#rows.at(-1) ?? null,
      doing,
      elapsedMs: this.#elapsedMs(),
      budgetMs: settings.minutes * 60_000,
    });
  }

  #elapsedMs(): number {
    return (this.#parts.saved?.elapsedMs ?? 0) + performance.now() - this.#begun;
  }

  /** Whether another step and the closing evaluation fit. */
  #hasTime(): boolean {
    const last = this.#rows.at(-1);
    const stepMs = ((last?.["rollout_seconds"] ?? 0) + (last?.["train_seconds"] ?? 0)) * 1000;
    return this.#elapsedMs() + stepMs + this.#evaluationMs < this.#parts.settings.minutes * 60_000;
  }

  #isLast(): boolean {
    return this.#parts.stepper.state.step === this.#parts.settings.steps;
  }

  async #writeOutcomes(name: "before" | "after", outcomes: readonly TaskOutcome[]): Promise<void> {
    const text = outcomes.map((outcome) => `${JSON.stringify(outcome)}\n`).join("");
    await writeFile(join(this.#parts.folder, `${name}.jsonl`), text);
  }

  async #readOutcomes(name: "before"): Promise<readonly TaskOutcome[] | null> {
    const path = join(this.#parts.folder, `${name}.jsonl`);
    const text = await readFile(path, "utf8").catch(() => null);
    if (text === null) return null;
    try {
      const outcomes = text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as TaskOutcome);
      return outcomes.length === this.#parts.prepared.heldOut.final.length ? outcomes : null;
    } catch (cause) {
      throw new ConfigurationError(`Cannot resume: "${path}" is broken; remove it, and it is made anew.`, { cause });
    }
  }
}

const interrupted: TrainingEnd = { type: "interrupted", reason: "it was interrupted" };

/** One line on how it ended. */
export function endLine({ end, steps, elapsedMs }: TrainingResult): string {
  return `${steps} steps in ${formatDuration(elapsedMs)}: ${end.reason}`;
}
