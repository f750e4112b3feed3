// Where the experts of a sample are kept: those of its turns, one after the other. What they are for: a trainer of a
// mixture-of-experts model that routes as the sampling server did. Bytes are read elsewhere (`store/`).

import type { RoutedExperts, Sample, Trajectory } from "../core/index.ts";
import { branchesOf } from "./branches.ts";

/**
 * The parts of a sample's experts, in order; `null`: no turn of its branch has any. Throws a plain error when only some have, and
 * when the rows are not those of all tokens but the last.
 */
export function expertsOf(
  sample: Pick<Sample, "id" | "branch" | "tokens">,
  trajectory: Trajectory,
): readonly RoutedExperts[] | null {
  const path = branchesOf(trajectory)[sample.branch] ?? [];
  const parts = path.flatMap(({ routedExperts }) => routedExperts ?? []);
  if (parts.length === 0) return null;
  const missing = path.find(({ routedExperts }) => (routedExperts ?? null) === null);
  if (missing !== undefined) {
    throw new Error(
      `Cannot join the routed experts of sample "${sample.id}": turn ${missing.index} has none, others of its branch do.`,
    );
  }
  const { layers, topk } = parts[0]!;
  const odd = parts.find((part) => part.layers !== layers || part.topk !== topk);
  const rows = parts.reduce((sum, part) => sum + part.rows, 0);
  if (odd !== undefined || rows !== sample.tokens.length - 1) {
    throw new Error(
      `Cannot join the routed experts of sample "${sample.id}": ${rows} rows of ${layers} by ${topk} for ${sample.tokens.length} tokens` +
        `${odd === undefined ? "" : `, others of ${odd.layers} by ${odd.topk}`}; all tokens but the last have one.`,
    );
  }
  return parts;
}
