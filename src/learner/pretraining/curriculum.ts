// The curriculum of each step: exercises in copying, then dialogues of the expert. The rows of a
// step depend only on the recipe and the step's position, so a run that resumes after a kill learns
// the same.

import type { Tokenizer } from "../../core/index.ts";
import { createRandom, deriveSeed, type Random } from "../../lib/random.ts";
import { cloningSequence, type LossSequence, type Trainer } from "../index.ts";
import { type Dialogue, withoutPrompt, type DialogueSource } from "./dialogues.ts";
import type { LikelihoodCounter } from "./evaluate-model.ts";
import type { LearningRecipe } from "./recipe.ts";

export type Progress = {
  readonly phase: "copying" | "cloning";
  /** Steps done in the phase. */
  readonly step: number;
  /** Number of tokens trained on in the phase, and of the rows that held them. */
  readonly tokens: number;
  readonly rows: number;
};

export type CurriculumStep = {
  readonly rows: readonly Dialogue[];
  /** Loss weight of a token that is not a target; a target weighs 1. */
  readonly contextWeight: number;
  readonly learningRate: number;
  readonly weightDecay: number;
  /** Number of tokens that the step adds to the count of its phase. */
  readonly tokens: number;
};

/** The step at `progress`, or `null` after the end of its phase. */
export type Curriculum = (progress: Progress) => Promise<CurriculumStep | null>;

export function curriculumOf(
  recipe: LearningRecipe,
  sources: { readonly alphabet: CopyAlphabet; readonly dialoguesAt: DialogueSource },
): Curriculum {
  const { copying, cloning, seed } = recipe;
  const { alphabet, dialoguesAt } = sources;

  const exercises = ({ step, tokens }: Progress): CurriculumStep => {
    const random = createRandom(deriveSeed(seed, "copying", step));
    const part = Math.floor((tokens / copying.tokens) * copying.lengths.length);
    const rows: Dialogue[] = [];
    let count = 0;
    while (count < copying.tokensPerStep) {
      const row = copyExercise(alphabet, copying.lengths[part]!, random);
      rows.push(row);
      count += row.tokens.length;
    }
    const learningRate = learningRateAt(copying.learningRate, { step, done: 0, decayFrom: 1 });
    return { rows, contextWeight: 0, learningRate, weightDecay: copying.weightDecay, tokens: count };
  };

  const dialogues = async ({ step, tokens, rows }: Progress): Promise<CurriculumStep> => {
    const done = tokens / cloning.tokens;
    const hasPrompt = done >= cloning.promptFrom;
    const { withPrompt, withoutPrompt: withoutIt } = cloning.dialoguesPerStep;
    const whole = await dialoguesAt(rows, hasPrompt ? withPrompt : withoutIt);
    const alone = whole.map(withoutPrompt);
    return {
      rows: hasPrompt ? whole : alone,
      contextWeight: hasPrompt ? 0 : cloning.contextWeight,
      learningRate: learningRateAt(cloning.learningRate, { step, done, decayFrom: cloning.decayFrom }),
      weightDecay: cloning.weightDecay,
      tokens: alone.reduce((sum, row) => sum + row.tokens.length, 0),
    };
  };

  return async (progress) => {
    if (progress.tokens >= recipe[progress.phase].tokens) return null;
    return progress.phase === "copying" ? exercises(progress) : dialogues(progress);
  };
}

/** The tokens that copying is exercised with: pairs of digits, and every token that merges made. */
export function copyAlphabet(tokenizer: Tokenizer): CopyAlphabet {
  const texts = Array.from({ length: tokenizer.vocabularySize }, (_, id) => tokenizer.decode([id]));
  const ids = [...texts.keys()];
  return {
    pairs: ids.filter((id) => /^\d\d$/.test(texts[id]!)),
    words: ids.filter((id) => texts[id]!.length > 1 && !/^<.*>$/.test(texts[id]!)),
  };
}

/** Ids of tokens that can be copied in a conversation, by their kind. */
type CopyAlphabet = { readonly pairs: readonly number[]; readonly words: readonly number[] };

function copyExercise(alphabet: CopyAlphabet, length: number, random: Random): Dialogue {
  const { words } = alphabet;
  // A world may have no numbers.
  const pairs = alphabet.pairs.length === 0 ? words : alphabet.pairs;
  const tokens: number[] = [];
  const targets: number[] = [];
  const anyWord = (): number => random.pick(words);
  while (tokens.length < length) {
    const segments = Array.from({ length: 2 + random.integer(5) }, () => [
      anyWord(),
      ...Array.from({ length: 2 + random.integer(6) }, () => (random.next() < 0.6 ? random.pick(pairs) : anyWord())),
    ]);
    tokens.push(...segments.flat());
    if (tokens.length > length * 0.9) break;
    for (let again = 1 + random.integer(segments.length); again > 0; again--) {
      for (let filler = random.integer(6); filler > 0; filler--) tokens.push(anyWord());
      const start = tokens.length;
      const segment = random.pick(segments);
      tokens.push(...segment);
      for (let place = start + 1; place < start + segment.length; place++) targets.push(place);
    }
  }
  return { tokens: Uint32Array.from(tokens), targets: Uint32Array.from(targets), promptLength: 0 };
}

/**
 * `done` and `decayFrom` are shares of the phase from 0 to 1; `step` counts from 0. The last steps
 * keep a twentieth of the peak.
 */
function learningRateAt(
  peak: number,
  at: { readonly step: number; readonly done: number; readonly decayFrom: number },
): number {
  const { step, done, decayFrom } = at;
  const climb = Math.min(1, (step + 1) / 30);
  const fallen = decayFrom < 1 ? Math.max(0, (done - decayFrom) / (1 - decayFrom)) : 0;
  return peak * climb * Math.max(0.05, 0.5 * (1 + Math.cos(Math.PI * fallen)));
}

export async function learn(trainer: Trainer, step: CurriculumStep, counter: LikelihoodCounter): Promise<void> {
  const { rows, learningRate, weightDecay } = step;
  const count = rows.reduce((sum, { targets }) => sum + targets.length, 0);
  const sequences = rows.map((row) => lossSequence(row, 1 / count, step.contextWeight));
  const outcome = await trainer.accumulate(sequences);
  for (const [index, row] of rows.entries()) {
    const { logprobs } = outcome.sequences[index]!;
    const isWhole = logprobs.length > row.targets.length;
    counter.add(row, isWhole ? Float32Array.from(row.targets, (place) => logprobs[place - 1]!) : logprobs);
  }
  await trainer.update({ learningRate, weightDecay });
}

/** `weight`: weight of a target; `contextWeight`: weight of any other token, as a share of it. */
function lossSequence({ tokens, targets }: Dialogue, weight: number, contextWeight: number): LossSequence {
  if (contextWeight === 0) return cloningSequence(tokens, targets, weight);
  const sequence = cloningSequence(tokens, Uint32Array.from(tokens.keys()).subarray(1), weight * contextWeight);
  for (const place of targets) sequence.weights[place - 1] = weight;
  return sequence;
}
