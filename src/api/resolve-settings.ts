// Precedence of settings: flags, configuration file, preset, defaults; and settings as the JSON of
// run.json. The file itself is read in `config-file.ts`. Settings name the variables that hold keys
// and never hold a key; addresses are recorded and shown without their secrets.

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

/** All settings. Throws a `ConfigurationError` that names flag or file, line and column. */
export function resolveSettings(
  flags: FlagValues,
  file: ConfigFile | null,
  presetDefaults: FlagValues = {},
): RolloutSettings {
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
  const valueOf = (name: SettingName): unknown =>
    resolveOne(name) ?? presetDefaults[name] ?? rolloutSettings[name].default;
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
