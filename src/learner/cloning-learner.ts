// Imitation: makes the tokens of given samples likelier, step by step. Epochs are shuffled by the seed and the epoch, so a
// resumed training continues with the next sample.

import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "zod";

import { ConfigurationError, messageOf, type Sample } from "../core/index.ts";
import { createRandom, deriveSeed } from "../lib/random.ts";
import { episodeSamples } from "../rollout/index.ts";
import { readEpisodes } from "../store/index.ts";
import { cloningSequence } from "./loss.ts";
import { type StepMetrics, type UpdateSchedule, warmedUp } from "./policy-learner.ts";
import type { Trainer } from "./trainer.ts";
import { readRegular } from "../system/regular-file.ts";

export type CloningOptions = UpdateSchedule & {
  /** Number of samples per update. */
  readonly batch: number;
};

/** The fields of a sample that imitation needs. */
export type ClonedSample = Pick<Sample, "tokens" | "lossMask">;

export class CloningLearner {
  readonly #trainer: Trainer;
  readonly #samples: readonly ClonedSample[];
  readonly #options: CloningOptions;
  #step: number;
  /** The epoch that was shuffled last. */
  #epoch: { readonly number: number; readonly samples: readonly ClonedSample[] } | null = null;

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

  /** Makes one update; resolves with its metrics. */
  async step(): Promise<StepMetrics> {
    const { batch, maxGradientNorm, weightDecay } = this.#options;
    const begun = performance.now();
    const samples = Array.from({ length: batch }, (_, index) => this.#sampleAt(this.#step * batch + index));
    const targets = samples.map(({ lossMask }) =>
      Uint32Array.from([...lossMask.keys()].filter((at) => lossMask[at] === 1)),
    );
    const total = targets.reduce((sum, places) => sum + places.length, 0);
    const sequences = samples.map(({ tokens }, index) => cloningSequence(tokens, targets[index]!, 1 / total));
    const { loss, entropy } = await this.#trainer.accumulate(sequences);
    this.#step += 1;
    const learningRate = warmedUp(this.#options, this.#step);
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
    const epoch = Math.floor(number / count);
    if (this.#epoch?.number !== epoch) {
      const random = createRandom(deriveSeed(this.#options.seed, "epoch", epoch));
      this.#epoch = { number: epoch, samples: random.shuffle(this.#samples) };
    }
    return this.#epoch.samples[number % count]!;
  }
}

type ClonedFrom = {
  readonly cwd: string;
  /** Minimum reward of a sample; `null` accepts any reward, and none. */
  readonly minReward: number | null;
  /** Vocabulary size of the model that will be trained. */
  readonly vocabularySize: number;
  readonly modelFolder: string;
};

/**
 * Rejects with a `ConfigurationError` if there is nothing to imitate, or if the tokens come from
 * another tokenizer.
 */
export async function readClonedSamples(from: string, options: ClonedFrom): Promise<readonly ClonedSample[]> {
  const path = resolve(options.cwd, from);
  if (!existsSync(path)) {
    throw new ConfigurationError(
      `Cannot read samples from "${from}": there is no such file or folder; correct --from.`,
    );
  }
  const isFolder = (await stat(path)).isDirectory();
  if (isFolder) await checkTokenizer(path, from, options);
  const all = isFolder ? await fromFolder(path) : await fromRows(path, from);
  const { minReward, vocabularySize } = options;
  const samples = all.filter(({ reward }) => minReward === null || (reward !== null && reward >= minReward));
  if (samples.length === 0) {
    throw new ConfigurationError(
      `Cannot imitate "${from}": ${all.length === 0 ? "it has no samples" : `none of its ${all.length} samples has a reward of ${minReward}`}; ` +
        "give another --from.",
    );
  }
  if (samples.some(({ tokens }) => tokens.some((id) => id >= vocabularySize))) throw otherTokenizer(from, options);
  return samples;
}

type RewardedSample = ClonedSample & { readonly reward: number | null };

async function fromFolder(path: string): Promise<readonly RewardedSample[]> {
  const samples: RewardedSample[] = [];
  for await (const episode of readEpisodes(path)) samples.push(...episodeSamples(episode).samples);
  return samples;
}

async function checkTokenizer(path: string, from: string, options: ClonedFrom): Promise<void> {
  const manifest: unknown = JSON.parse(await readRegular(join(path, "run.json"), "utf8").catch(() => "{}"));
  const model = (manifest as { readonly model?: { readonly vocabularySize?: unknown } | null }).model ?? {};
  if (model.vocabularySize !== options.vocabularySize) throw otherTokenizer(from, options);
}

function otherTokenizer(from: string, { modelFolder }: ClonedFrom): ConfigurationError {
  return new ConfigurationError(
    `Cannot imitate "${from}": its tokens are of another tokenizer than that of "${modelFolder}"; roll out with ` +
      `--model ${modelFolder}.`,
  );
}

async function fromRows(path: string, from: string): Promise<readonly RewardedSample[]> {
  const lines = (await readRegular(path, "utf8")).split("\n").filter((line) => line.trim() !== "");
  return lines.map((line, index) => {
    try {
      return readRow(JSON.parse(line) as unknown);
    } catch (cause) {
      throw new ConfigurationError(
        `Cannot read samples from "${from}" at line ${index + 1}: ${messageOf(cause)}; use a samples.jsonl in slime's layout.`,
        { cause },
      );
    }
  });
}

const wholeNumbers = z.array(z.int().nonnegative());
/** The fields that are read from a row in slime's layout. */
const rowSchema = z.object({
  tokens: wholeNumbers,
  loss_mask: wholeNumbers,
  reward: z.number().nullable().catch(null),
});

/** The masks of a row cover only the response, which ends where the tokens end. */
function readRow(row: unknown): RewardedSample {
  const { success, data, error } = rowSchema.safeParse(row);
  if (!success) throw new Error(`"${String(error.issues[0]?.path[0] ?? "tokens")}" is not a list of whole numbers`);
  const { tokens, loss_mask: mask, reward } = data;
  const start = tokens.length - mask.length;
  if (start < 1) throw new Error(`${mask.length} entries of "loss_mask" for ${tokens.length} tokens`);
  const lossMask = new Uint8Array(tokens.length);
  lossMask.set(mask, start);
  return { tokens: Uint32Array.from(tokens), lossMask, reward };
}
