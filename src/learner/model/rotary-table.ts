// Cosines and sines of rotary positions, rounded as PyTorch rounds them (frequencies and angles are 32-bit floats there),
// so that logprobs agree with other runtimes at far positions too.

import type { ModelConfig } from "./model-config.ts";

/** Fills [position][headSize / 2] of both arrays, for as many positions as they hold. */
export function fillRotaryTable(config: ModelConfig, cosines: Float32Array, sines: Float32Array): void {
  const half = config.headSize / 2;
  for (let index = 0; index < half; index++) {
    const power = Math.fround(config.ropeTheta ** Math.fround((2 * index) / config.headSize));
    const frequency = Math.fround(1 / power);
    for (let position = 0; position * half < cosines.length; position++) {
      const angle = Math.fround(position * frequency);
      cosines[position * half + index] = Math.cos(angle);
      sines[position * half + index] = Math.sin(angle);
    }
  }
}
