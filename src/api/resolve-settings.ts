// Flags over configuration file over preset over defaults, and settings as text again: YAML that a configuration file can hold,
// and the JSON of run.json. A file keeps where each value stands, so that an error can point at it. Settings name where keys are
// and never hold one; addresses are shown without credentials.

import { stringify, isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";

import { ConfigurationError } from "../core/index.ts";
import { showAddress } from "../http/index.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";
import {
  type RolloutSettings,
  rolloutSettings,
  type SettingName,
  settingNames,
  settingOfKey,
} from "./rollout-settings.ts";
import { readNamedFile } from "./surroundings.ts";
import { keyOf, readValue, type Setting, suggestion } from "./setting.ts";

export type ConfigFile = {
  /** As the user named it. */
  readonly path: string;
  /** By setting; `where` is `file:line:column` of the value. */
  readonly values: ReadonlyMap<SettingName, { readonly value: unknown; readonly where: string }>;
};

const howToName = 'name a YAML file with --config ("rollout --dry-run > run.yaml" writes one).';
const howToWrite = 'write one "name: value" a line, like "temperature: 0.7", names without dashes before them.';

/** Reads a configuration file. Throws a `ConfigurationError` with file, line and column. */
export async function readConfigFile(path: string, cwd: string): Promise<ConfigFile> {
  return parseConfig(await readNamedFile(path, cwd, howToName, "the configuration "), path);
}

/** As {@link readConfigFile}, from the text itself. */
export function parseConfig(text: string, path: string): ConfigFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const at = (offset: number | undefined): string => {
    const { line, col } = lines.linePos(offset ?? 0);
    return `${path}:${line}:${col}`;
  };
  const [error] = document.errors;
  if (error !== undefined) {
    throw new ConfigurationError(
      `Cannot read ${at(error.pos[0])}: it is not YAML (${firstSentence(error.message)}); ${howToWrite}`,
    );
  }
  const values = new Map<SettingName, { value: unknown; where: string }>();
  const { contents } = document;
  if (contents === null) return { path, values };
  if (!isMap(contents)) {
    throw new ConfigurationError(`Cannot read ${at(contents.range?.[0])}: these are no settings; ${howToWrite}`);
  }
  for (const { key, value } of contents.items) {
    const where = at(isScalar(key) ? key.range?.[0] : undefined);
    const keyText = isScalar(key) ? String(key.value) : "?";
    const name = settingOfKey(keyText);
    if (name === undefined) throw unknownKey(keyText, where);
    // An empty value leaves the setting alone, like a flag that is not given.
    if (!isNode(value) || (isScalar(value) && value.value === null)) continue;
    values.set(name, { value: value.toJS(document), where: at(value.range?.[0]) });
  }
  return { path, values };
}

function unknownKey(key: string, where: string): ConfigurationError {
  if (/^(user-)?api-key$/.test(key)) {
    return new ConfigurationError(
      `Cannot read ${where}: keys do not belong into configuration files; put the key into an environment variable and write "${key}-env: NAME".`,
    );
  }
  const near = suggestion(key, settingNames.map(keyOf));
  const hint = near ?? 'the names are those of the flags, see "rollout --help"';
  return new ConfigurationError(`Cannot read ${where}: there is no setting "${key}"; ${hint}`);
}

function firstSentence(message: string): string {
  return message.split("\n")[0]!.replace(/\.$/, "");
}

/** Values as the command line gave them; absent flags are absent. */
export type FlagValues = Readonly<Partial<Record<SettingName, unknown>>>;

/** Values of these may be, or hold, a secret that was put in the wrong place: messages never repeat them. */
const neverShown: ReadonlySet<SettingName> = new Set([
  "apiKeyEnv",
  "agentApiKeyEnv",
  "userApiKeyEnv",
  "judgeApiKeyEnv",
  "url",
  "agentUrl",
  "userUrl",
  "judgeUrl",
  "samplingExtra",
]);

/** All settings. Throws a `ConfigurationError` that names flag or file, line and column. */
export function resolveSettings(
  flags: FlagValues,
  file: ConfigFile | null,
  presetDefaults: FlagValues = {},
): RolloutSettings {
  const resolveOne = (name: SettingName): unknown => {
    const setting: Setting<unknown> = rolloutSettings[name];
    const isShown = !neverShown.has(name);
    if (flags[name] !== undefined) return readValue(setting, flags[name], { where: `--${keyOf(name)}`, isShown });
    const entry = file?.values.get(name);
    if (entry === undefined) return undefined;
    return readValue(setting, entry.value, { where: `"${keyOf(name)}" at ${entry.where}`, isShown });
  };
  const valueOf = (name: SettingName): unknown =>
    resolveOne(name) ?? presetDefaults[name] ?? rolloutSettings[name].default;
  return Object.fromEntries(settingNames.map((name) => [name, valueOf(name)])) as RolloutSettings;
}

const addresses: ReadonlySet<SettingName> = new Set(["url", "userUrl", "judgeUrl"]);

/** One entry for each of the settings, named as in a configuration file. */
export function settingsRecord(
  settings: RolloutSettings,
  names: readonly SettingName[] = settingNames,
): Record<string, unknown> {
  return Object.fromEntries(
    names.map((name) => {
      const value = settings[name];
      return [keyOf(name), addresses.has(name) && typeof value === "string" ? showAddress(value) : value];
    }),
  );
}

/** YAML for `--dry-run`; feeding it to `--config` gives the same settings. */
export function settingsYaml(settings: RolloutSettings): string {
  return stringify(settingsRecord(settings), { lineWidth: 0 });
}

export function settingsJson(settings: RolloutSettings, names?: readonly SettingName[]): JsonObject {
  return new Map<string, JsonValue>(
    Object.entries(settingsRecord(settings, names)).map(([key, value]) => [key, fromPlain(value)]),
  );
}
