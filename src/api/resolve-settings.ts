// Flags over configuration file over preset over defaults. Each value is read by its setting's schema once; the first that does not fit
// is refused with the place it came from.

import { ConfigurationError } from "../core/index.ts";
import type { ConfigFile } from "./config-file.ts";
import {
  type RolloutSettings,
  rolloutSettings,
  type SettingName,
  settingKey,
  settingNames,
} from "./rollout-settings.ts";
import type { Flag, Setting } from "./setting.ts";

/** Values as the command line gave them; absent flags are absent. */
export type FlagValues = Readonly<Partial<Record<SettingName, unknown>>>;

/** Values of these may be, or hold, a secret that was put in the wrong place: messages never repeat them. */
const neverShown: ReadonlySet<SettingName> = new Set([
  "apiKeyEnv",
  "agentApiKeyEnv",
  "userApiKeyEnv",
  "url",
  "agentUrl",
  "userUrl",
  "samplingExtra",
]);

/** All settings. Throws a `ConfigurationError` that names flag or file, line and column. */
export function resolveSettings(
  flags: FlagValues,
  file: ConfigFile | null,
  presetDefaults: FlagValues = {},
): RolloutSettings {
  const resolved = settingNames.map((name) => [name, resolveOne(name, flags, file) ?? presetDefaults[name]] as const);
  return Object.fromEntries(
    resolved.map(([name, value]) => [name, value ?? rolloutSettings[name].default]),
  ) as RolloutSettings;
}

function resolveOne(name: SettingName, flags: FlagValues, file: ConfigFile | null): unknown {
  const setting: Setting<unknown> = rolloutSettings[name];
  const flag = flags[name];
  if (flag !== undefined) return read(setting, flag, { name, where: `--${settingKey(name)}` });
  const entry = file?.values.get(name);
  if (entry !== undefined)
    return read(setting, entry.value, { name, where: `"${settingKey(name)}" at ${entry.where}` });
  return undefined;
}

function read(
  setting: Setting<unknown>,
  value: unknown,
  source: { readonly name: SettingName; readonly where: string },
): unknown {
  const result = setting.schema.safeParse(value);
  if (result.success) return result.data;
  throw misfit(setting, source.where, neverShown.has(source.name) ? null : value);
}

/** The value of a flag that is no setting of a rollout; its default when it is absent. */
export function readFlag<T>(flag: Flag<T>, value: unknown): T {
  if (value === undefined) return flag.default;
  const result = flag.schema.safeParse(value);
  if (result.success) return result.data;
  throw misfit(flag, flag.flag.split(" ")[0] ?? flag.flag, value);
}

/** `null`: the value is not shown. */
function misfit(setting: Pick<Flag<unknown>, "wanted">, where: string, value: unknown): ConfigurationError {
  const state = value === null ? "its value does not fit" : `it is ${JSON.stringify(value)}`;
  return new ConfigurationError(`Cannot use ${where}: ${state}, ${setting.wanted} is needed.`);
}
