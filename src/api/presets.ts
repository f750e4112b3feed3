// Presets by name. A preset changes defaults, and may replace the loop of an episode; tasks, run
// folder, progress and exporters are the same as in every rollout. "slime-tau" runs every episode
// with the loop that this project grew out of, for comparison; its samples are marked "text-delta".

import { ConfigurationError } from "../core/index.ts";
import type { RunEpisode } from "../rollout/index.ts";
import type { FlagValues } from "./resolve-settings.ts";
import type { PresetParts } from "./slime-tau-preset.ts";
import { meant } from "../lib/nearest.ts";

export type Preset = {
  /** Defaults that flags and configuration file override; they override the general defaults. */
  readonly defaults: FlagValues;
  /** True if its samples are re-encoded text but may still be exported. */
  readonly allowTextDelta: boolean;
  /** Rejects with a `ConfigurationError` for settings that the preset does not support. */
  createRunner(this: void, parts: PresetParts): Promise<RunEpisode>;
};

export const slimeTauPreset: Preset = {
  defaults: { temperature: 0, topP: 0.9, topK: 50, maxNewTokens: 512 },
  allowTextDelta: true,
  createRunner: async (parts) => (await import("./slime-tau-preset.ts")).slimeTauRunner(parts),
};

const loops: Readonly<Record<string, Preset>> = { "slime-tau": slimeTauPreset };

/** Presets whose episodes run with the usual loop: several settings under one name. */
const recipes: Readonly<Record<string, FlagValues>> = {
  // Settings of upstream's published results: the defaults of its run.py and the user model of its
  // leaderboard.
  "tau-bench": { temperature: 0, maxTurns: 30, user: "llm", userModel: "openai/gpt-4o", userCompat: "upstream" },
};

/**
 * The loop and defaults of a preset; `null` if episodes run with the usual loop. Throws as {@link
 * presetDefaults} does.
 */
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
    `Cannot use preset "${name}": it does not exist; use one of ${known.join(", ")}, or remove --preset.${meant(name, known)}`,
  );
}
