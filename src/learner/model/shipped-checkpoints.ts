// The checkpoints that this package ships, by name. `checkpoint.ts` reads them.

import { fileURLToPath } from "node:url";

/** Names of folders in models/. */
export const shippedCheckpoints = ["bookshop-1m", "bookshop-nano"] as const;
export type ShippedCheckpoint = (typeof shippedCheckpoints)[number];

/**
 * The folder of a checkpoint that this package ships, in Hugging Face's layout: a desk clerk of the bookshop with about a
 * million parameters, and a smaller one for tests.
 *
 * @example
 * const engine = await loadEmbeddedEngine(shippedCheckpoint("bookshop-1m"));
 */
export function shippedCheckpoint(name: ShippedCheckpoint): string {
  return fileURLToPath(new URL(`../../../models/${name}`, import.meta.url));
}
