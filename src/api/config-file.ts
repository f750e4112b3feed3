// Settings as YAML: reads and writes configuration files, and describes them in a JSON Schema. The
// position of each value is kept, so that an error can point at it. Imported only when a file is
// named or printed: the YAML library costs 40 ms.

import { stringify, isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";
import { z } from "zod";
import { ConfigurationError } from "../core/index.ts";
import { type ConfigFile, settingsRecord } from "./resolve-settings.ts";
import {
  type RolloutSettings,
  rolloutSettings,
  type SettingName,
  settingNames,
  settingOfKey,
} from "./rollout-settings.ts";
import { readNamedFile } from "./surroundings.ts";
import { keyOf } from "../parts/setting.ts";
import { suggestion } from "../lib/nearest.ts";

const howToName = 'name a YAML file with --config ("rollout --dry-run > run.yaml" writes one).';
const howToWrite = 'write one "name: value" per line, like "temperature: 0.7", without leading dashes.';

/** Reads a configuration file. Throws a `ConfigurationError` with file, line and column. */
export async function readConfigFile(path: string, cwd: string): Promise<ConfigFile> {
  return parseConfig(await readNamedFile(path, cwd, howToName, "the configuration "), path);
}

/** Same as {@link readConfigFile}, but takes the text itself. */
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
    throw new ConfigurationError(`Cannot read ${at(contents.range?.[0])}: these are not settings; ${howToWrite}`);
  }
  for (const { key, value } of contents.items) {
    const where = at(isScalar(key) ? key.range?.[0] : undefined);
    const keyText = isScalar(key) ? String(key.value) : "?";
    const name = settingOfKey(keyText);
    if (name === undefined) throw unknownKey(keyText, where);
    // An empty value does not change the setting, as if its flag were not given.
    if (!isNode(value) || (isScalar(value) && value.value === null)) continue;
    values.set(name, { value: value.toJS(document), where: at(value.range?.[0]) });
  }
  return { path, values };
}

function unknownKey(key: string, where: string): ConfigurationError {
  if (/^(user-)?api-key$/.test(key)) {
    return new ConfigurationError(
      `Cannot read ${where}: keys do not belong in configuration files; put the key in an environment variable and write "${key}-env: NAME".`,
    );
  }
  const near = suggestion(key, settingNames.map(keyOf));
  const hint = near ?? 'the names are those of the flags, see "rollout --help"';
  return new ConfigurationError(`Cannot read ${where}: there is no setting "${key}"; ${hint}`);
}

function firstSentence(message: string): string {
  return message.split("\n")[0]!.replace(/\.$/, "");
}

/** YAML for `--dry-run`; feeding it to `--config` gives the same settings. */
export function settingsYaml(settings: RolloutSettings): string {
  return stringify(settingsRecord(settings), { lineWidth: 0 });
}

/**
 * JSON schema of a `--config` file. A run may still refuse a valid file: the schema knows types and
 * names, not how settings fit together.
 */
export function configurationSchema(): Readonly<Record<string, unknown>> {
  const properties = settingNames.map((name) => {
    const { schema, help, default: value, group } = rolloutSettings[name];
    // Refinements and conversions of text are code: their valid values are described in words.
    const { $schema: _, ...type } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as Record<
      string,
      unknown
    >;
    return [keyOf(name), { ...type, title: group, description: help, default: value }] as const;
  });
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Settings of a rollout (trainable-agents rollout --config)",
    type: "object",
    properties: Object.fromEntries(properties),
    additionalProperties: false,
  };
}
