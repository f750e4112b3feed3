// What a preset is: a whole way of playing an episode under one name.

import type { EnvironmentSource, UserSource } from "../core/index.ts";
import type { RunEpisode } from "../rollout/index.ts";
import type { FlagValues } from "./resolve-settings.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import type { ChosenModel } from "./choose-model.ts";

export type Preset = {
  /** Below flags and configuration file, above the general defaults. */
  readonly defaults: FlagValues;
  /** Its samples are re-encoded text, and may be exported all the same. */
  readonly allowTextDelta: boolean;
  /** Throws a `ConfigurationError` for settings that do not fit. */
  createPlayer(this: void, parts: PresetParts): RunEpisode;
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
