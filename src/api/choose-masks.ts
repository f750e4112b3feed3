// Conditions under which a run records the ids that sampling keeps. Loaded only where they are requested.

import { ConfigurationError, type Engine, type SamplingParams } from "../core/index.ts";
import type { SamplingMaskSink } from "../rollout/loop.ts";
import type { Preset } from "./resolve-settings.ts";
import type { EngineName, RolloutSettings } from "./rollout-settings.ts";

/** Throws a `ConfigurationError` if nothing reports kept ids, or no file keeps them. */
export function masksSink(
  {
    name,
    settings: { samplingMask },
    preset,
  }: { name: EngineName | null; settings: RolloutSettings; preset: Preset | null },
  file: SamplingMaskSink | null,
): SamplingMaskSink | null {
  if (!samplingMask) return null;
  if (preset !== null) throw noMasks("a preset records no tokens of the engine; remove --sampling-mask");
  if (name === null) throw noMasks("an agent behind an API reports none; remove --sampling-mask");
  if (file !== null) return file;
  throw noMasks(
    "they are bytes in the folder of a `rollout`, or of a `serve` without other processes, and other commands have no place for them; remove --sampling-mask",
  );
}

/** Throws a `ConfigurationError` if the engine does not report the kept ids of this sampling. */
export function refuseMasks(engine: Engine, sampling: SamplingParams): void {
  if (engine.samplingMaskProblem === undefined) {
    throw noMasks(
      `engine "${engine.name}" does not report them; use sglang, vllm, embedded or llama-cpp, or remove --sampling-mask`,
    );
  }
  const problem = engine.samplingMaskProblem(sampling);
  if (problem !== null) throw noMasks(problem);
}

function noMasks(reason: string): ConfigurationError {
  return new ConfigurationError(`Cannot keep the ids that sampling keeps: ${reason}.`);
}
