// Presets by name. A preset changes defaults, and may replace the loop of an episode; tasks, run folder, progress and exporters
// stay those of every rollout. "slime-tau" runs every episode by the loop this project grew out of, for comparison; its samples
// are marked "text-delta".

import { ConfigurationError } from "../core/index.ts";
import type { RunEpisode } from "../rollout/index.ts";
import type { FlagValues } from "./resolve-settings.ts";
import type { PresetParts } from "./slime-tau-preset.ts";
import { meant } from "../lib/nearest.ts";

export type Preset = {
  /** Below flags and configuration file, above the general defaults. */
  readonly defaults: FlagValues;
  /** Its samples are re-encoded text, and may be exported all the same. */
  readonly allowTextDelta: boolean;
  /** Rejects with a `ConfigurationError` for settings that do not fit. */
  createRunner(this: void, parts: PresetParts): Promise<RunEpisode>;
};

export const slimeTauPreset: Preset = {
  defaults: { temperature: 0, topP: 0.9, topK: 50, maxNewTokens: 512 },
  allowTextDelta: true,
  createRunner: async (parts) => (await import("./slime-tau-preset.ts")).slimeTauRunner(parts),
};

const loops: Readonly<Record<string, Preset>> = { "slime-tau": slimeTauPreset };

/** Presets whose episodes run by the usual loop: settings under one name. */
const recipes: Readonly<Record<string, FlagValues>> = {
  // Settings of upstream's published results: the defaults of its run.py and the user model of its
  // leaderboard.
  "tau-bench": { temperature: 0, maxTurns: 30, user: "llm", userModel: "openai/gpt-4o", userCompat: "upstream" },
};

/** The loop and defaults of a preset; `null` where episodes run by the usual one. Throws as {@link presetDefaults}. */
export function findPreset(name: string | null): Preset | null {
  presetDefaults(name);
  return name !== null && Object.hasOwn(loops, name) ? loops[name]! : null;
}

/**
 * Values of a preset that replace the general defaults. Throws a `ConfigurationError` for an
 * unknown name.
 */
export function presetDefaults(name: string | null): FlagValues {
  if (name === null) return {};
  if (Object.hasOwn(loops, name)) return loops[name]!.defaults;
  if (Object.hasOwn(recipes, name)) return recipes[name]!;
  const known = [...Object.keys(loops), ...Object.keys(recipes)];
  throw new ConfigurationError(
    `Cannot use preset "${name}": there is none of that name; use one of ${known.join(", ")}, or leave --preset out.${meant(name, known)}`,
  );
}
