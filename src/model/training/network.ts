// What the two directions of a training pass share.

import type { Kernels } from "../kernels.ts";
import type { ModelConfig } from "../model-config.ts";
import type { ParameterLayout } from "../parameter-layout.ts";
import type { TrainingBuffers } from "./buffers.ts";
import type { PackedBatch } from "./packed-batch.ts";

export type Network = {
  readonly config: ModelConfig;
  readonly layout: ParameterLayout;
  readonly kernels: Kernels;
  /** The whole memory; index = pointer / 4. */
  readonly floats: Float32Array;
  readonly integers: Uint32Array;
  /** Pointers to arrays of one float for each parameter. */
  readonly weights: number;
  readonly forwardPanels: number;
  readonly backwardPanels: number;
  readonly gradients: number;
  readonly buffers: TrainingBuffers;
};

/** A stretch of rows that attends to itself, and to the prefix when it is not the prefix. */
export type Segment = { readonly start: number; readonly length: number; readonly prefix: number };

/** The prefix, when there is one, and then each sequence. */
export function segmentsOf({ prefixLength, lengths }: PackedBatch): Segment[] {
  const segments: Segment[] = prefixLength > 0 ? [{ start: 0, length: prefixLength, prefix: 0 }] : [];
  let start = prefixLength;
  for (const length of lengths) {
    segments.push({ start, length, prefix: prefixLength });
    start += length;
  }
  return segments;
}

export type PanelSet = TrainingBuffers["own"];

/** Packs keys and values of a segment for attention, head by head; `backward` adds what only the way back reads. */
export function packSegment(
  network: Network,
  segment: Segment,
  from: { readonly keys: number; readonly values: number; readonly panels: PanelSet; readonly backward: boolean },
): void {
  const { config, kernels } = network;
  const { headSize, keyValueHeads } = config;
  const width = keyValueHeads * headSize;
  const { length } = segment;
  const padded = Math.ceil(length / 8) * 8;
  for (let head = 0; head < keyValueHeads; head++) {
    const source = (segment.start * width + head * headSize) * 4;
    const target = head * padded * headSize * 4;
    const { panels } = from;
    kernels.packColumns(from.keys + source, width, headSize, length, panels.keys + target);
    if (from.backward) {
      kernels.packColumns(from.values + source, width, headSize, length, panels.valueColumns + target);
      packPadded(network, from.keys + source, panels.keyRows + target, length);
    } else {
      packPadded(network, from.values + source, panels.values + target, length);
    }
  }
}

/** Rows that a segment lacks up to a multiple of 8 must be zero: probability 0 times garbage could be no number. */
function packPadded(network: Network, source: number, target: number, length: number): void {
  const { config, kernels, floats } = network;
  const { headSize, keyValueHeads } = config;
  const padded = Math.ceil(length / 8) * 8;
  for (let column = 0; column < headSize; column += 8) {
    const panel = target + column * padded * 4;
    kernels.packRows(source + column * 4, keyValueHeads * headSize, length, 8, panel);
    floats.fill(0, panel / 4 + length * 8, panel / 4 + padded * 8);
  }
}
