// Flags and configuration file to the settings of a training: those of the learner, and those of the rollouts that it makes.

import type { ConfigFile } from "./config-file.ts";
import { type FlagValues, readFlag, resolveSettings } from "./resolve-settings.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import { type TrainSettingName, type TrainSettings, trainSettingNames, trainSettings } from "./train-settings.ts";

export type TrainFlags = FlagValues & Readonly<Partial<Record<TrainSettingName, unknown>>>;

/** Of the rollouts of a training. A small model talks in short turns; one that does not end its own is cut off soon. */
export const rolloutDefaults: FlagValues = { maxNewTokens: 96, maxTurns: 20 };

/** Throws a `ConfigurationError` that names the flag, or the line of the file. */
export function resolveTrainSettings(
  flags: TrainFlags,
  file: ConfigFile | null,
): { readonly settings: TrainSettings; readonly base: RolloutSettings } {
  const settings = readTrainSettings(flags);
  // A short training that compared on all of them would do little else.
  const finalTasks =
    flags.finalTasks === undefined
      ? Math.min(settings.finalTasks, Math.max(21, Math.round(settings.minutes * 105)))
      : settings.finalTasks;
  return { settings: { ...settings, finalTasks }, base: resolveSettings(flags, file, rolloutDefaults) };
}

export function readTrainSettings(flags: Readonly<Partial<Record<TrainSettingName, unknown>>>): TrainSettings {
  return Object.fromEntries(
    trainSettingNames.map((name) => [name, readFlag<unknown>(trainSettings[name], flags[name])]),
  ) as TrainSettings;
}
