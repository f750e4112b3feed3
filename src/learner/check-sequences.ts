// Whether sequences fit a trainer, asked before any thread sees them: a thread that throws is gone.

import type { ModelConfig } from "./model/index.ts";
import type { LossSequence } from "./loss-sequence.ts";

export type SequenceLimits = { readonly config: ModelConfig; readonly maxTokens: number; readonly maxTargets: number };

/** Throws a `RangeError` that names the sequence and what is wrong with it. */
export function checkSequences(sequences: readonly LossSequence[], limits: SequenceLimits): void {
  for (const [index, sequence] of sequences.entries()) {
    const problem = problemOf(sequence, limits);
    if (problem !== null) throw new RangeError(`Cannot train on sequence ${index}: ${problem}.`);
  }
}

function problemOf(sequence: LossSequence, { config, maxTokens, maxTargets }: SequenceLimits): string | null {
  const { tokens, targets } = sequence;
  const longest = Math.min(config.contextLength, maxTokens);
  if (tokens.length > longest) return `it has ${tokens.length} tokens, ${longest} at most`;
  if (targets.length > maxTargets) return `it has ${targets.length} targets, ${maxTargets} at most`;
  const { vocabularySize } = config;
  if (tokens.some((id) => id >= vocabularySize)) return `an id is not below the vocabulary size of ${vocabularySize}`;
  for (let at = 0; at < targets.length; at++) {
    const place = targets[at]!;
    if (place < 1 || place >= tokens.length) return `target ${place} lies outside 1 to ${tokens.length - 1}`;
    if (at > 0 && place <= targets[at - 1]!) return `targets are not ascending at ${place}`;
  }
  return null;
}
