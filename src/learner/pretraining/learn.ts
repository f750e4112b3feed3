// One lesson learnt: a step of the trainer on its rows, and the count of what the model held likely before it.

import { cloningSequence, type LossSequence, type Trainer } from "../index.ts";
import type { Lesson } from "./curriculum.ts";
import type { Dialogue } from "./dialogue.ts";
import type { ReadCounter } from "./examine.ts";

export async function learn(trainer: Trainer, lesson: Lesson, counter: ReadCounter): Promise<void> {
  const { rows, learningRate, weightDecay } = lesson;
  const count = rows.reduce((sum, { targets }) => sum + targets.length, 0);
  const sequences = rows.map((row) => lossSequence(row, 1 / count, lesson.contextWeight));
  const outcome = await trainer.accumulate(sequences);
  for (const [index, row] of rows.entries()) {
    const { logprobs } = outcome.sequences[index]!;
    const isWhole = logprobs.length > row.targets.length;
    counter.add(row, isWhole ? Float32Array.from(row.targets, (place) => logprobs[place - 1]!) : logprobs);
  }
  await trainer.update({ learningRate, weightDecay });
}

/** `weight`: of a target; `contextWeight`: of any other token, as a share of it. */
function lossSequence({ tokens, targets }: Dialogue, weight: number, contextWeight: number): LossSequence {
  if (contextWeight === 0) return cloningSequence(tokens, targets, weight);
  const sequence = cloningSequence(tokens, Uint32Array.from(tokens.keys()).subarray(1), weight * contextWeight);
  for (const place of targets) sequence.weights[place - 1] = weight;
  return sequence;
}
