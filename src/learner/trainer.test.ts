import { afterEach, describe, expect, test } from "vitest";

import { createRandom } from "../lib/random.ts";
import { initializeWeights, packSequences, TrainingModel } from "./model/index.ts";
import { cloningSequence, type LossSequence } from "./loss.ts";
import { createTrainer, type Trainer, type TrainerOptions } from "./trainer.ts";

const config = {
  vocabularySize: 40,
  hiddenSize: 32,
  layers: 2,
  heads: 2,
  keyValueHeads: 1,
  headSize: 16,
  feedForwardSize: 40,
  ropeTheta: 10_000,
  normEpsilon: 1e-6,
  contextLength: 128,
};
const checkpoint = { config, weights: initializeWeights(config, { seed: 3 }) };
const updateOptions = { learningRate: 3e-3, weightDecay: 0.1 };

const open: Trainer[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((trainer) => trainer.close()));
});

async function trainerOf(options: TrainerOptions = {}): Promise<Trainer> {
  const trainer = await createTrainer(checkpoint, { threads: 2, maxTokens: 400, ...options });
  open.push(trainer);
  return trainer;
}

/** Sequences with a common beginning, of many lengths, with advantages of both signs. */
function sequences(count: number, seed = 1): LossSequence[] {
  const random = createRandom(seed);
  const draw = (length: number): number[] => Array.from({ length }, () => random.integer(config.vocabularySize));
  const beginning = draw(20);
  return Array.from({ length: count }, () => {
    const tokens = Uint32Array.from([...beginning, ...draw(2 + random.integer(60))]);
    const targets = Uint32Array.from([...tokens.keys()].filter((place) => place > 18 && random.next() < 0.5));
    const advantages = Float32Array.from(targets, () => random.next() * 2 - 1);
    return { ...cloningSequence(tokens, targets, 1 / 300), advantages };
  });
}

async function learn(trainer: Trainer, steps: number, from = 0): Promise<void> {
  for (let step = from; step < from + steps; step++) {
    await trainer.accumulate(sequences(12, step));
    await trainer.update(updateOptions);
  }
}

describe("a trainer", () => {
  test("refuses weights that are not numbers, and keeps its own when gradients are none", async () => {
    const diverged = checkpoint.weights.slice();
    diverged[5] = NaN;
    await expect(createTrainer({ config, weights: diverged })).rejects.toThrow("weight 5 is NaN");
    const weights = checkpoint.weights.map((weight) => weight * 1e30);
    const trainer = await createTrainer({ config, weights }, { threads: 2, maxTokens: 400 });
    open.push(trainer);
    await trainer.accumulate(sequences(4));
    await expect(trainer.update(updateOptions)).rejects.toThrow("the norm of the gradients is NaN");
    expect(trainer.weights()).toEqual(weights);
  });

  test.each([1, 2, 3])("with %i threads learns what one model learns", async (threads) => {
    const batch = sequences(12);
    const model = new TrainingModel({ ...checkpoint, maxTokens: 2000, maxTargets: 1000 });
    const { logprobs, entropies } = model.forward(packSequences(batch));
    model.backward(
      batch.flatMap(({ weights, advantages }) => [...advantages].map((value, index) => -value * weights[index]!)),
      Array.from(logprobs, () => -0.01 / 300),
    );
    const norm = model.update(updateOptions);

    const trainer = await trainerOf({ threads, maxTokens: 200 });
    const outcome = await trainer.accumulate(batch, { entropy: 0.01 });
    expect(outcome.targets).toBe(logprobs.length);
    const flat = outcome.sequences.flatMap((sequence) => [...sequence.logprobs]);
    flat.forEach((logprob, index) => expect(logprob).toBeCloseTo(logprobs[index]!, 4));
    expect(outcome.entropy).toBeCloseTo(
      entropies.reduce((sum, value) => sum + value / 300, 0),
      4,
    );
    expect(await trainer.update(updateOptions)).toBeCloseTo(norm, 4);
    // A step of AdamW has about the size of the learning rate for any gradient: those near 0 may
    // round to either side.
    const different = trainer.weights().filter((weight, index) => Math.abs(weight - model.weights[index]!) > 1e-4);
    expect(different.length).toBeLessThan(model.weights.length / 500);
    expect(trainer.weights()).not.toEqual(checkpoint.weights);
  });

  test("gives the same bits again, and goes on from its optimizer's memory as if it had never stopped", async () => {
    const whole = await trainerOf();
    await learn(whole, 4);
    const first = await trainerOf();
    await learn(first, 2);
    const optimizer = await first.optimizerState();
    const second = await createTrainer({ config, weights: first.weights() }, { threads: 2, optimizer });
    open.push(second);
    await learn(second, 2, 2);
    expect(second.weights()).toEqual(whole.weights());
    expect((await second.optimizerState()).step).toBe(4);
  });

  test("gathers gradients over several calls, and forgets them after an update", async () => {
    const [all, parts] = [await trainerOf(), await trainerOf()];
    const batch = sequences(8);
    await all.accumulate(batch);
    const norm = await all.update(updateOptions);
    await parts.accumulate(batch.slice(0, 3));
    await parts.accumulate(batch.slice(3));
    expect(await parts.update(updateOptions)).toBeCloseTo(norm, 5);
    await expect(parts.update(updateOptions)).rejects.toThrow("no gradients have been accumulated");
    await parts.accumulate(
      batch.slice(0, 3).map((sequence) => ({ ...sequence, advantages: sequence.advantages.fill(0) })),
    );
    expect(await parts.update(updateOptions)).toBe(0);
  });

  test("evaluates with its own or other weights and learns nothing by it", async () => {
    const trainer = await trainerOf();
    const batch = sequences(5);
    await trainer.accumulate(batch);
    await trainer.update(updateOptions);
    const learnt = trainer.weights();
    const before = await trainer.evaluate(batch, { weights: checkpoint.weights });
    const after = await trainer.evaluate(batch);
    expect(before.flatMap(({ logprobs }) => [...logprobs])).not.toEqual(after.flatMap(({ logprobs }) => [...logprobs]));
    const fresh = await (await trainerOf()).evaluate(batch);
    expect(before).toEqual(fresh);
    expect(trainer.weights()).toEqual(learnt);
    expect(await trainer.evaluate(batch)).toEqual(after);
  });

  test("learns to imitate: the loss of cloning falls", async () => {
    const trainer = await trainerOf();
    const batch = sequences(6).map(({ tokens, targets }) => cloningSequence(tokens, targets, 1 / 150));
    const losses: number[] = [];
    for (let step = 0; step < 40; step++) {
      losses.push((await trainer.accumulate(batch)).loss);
      await trainer.update({ learningRate: 1e-2 });
    }
    expect(losses.at(-1)).toBeLessThan(losses[0]! / 2);
  });

  test("refuses sequences that do not fit, and is none the worse for it", async () => {
    const trainer = await trainerOf({ maxTokens: 100 });
    const refused = async (change: Partial<LossSequence>): Promise<string> =>
      trainer.accumulate([...sequences(1), { ...sequences(1)[0]!, ...change }]).then(
        () => "",
        (error: unknown) => String(error),
      );
    expect(await refused({ tokens: new Uint32Array(101) })).toBe(
      "RangeError: Cannot train on sequence 1: it has 101 tokens, expected at most 100.",
    );
    expect(await refused({ tokens: new Uint32Array(99).fill(40) })).toContain("vocabulary size of 40");
    expect(await refused({ targets: Uint32Array.of(0) })).toContain("target 0 is outside 1 to");
    expect(await refused({ targets: Uint32Array.of(3, 3) })).toContain("not ascending");
    await expect(trainer.evaluate(sequences(1), { weights: new Float32Array(4) })).rejects.toThrow("4 weights");
    expect((await trainer.accumulate(sequences(2))).sequences).toHaveLength(2);
    await expect(createTrainer(checkpoint, { threads: 0 })).rejects.toThrow("threads is 0");
    const optimizer = { step: 1, means: new Float32Array(3), variances: new Float32Array(3) };
    await expect(createTrainer(checkpoint, { optimizer })).rejects.toThrow("has 3 parameters");
  });

  test("fails every call once it is closed", async () => {
    const trainer = await trainerOf();
    await trainer.close();
    await expect(trainer.accumulate(sequences(1))).rejects.toThrow("has ended");
  });
});
