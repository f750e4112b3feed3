// Configuration files: YAML with the names of the flags. Keeps where each value stands, so that an error can point at it.

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";
import { ConfigurationError } from "../core/index.ts";
import { type SettingName, settingNames, settingOfKey } from "./rollout-settings.ts";
import { keyOf, nearest } from "./setting.ts";

export type ConfigFile = {
  /** As the user named it. */
  readonly path: string;
  /** By setting; `where` is `file:line:column` of the value. */
  readonly values: ReadonlyMap<SettingName, { readonly value: unknown; readonly where: string }>;
};

const howToWrite = 'write one "name: value" a line, like "temperature: 0.7", names without dashes before them.';

/** Reads a configuration file. Throws a `ConfigurationError` with file, line and column. */
export async function readConfigFile(path: string, cwd: string): Promise<ConfigFile> {
  return parseConfig(await readText(path, cwd), path);
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
  const near = nearest(key, settingNames.map(keyOf));
  const hint = near === null ? 'the names are those of the flags, see "rollout --help"' : `did you mean "${near}"?`;
  return new ConfigurationError(`Cannot read ${where}: there is no setting "${key}"; ${hint}`);
}

async function readText(path: string, cwd: string): Promise<string> {
  try {
    return await readFile(resolve(cwd, path), "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    const states: Readonly<Record<string, string>> = { ENOENT: "there is no such file", EISDIR: "it is a folder" };
    const state = typeof code === "string" ? (states[code] ?? code) : String(error);
    throw new ConfigurationError(
      `Cannot read the configuration "${path}": ${state}; name a YAML file with --config ("rollout --dry-run > run.yaml" writes one).`,
      { cause: error },
    );
  }
}

function firstSentence(message: string): string {
  return message.split("\n")[0]!.replace(/\.$/, "");
}
