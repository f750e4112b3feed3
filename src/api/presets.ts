// Presets by name. A preset changes defaults, and may replace the player; tasks, run folder, progress and exporters stay those
// of every rollout.

import { ConfigurationError } from "../core/index.ts";
import type { FlagValues } from "./resolve-settings.ts";
import type { Preset } from "./preset.ts";
import { slimeTauPreset } from "./slime-tau-preset.ts";

const players: Readonly<Record<string, Preset>> = { "slime-tau": slimeTauPreset };

/** Presets whose episodes are played as always: settings under one name. */
const recipes: Readonly<Record<string, FlagValues>> = {
  // How upstream's published results were made: its run.py's defaults and the user model of its leaderboard.
  "tau-bench": { temperature: 0, maxTurns: 30, user: "llm", userModel: "openai/gpt-4o", userCompat: "upstream" },
};

/** The player and defaults of a preset; `null` where episodes are played as always. Throws as {@link presetDefaults}. */
export function findPreset(name: string | null): Preset | null {
  presetDefaults(name);
  return name !== null && Object.hasOwn(players, name) ? players[name]! : null;
}

/** What a preset puts in place of the general defaults. Throws a `ConfigurationError` for a name that is none. */
export function presetDefaults(name: string | null): FlagValues {
  if (name === null) return {};
  if (Object.hasOwn(players, name)) return players[name]!.defaults;
  if (Object.hasOwn(recipes, name)) return recipes[name]!;
  const known = [...Object.keys(players), ...Object.keys(recipes)].join(", ");
  throw new ConfigurationError(
    `Cannot use preset "${name}": there is none of that name; use one of ${known}, or leave --preset out.`,
  );
}
