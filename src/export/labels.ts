import type { Sample } from "../core/index.ts";

/** What losses of the PyTorch world skip. */
export const ignoredLabel = -100;

/** The token itself where it enters the loss, `ignoredLabel` elsewhere. Aligned with `tokens`, not shifted. */
export function labelsOf({ tokens, lossMask }: Sample): number[] {
  return Array.from(tokens, (token, at) => (lossMask[at] === 1 ? token : ignoredLabel));
}

/** How many of them enter the loss. */
export function countLabels(labels: readonly number[]): number {
  let count = 0;
  for (const label of labels) if (label !== ignoredLabel) count++;
  return count;
}
