// Presets by name. A preset replaces the player and may change defaults; tasks, run folder, progress and exporters stay those
// of every rollout.

import { ConfigurationError } from "../../core/index.ts";
import type { Preset } from "./preset.ts";
import { slimeTauPreset } from "./slime-tau-preset.ts";

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
