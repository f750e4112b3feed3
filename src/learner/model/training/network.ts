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
export type Segment = {
  readonly start: number;
  readonly length: number;
  readonly prefix: number;
  /** Those of its rows that predict something, in `outputRows` of the batch. */
  readonly outputStart: number;
  readonly outputCount: number;
};

/** The prefix, when there is one, and then each sequence. */
export function segmentsOf({ prefixLength, lengths, outputRows }: PackedBatch): Segment[] {
  const segments: Segment[] = [];
  let start = 0;
  let outputStart = 0;
  const add = (length: number, prefix: number): void => {
    let outputCount = 0;
    while (outputRows[outputStart + outputCount]! < start + length) outputCount += 1;
    segments.push({ start, length, prefix, outputStart, outputCount });
    start += length;
    outputStart += outputCount;
  };
  if (prefixLength > 0) add(prefixLength, 0);
  for (const length of lengths) add(length, prefixLength);
  return segments;
}

/**
 * The rows whose queries a layer computes, and all that follows from them: every row, but in the last layer only those that
 * predict something. The others' keys and values are all that anybody needs of them there.
 */
export function queryRowsOf(
  { config, buffers }: Network,
  batch: PackedBatch,
  layer: number,
): { readonly count: number; readonly isPicked: boolean; readonly positions: number; readonly visible: number } {
  if (layer < config.layers - 1) {
    return { count: batch.tokens.length, isPicked: false, positions: buffers.positions, visible: buffers.visible };
  }
  const { outputPositions, outputVisible } = buffers;
  return { count: batch.outputRows.length, isPicked: true, positions: outputPositions, visible: outputVisible };
}

/** The queries of a segment among those of {@link queryRowsOf}. */
export function queriesOf(segment: Segment, isPicked: boolean): { readonly first: number; readonly count: number } {
  return isPicked
    ? { first: segment.outputStart, count: segment.outputCount }
    : { first: segment.start, count: segment.length };
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
