// Presets: whole ways of playing an episode under one name. A preset replaces the player and may change defaults; tasks,
// run folder, progress and exporters stay those of every rollout.

import { ConfigurationError, type Engine, type EnvironmentSource, type UserSource } from "../../core/index.ts";
import type { EpisodePlayer } from "../../runs/index.ts";
import type { FlagValues } from "../settings/resolve-settings.ts";
import type { RolloutSettings } from "../settings/rollout-settings.ts";
import type { ChosenModel } from "./choose-model.ts";

export type Preset = {
  /** Below flags and configuration file, above the general defaults. */
  readonly defaults: FlagValues;
  /** Its samples are re-encoded text, and may be exported all the same. */
  readonly allowTextDelta: boolean;
  createPlayer(parts: {
    readonly settings: RolloutSettings;
    readonly environment: EnvironmentSource;
    readonly user: UserSource;
    readonly engine: Engine;
    readonly model: ChosenModel;
    /** Where the engine's server is, for presets that talk to it themselves. */
    readonly address: string;
  }): EpisodePlayer;
};

const presets: Readonly<Record<string, Preset>> = {};

/** The preset of a name. Throws a `ConfigurationError` that lists what there is. */
export function findPreset(name: string | null): Preset | null {
  if (name === null) return null;
  const preset = Object.hasOwn(presets, name) ? presets[name] : undefined;
  if (preset !== undefined) return preset;
  const known = Object.keys(presets);
  const state = known.length === 0 ? "there is none yet" : `there are ${known.join(", ")}`;
  throw new ConfigurationError(`Cannot use preset "${name}": ${state}; leave --preset out, or correct it.`);
}
