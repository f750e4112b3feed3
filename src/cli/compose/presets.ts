// Presets: whole ways of playing an episode under one name. A preset replaces the player and may change defaults; tasks,
// run folder, progress and exporters stay those of every rollout.

import { ConfigurationError, type EnvironmentSource, type UserSource } from "../../core/index.ts";
import type { EpisodePlayer } from "../../runs/index.ts";
import type { FlagValues } from "../settings/resolve-settings.ts";
import type { RolloutSettings } from "../settings/rollout-settings.ts";
import type { ChosenModel } from "./choose-model.ts";
import { slimeTauPreset } from "./slime-tau-preset.ts";

export type Preset = {
  /** Below flags and configuration file, above the general defaults. */
  readonly defaults: FlagValues;
  /** Its samples are re-encoded text, and may be exported all the same. */
  readonly allowTextDelta: boolean;
  /** Throws a `ConfigurationError` for settings that do not fit. */
  createPlayer(this: void, parts: PresetParts): EpisodePlayer;
};

export type PresetParts = {
  readonly settings: RolloutSettings;
  readonly environment: EnvironmentSource;
  readonly user: UserSource;
  readonly model: ChosenModel;
  /** Where the engine's server is: presets talk to it themselves. */
  readonly address: string;
  /** For the server; never shown. `null`: none. */
  readonly apiKey: string | null;
  readonly cwd: string;
};

const presets: Readonly<Record<string, Preset>> = { "slime-tau": slimeTauPreset };

/** The preset of a name. Throws a `ConfigurationError` that lists what there is. */
export function findPreset(name: string | null): Preset | null {
  if (name === null) return null;
  const preset = Object.hasOwn(presets, name) ? presets[name] : undefined;
  if (preset !== undefined) return preset;
  const known = Object.keys(presets).join(", ");
  throw new ConfigurationError(
    `Cannot use preset "${name}": there is none of that name; use one of ${known}, or leave --preset out.`,
  );
}
