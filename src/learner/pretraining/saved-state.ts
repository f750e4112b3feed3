// A run of pre-training on disk, so that a killed one goes on: weights, AdamW's memory and the log, written at every
// examination. A state of another recipe is not taken up.

import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { OptimizerState } from "../model/index.ts";
import type { Recipe } from "./recipe.ts";
import type { LogRow } from "./training-log.ts";

export type Progress = {
  readonly phase: "copying" | "cloning";
  /** Steps done in the phase. */
  readonly step: number;
  /** Tokens trained on in the phase, and the rows that held them. */
  readonly tokens: number;
  readonly rows: number;
};

export type SavedState = {
  readonly progress: Progress;
  readonly rows: readonly LogRow[];
  readonly weights: Float32Array;
  readonly optimizer: OptimizerState;
};

type Described = Pick<SavedState, "progress" | "rows"> & { readonly recipe: string; readonly optimizerStep: number };

const file = "state.bin";

/** One file, put in place by a rename: a kill leaves the old state or the new one. */
export async function saveState(folder: string, recipe: Recipe, state: SavedState): Promise<void> {
  const { progress, rows, weights, optimizer } = state;
  const described: Described = { recipe: JSON.stringify(recipe), progress, rows, optimizerStep: optimizer.step };
  const header = new TextEncoder().encode(JSON.stringify(described));
  const length = new Uint8Array(Uint32Array.of(header.length).buffer);
  const arrays = [weights, optimizer.means, optimizer.variances].map(bytesOf);
  await mkdir(folder, { recursive: true });
  const path = join(folder, file);
  await writeFile(`${path}.new`, Buffer.concat([length, header, ...arrays]));
  await rename(`${path}.new`, path);
}

/** `null` when there is none of this recipe. */
export async function loadState(folder: string, recipe: Recipe): Promise<SavedState | null> {
  let bytes: Buffer;
  try {
    bytes = await readFile(join(folder, file));
  } catch {
    return null;
  }
  const headerEnd = 4 + bytes.readUInt32LE(0);
  const described = JSON.parse(bytes.toString("utf8", 4, headerEnd)) as Described;
  if (described.recipe !== JSON.stringify(recipe)) return null;
  const size = (bytes.length - headerEnd) / 3;
  const array = (place: number): Float32Array => {
    const start = headerEnd + place * size;
    return new Float32Array(new Uint8Array(bytes.subarray(start, start + size)).buffer);
  };
  const optimizer = { step: described.optimizerStep, means: array(1), variances: array(2) };
  return { progress: described.progress, rows: described.rows, weights: array(0), optimizer };
}

function bytesOf(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
