// One unit of work for a thread of a trainer: some sequences that fit its memory, the loss of each
// token, and gradients of their sum. Also splits sequences into such passes; the split depends only
// on the sequences and the limits, so that sums are always computed in the same order.

import { type LossOptions, type LossSequence, type LossSums, type SequenceOutcome, tokenLoss } from "./loss.ts";
import { type ModelConfig, packSequences, type TrainingModel } from "./model/index.ts";

export type TokenTargets = Pick<LossSequence, "tokens" | "targets">;

/**
 * Sequences that one thread computes together, and the number of tokens that all of them begin
 * with.
 */
export type Pass<Sequence extends TokenTargets> = {
  readonly sequences: readonly Sequence[];
  readonly prefixLength: number;
};

export type PassOutcome = { readonly outcomes: readonly SequenceOutcome[]; readonly sums: LossSums };

/** Logprobs and entropies at the targets of a pass. */
export function evaluatePass(model: TrainingModel, { sequences, prefixLength }: Pass<TokenTargets>): SequenceOutcome[] {
  const { logprobs, entropies } = model.forward(packSequences(sequences, { prefixLength }));
  let end = 0;
  return sequences.map(({ targets }) => {
    const start = end;
    end += targets.length;
    return { logprobs: logprobs.slice(start, end), entropies: entropies.slice(start, end) };
  });
}

/**
 * Computes the same, plus the loss at these targets and its gradients, which are added to the
 * model's.
 */
export function trainPass(model: TrainingModel, pass: Pass<LossSequence>, loss: LossOptions): PassOutcome {
  const outcomes = evaluatePass(model, pass);
  const count = pass.sequences.reduce((sum, { targets }) => sum + targets.length, 0);
  const slopes = new Float32Array(count);
  const entropySlopes = new Float32Array(count);
  const sums = { loss: 0, entropy: 0, kl: 0, clipped: 0 };
  let place = 0;
  for (const [at, { weights, advantages, sampledLogprobs, referenceLogprobs }] of pass.sequences.entries()) {
    const { logprobs, entropies } = outcomes[at]!;
    for (const [index, logprob] of logprobs.entries()) {
      const [entropy, weight] = [entropies[index]!, weights[index]!];
      const terms = {
        weight,
        advantage: advantages[index]!,
        sampledLogprob: sampledLogprobs?.[index] ?? logprob,
        referenceLogprob: referenceLogprobs?.[index] ?? logprob,
      };
      const token = tokenLoss(logprob, entropy, terms, loss);
      slopes[place] = token.slope;
      entropySlopes[place++] = token.entropySlope;
      sums.loss += token.loss;
      sums.entropy += weight * entropy;
      sums.kl += weight * token.kl;
      sums.clipped += token.isClipped ? 1 : 0;
    }
  }
  model.backward(slopes, entropySlopes);
  return { outcomes, sums };
}

export type PassLimits = { readonly threads: number; readonly maxTokens: number; readonly maxTargets: number };

/**
 * Throws a `RangeError` that names the sequence and the reason why it does not fit. Checked before
 * any thread gets them: a thread that throws ends.
 */
export function checkSequences(sequences: readonly TokenTargets[], config: ModelConfig, limits: PassLimits): void {
  for (const [index, sequence] of sequences.entries()) {
    const problem = sequenceProblem(sequence, config, limits);
    if (problem !== null) throw new RangeError(`Cannot train on sequence ${index}: ${problem}.`);
  }
}

function sequenceProblem(
  { tokens, targets }: TokenTargets,
  { contextLength, vocabularySize }: ModelConfig,
  { maxTokens, maxTargets }: PassLimits,
): string | null {
  const longest = Math.min(contextLength, maxTokens);
  if (tokens.length > longest) return `it has ${tokens.length} tokens, expected at most ${longest}`;
  if (targets.length > maxTargets) return `it has ${targets.length} targets, expected at most ${maxTargets}`;
  if (tokens.some((id) => id >= vocabularySize)) return `an id is not below the vocabulary size of ${vocabularySize}`;
  for (let at = 0; at < targets.length; at++) {
    const place = targets[at]!;
    if (place < 1 || place >= tokens.length) return `target ${place} is outside 1 to ${tokens.length - 1}`;
    if (at > 0 && place <= targets[at - 1]!) return `targets are not ascending at ${place}`;
  }
  return null;
}

/** Places of sequences instead of the sequences themselves. */
export type PlannedPass = { readonly members: readonly number[]; readonly prefixLength: number };

/**
 * One list of passes for each thread, of about equal work. The longest sequences are assigned
 * first, each to the lightest pass; a pass that grows too large for the limits makes the number of
 * passes rise. Every single sequence must fit the limits.
 */
export function splitWork(sequences: readonly TokenTargets[], limits: PassLimits): readonly (readonly PlannedPass[])[] {
  const { threads, maxTokens, maxTargets } = limits;
  const all = Array.from(sequences.keys());
  const shared = sharedPrefix(sequences.map(({ tokens }) => tokens));
  const order = all.toSorted((a, b) => sequences[b]!.tokens.length - sequences[a]!.tokens.length || a - b);
  const tokens = all.reduce((sum, index) => sum + sequences[index]!.tokens.length - shared, 0);
  const fewest = Math.ceil(tokens / Math.max(1, maxTokens - shared));
  for (let rounds = Math.max(1, Math.ceil(fewest / threads)); ; rounds++) {
    const bins = Array.from({ length: rounds * threads }, () => ({
      members: [] as number[],
      tokens: shared,
      targets: 0,
    }));
    for (const index of order) {
      const lightest = bins.reduce((least, bin) => (bin.tokens < least.tokens ? bin : least));
      lightest.members.push(index);
      lightest.tokens += sequences[index]!.tokens.length - shared;
      lightest.targets += sequences[index]!.targets.length;
    }
    const fits = bins.every((bin) => bin.members.length <= 1 || (bin.tokens <= maxTokens && bin.targets <= maxTargets));
    if (!fits) continue;
    return Array.from({ length: threads }, (_, thread) =>
      bins
        .filter((bin, place) => place % threads === thread && bin.members.length > 0)
        .map(({ members }) => {
          members.sort((a, b) => a - b);
          return { members, prefixLength: sharedPrefix(members.map((index) => sequences[index]!.tokens)) };
        }),
    );
  }
}

/**
 * Number of tokens that all sequences begin with, at most one less than the shortest: every
 * sequence keeps something of its own.
 */
export function sharedPrefix(sequences: readonly Uint32Array[]): number {
  const [first, ...others] = sequences;
  if (first === undefined || others.length === 0) return 0;
  let length = Math.min(...sequences.map((tokens) => tokens.length)) - 1;
  for (const other of others) {
    let same = 0;
    while (same < length && other[same] === first[same]) same++;
    length = same;
  }
  return Math.max(0, length);
}
