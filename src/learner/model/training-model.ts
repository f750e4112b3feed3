// A model that learns: logprobs of given tokens, gradients of every parameter, AdamW. One thread,
// one private memory; several threads each have one and exchange gradients. Not here: the choice of
// a loss (coefficients come from outside), and sampling (`decoder.ts`).

import { Arena, instantiateKernels, type CompiledKernels, loadKernels } from "./kernels.ts";
import type { ModelConfig } from "./model-config.ts";
import {
  fillRotaryTable,
  forwardOperations,
  packWeights,
  type ParameterLayout,
  parameterLayout,
} from "./parameter-layout.ts";
import { runBackward } from "./backward.ts";
import { allocateBuffers, type TrainingLimits, type PackedBatch, type Network } from "./training-memory.ts";
import { runForward } from "./forward.ts";

export type UpdateOptions = {
  readonly learningRate: number;
  /** Default 0. */
  readonly weightDecay?: number;
  /** Default 0.9. */
  readonly beta1?: number;
  /** Default 0.95. */
  readonly beta2?: number;
  /** Default 1e-8. */
  readonly epsilon?: number;
  /**
   * Gradients with a larger norm are scaled down to this one; `null` for no clipping. Default 1.
   */
  readonly maxGradientNorm?: number | null;
};

export type TrainingModelOptions = TrainingLimits & {
  readonly config: ModelConfig;
  /** All parameters, as `parameterLayout` orders them; copied. */
  readonly weights: Float32Array;
  /** Default: the best build for this host. */
  readonly kernels?: CompiledKernels;
};

/** Aligned with the targets of the batch. */
export type TargetProbabilities = {
  readonly logprobs: Float32Array;
  /** Entropy of the whole distribution at each target, in nats. */
  readonly entropies: Float32Array;
};

/** AdamW's state. */
export type OptimizerState = { readonly step: number; readonly means: Float32Array; readonly variances: Float32Array };

export class TrainingModel {
  readonly config: ModelConfig;
  readonly layout: ParameterLayout;
  /** The weights themselves. Call `weightsChanged` after writing to them. */
  readonly weights: Float32Array;
  /** Sums of what `backward` added since `clearGradients`; may be written to. */
  readonly gradients: Float32Array;
  readonly #limits: TrainingLimits;
  readonly #network: Network;
  readonly #forwardPanels: number;
  /** Pointers to AdamW's state, one float for each parameter. */
  readonly #moments: { readonly means: number; readonly variances: number };
  #step = 0;
  #batch: PackedBatch | null = null;

  /** Throws a `RangeError` for weights of another shape or buffers that do not fit into memory. */
  constructor(options: TrainingModelOptions) {
    const { config, weights, maxTokens, maxTargets } = options;
    const layout = parameterLayout(config);
    if (weights.length !== layout.size) {
      throw new RangeError(`Cannot create a model: ${weights.length} weights are given, expected ${layout.size}.`);
    }
    const { kernels, memory } = instantiateKernels((options.kernels ?? loadKernels()).module);
    const arena = new Arena(memory);
    const pointers = arena.allocateEach(["weights", "backwardPanels", "gradients"], layout.size);
    const { means, variances } = arena.allocateEach(["means", "variances"], layout.size);
    const forwardPanels = arena.allocate(layout.size);
    const buffers = allocateBuffers(arena, kernels, config, { maxTokens, maxTargets });
    const { floats, integers } = arena.seal();

    this.config = config;
    this.layout = layout;
    this.#limits = { maxTokens, maxTargets };
    this.#moments = { means, variances };
    this.#forwardPanels = forwardPanels;
    const panels = { weights: pointers.weights, panels: forwardPanels, epsilon: config.normEpsilon };
    const operations = forwardOperations(kernels, panels);
    this.#network = { config, layout, kernels, floats, integers, operations, ...pointers, buffers };
    this.weights = this.#view(pointers.weights);
    this.gradients = this.#view(pointers.gradients);
    const angles = (config.contextLength * config.headSize) / 2;
    fillRotaryTable(config, this.#view(buffers.cosines, angles), this.#view(buffers.sines, angles));
    this.weights.set(weights);
    this.weightsChanged();
  }

  /** Packs the weights again; `update` does so itself. */
  weightsChanged(): void {
    const { kernels, weights, backwardPanels: backward } = this.#network;
    packWeights(kernels, this.layout, { weights, forward: this.#forwardPanels, backward });
    this.#batch = null;
  }

  /** Logprobs of the batch's targets. Throws a `RangeError` for a batch beyond the limits or ids beyond the vocabulary. */
  forward(batch: PackedBatch): TargetProbabilities {
    this.#check(batch);
    runForward(this.#network, batch);
    this.#batch = batch;
    const count = batch.targets.length;
    const { logprobs, entropies } = this.#network.buffers;
    return { logprobs: this.#view(logprobs, count).slice(), entropies: this.#view(entropies, count).slice() };
  }

  /**
   * Adds the gradients of a loss to the existing ones, given its derivative by each logprob (and
   * each entropy) of the last `forward`. Once for each `forward`; throws an `Error` otherwise.
   */
  backward(coefficients: ArrayLike<number>, entropyCoefficients?: ArrayLike<number>): void {
    const batch = this.#batch;
    if (batch === null || coefficients.length !== batch.targets.length) {
      throw new Error(
        `Cannot run the backward pass: ${coefficients.length} coefficients for ${batch?.targets.length ?? "no"} targets; call "forward" before.`,
      );
    }
    const { floats, buffers } = this.#network;
    floats.set(coefficients, buffers.coefficients / 4);
    const entropyStart = buffers.entropyCoefficients / 4;
    if (entropyCoefficients === undefined) floats.fill(0, entropyStart, entropyStart + batch.targets.length);
    else floats.set(entropyCoefficients, entropyStart);
    this.#batch = null;
    runBackward(this.#network, batch);
  }

  clearGradients(): void {
    this.gradients.fill(0);
  }

  /**
   * Makes one AdamW step with the current gradients. Returns their norm before clipping; if it is
   * not finite, no weight changes.
   */
  update(options: UpdateOptions): number {
    const { learningRate, weightDecay = 0, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, maxGradientNorm = 1 } = options;
    const { kernels, weights, gradients } = this.#network;
    const { means, variances } = this.#moments;
    const step = (this.#step += 1);
    const norm = Math.sqrt(kernels.sumOfSquares(gradients, this.layout.size));
    const scale = maxGradientNorm !== null && norm > maxGradientNorm ? maxGradientNorm / norm : 1;
    const betas = [beta1, beta2, epsilon, 1 - beta1 ** step, 1 - beta2 ** step] as const;
    for (const { shape, offset, size } of Number.isFinite(norm) ? this.layout.parameters : []) {
      const arrays = [weights, gradients, means, variances].map((pointer) => pointer + offset * 4);
      kernels.adamw(...arrays, size, scale, learningRate, shape.length > 1 ? weightDecay : 0, ...betas);
    }
    this.weightsChanged();
    return norm;
  }

  /** A copy of AdamW's state. */
  optimizerState(): OptimizerState {
    const { means, variances } = this.#moments;
    return { step: this.#step, means: this.#view(means).slice(), variances: this.#view(variances).slice() };
  }

  restoreOptimizer({ step, means, variances }: OptimizerState): void {
    this.#step = step;
    this.#view(this.#moments.means).set(means);
    this.#view(this.#moments.variances).set(variances);
  }

  #view(pointer: number, count = this.layout.size): Float32Array {
    return this.#network.floats.subarray(pointer / 4, pointer / 4 + count);
  }

  #check(batch: PackedBatch): void {
    const { contextLength, vocabularySize } = this.config;
    const { maxTokens, maxTargets } = this.#limits;
    const [tokens, targets] = [batch.tokens.length, batch.targets.length];
    const longest = batch.prefixLength + Math.max(0, ...batch.lengths);
    const problems: readonly (readonly [boolean, string])[] = [
      [tokens > maxTokens, `it has ${tokens} tokens, expected at most ${maxTokens}`],
      [targets > maxTargets, `it has ${targets} targets, expected at most ${maxTargets}`],
      [longest > contextLength, `a sequence has ${longest} tokens, expected at most ${contextLength}`],
      [
        batch.tokens.some((id) => id >= vocabularySize),
        `a token id is not below the vocabulary size of ${vocabularySize}`,
      ],
    ];
    const state = problems.find(([isWrong]) => isWrong)?.[1] ?? null;
    if (state !== null) throw new RangeError(`Cannot run a batch: ${state}.`);
  }
}
