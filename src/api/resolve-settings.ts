// Precedence of settings: flags, configuration file, preset, defaults; and settings as the JSON of
// run.json. The file itself is read in `config-file.ts`. Settings name the variables that hold keys
// and never hold a key; addresses are recorded and shown without their secrets, and checked before
// anything is opened or written.
//
// A preset changes defaults, and may replace the loop of an episode; tasks, run folder, progress and
// exporters are the same as in every rollout. "slime-tau" runs every episode with the loop that this
// project grew out of, for comparison; its samples are marked "text-delta".

import { refuseCredentials } from "../http/base-url.ts";
import type { RunEpisode } from "../rollout/index.ts";
import type { PresetParts } from "./slime-tau-preset.ts";
import { meant } from "../lib/nearest.ts";
import { ConfigurationError } from "../core/index.ts";
import { hideSecrets, isHidden } from "../lib/hidden-parts.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";
import { type RolloutSettings, rolloutSettings, type SettingName, settingNames } from "./rollout-settings.ts";
import { keyOf, readValue, type Setting } from "../parts/setting.ts";

export type ConfigFile = {
  /** The path that the user gave. */
  readonly path: string;
  /** Values by setting; `where` is `file:line:column` of the value. */
  readonly values: ReadonlyMap<SettingName, { readonly value: unknown; readonly where: string }>;
};

/** Values from the command line; flags that were not given are absent. */
export type FlagValues = Readonly<Partial<Record<SettingName, unknown>>>;

/**
 * All settings. `below`: values between the file and the general defaults, such as those of a preset.
 * Throws a `ConfigurationError` that names flag or file, line and column.
 */
export function resolveSettings(flags: FlagValues, file: ConfigFile | null, below: FlagValues = {}): RolloutSettings {
  const resolveOne = (name: SettingName): unknown => {
    const setting: Setting<unknown> = rolloutSettings[name];
    const given = flags[name];
    if (given !== undefined) {
      refuseHidden(name, given, `--${keyOf(name)}`);
      return readValue(setting, given, `--${keyOf(name)}`);
    }
    const entry = file?.values.get(name);
    if (entry === undefined) return undefined;
    refuseHidden(name, entry.value, `"${keyOf(name)}" at ${entry.where}`);
    return readValue(setting, entry.value, `"${keyOf(name)}" at ${entry.where}`);
  };
  const valueOf = (name: SettingName): unknown => resolveOne(name) ?? below[name] ?? rolloutSettings[name].default;
  return inMode(Object.fromEntries(settingNames.map((name) => [name, valueOf(name)])) as RolloutSettings);
}

/**
 * Throws a `ConfigurationError` for an address from a record, which lacks its secret and so is a
 * different address.
 */
function refuseHidden(name: SettingName, value: unknown, where: string): void {
  if (rolloutSettings[name].holds !== "address" || typeof value !== "string" || !isHidden(value)) return;
  throw new ConfigurationError(
    `Cannot use ${where}: it is ${value}, and the secret is not recorded; pass --${keyOf(name)} again, as it was.`,
  );
}

/**
 * Puts the mode into the name of the environment, and so into the ids of its tasks: tasks of two
 * modes never mix.
 */
function inMode(settings: RolloutSettings): RolloutSettings {
  const { env, solo, retrieval } = settings;
  if (env === "tau2-bench/banking_knowledge" && retrieval !== null) return { ...settings, env: `${env}-${retrieval}` };
  const isOther = solo && env.startsWith("tau2-bench/") && !env.endsWith("-solo");
  return isOther ? { ...settings, env: `${env}-solo` } : settings;
}

/** One entry for each of the settings, named as in a configuration file. */
export function settingsRecord(
  settings: RolloutSettings,
  names: readonly SettingName[] = settingNames,
): Record<string, unknown> {
  return Object.fromEntries(
    names.map((name) => {
      const value = settings[name];
      const isAddress = rolloutSettings[name].holds === "address";
      return [keyOf(name), isAddress && typeof value === "string" ? hideSecrets(value) : value];
    }),
  );
}

export function settingsJson(settings: RolloutSettings, names?: readonly SettingName[]): JsonObject {
  return new Map<string, JsonValue>(
    Object.entries(settingsRecord(settings, names)).map(([key, value]) => [key, fromPlain(value)]),
  );
}

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

type AddressName = Extract<
  SettingName,
  "env" | "url" | "agentUrl" | "agentCommand" | "agentAcp" | "userUrl" | "judgeUrl" | "teacherUrl" | "metrics" | "queue"
>;

/** Settings whose values are recorded and shown without secrets. */
export const addressNames: readonly AddressName[] = settingNames.filter(
  (name): name is AddressName => rolloutSettings[name].holds === "address",
);

/** Their values, for a redactor. */
export function addressesOf(settings: Pick<RolloutSettings, AddressName>): readonly (string | null)[] {
  return addressNames.map((name) => settings[name]);
}

/**
 * Servers of settings, and the setting that takes their `Authorization` header. The loader of its
 * scheme checks the address of an environment.
 */
const called: Partial<Record<AddressName, { readonly what: string; readonly setting: string }>> = {
  url: { what: "engine", setting: "--engine-authorization-env" },
  agentUrl: { what: "agent model", setting: "--agent-authorization-env" },
  userUrl: { what: "user model", setting: "--user-authorization-env" },
  judgeUrl: { what: "judge model", setting: "--judge-authorization-env" },
  metrics: { what: "metrics server", setting: "--metrics-authorization-env" },
};

/**
 * Throws a `ConfigurationError` for an address with a user or a password; only the queue's address
 * may have one.
 */
export function checkAddresses(settings: Pick<RolloutSettings, AddressName>): void {
  for (const name of addressNames) {
    const options = called[name];
    const value = settings[name];
    if (options !== undefined && value !== null) refuseCredentials(value, options);
  }
}
