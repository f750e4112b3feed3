// Imitation: makes the tokens of given samples likelier, step by step. Epochs are shuffled by the seed and the epoch, so a
// resumed training goes on with the sample that was next.

import type { Sample } from "../core/index.ts";
import { createRandom, deriveSeed } from "../lib/random.ts";
import { cloningSequence } from "./loss.ts";
import type { StepMetrics } from "./policy-learner.ts";
import type { Trainer } from "./trainer.ts";

export type CloningOptions = {
  /** Samples of an update. */
  readonly batch: number;
  readonly learningRate: number;
  /** Steps over which the learning rate rises from 0. */
  readonly warmUpSteps: number;
  readonly maxGradientNorm: number | null;
  readonly weightDecay: number;
  readonly seed: number;
};

/** What of a sample is imitated. */
export type ClonedSample = Pick<Sample, "tokens" | "lossMask">;

export class CloningLearner {
  readonly #trainer: Trainer;
  readonly #samples: readonly ClonedSample[];
  readonly #options: CloningOptions;
  #step: number;

  /** `step`: steps made before. Throws a `RangeError` without samples. */
  constructor(
    trainer: Trainer,
    samples: readonly ClonedSample[],
    options: CloningOptions & { readonly step?: number },
  ) {
    if (samples.length === 0) throw new RangeError("Cannot imitate: there are no samples.");
    this.#trainer = trainer;
    this.#samples = samples;
    this.#options = options;
    this.#step = options.step ?? 0;
  }

  /** Steps made. */
  get stepsMade(): number {
    return this.#step;
  }

  /** One update; the metrics of it. */
  async step(): Promise<StepMetrics> {
    const { batch, warmUpSteps, maxGradientNorm, weightDecay } = this.#options;
    const begun = performance.now();
    const samples = Array.from({ length: batch }, (_, index) => this.#sampleAt(this.#step * batch + index));
    const targets = samples.map(({ lossMask }) =>
      Uint32Array.from([...lossMask.keys()].filter((at) => lossMask[at] === 1)),
    );
    const total = targets.reduce((sum, places) => sum + places.length, 0);
    const sequences = samples.map(({ tokens }, index) => cloningSequence(tokens, targets[index]!, 1 / total));
    const { loss, entropy } = await this.#trainer.accumulate(sequences);
    this.#step += 1;
    const learningRate = this.#options.learningRate * Math.min(1, this.#step / Math.max(1, warmUpSteps));
    const gradientNorm = await this.#trainer.update({ learningRate, maxGradientNorm, weightDecay });
    return {
      step: this.#step,
      trained_samples: batch,
      trained_tokens: total,
      loss,
      entropy,
      gradient_norm: gradientNorm,
      learning_rate: learningRate,
      train_seconds: (performance.now() - begun) / 1000,
    };
  }

  /** The `number`-th sample of all epochs, from 0. */
  #sampleAt(number: number): ClonedSample {
    const count = this.#samples.length;
    const order = this.#epoch(Math.floor(number / count));
    return this.#samples[order[number % count]!]!;
  }

  readonly #epochs = new Map<number, readonly number[]>();

  #epoch(epoch: number): readonly number[] {
    const known = this.#epochs.get(epoch);
    if (known !== undefined) return known;
    const places = Array.from(this.#samples.keys());
    const order = createRandom(deriveSeed(this.#options.seed, "epoch", epoch)).shuffle(places);
    // Steps only go forward.
    this.#epochs.delete(epoch - 2);
    this.#epochs.set(epoch, order);
    return order;
  }
}
