// A run folder as the start of a resumed run: the settings that it began with, and a check that the
// present ones agree with them. Names of keys are for people.

import { resolve } from "node:path";

import { ConfigurationError } from "../core/index.ts";
import { textTable } from "../lib/text.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { fromPlain, toPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import type { RunTotals } from "../rollout/index.ts";
import { openRunFolder, runFacts } from "../store/index.ts";
import { type ConfigFile, settingsJson } from "./resolve-settings.ts";
import {
  type RolloutSettings,
  type SettingName,
  rolloutSettings,
  settingNames,
  settingOfKey,
} from "./rollout-settings.ts";
import { keyOf } from "../parts/setting.ts";

export type RunToResume = {
  /** The path that the user gave. */
  readonly folder: string;
  /** The settings in run.json; flags override them. */
  readonly settings: ConfigFile;
  readonly configuration: JsonObject;
  /** `null` if run.json has none. */
  readonly id: string | null;
  readonly begun: Date;
  /** Number of times that the run was resumed so far. */
  readonly resumed: number;
  readonly isComplete: boolean;
  /** Hashes of the tasks by split, where the run recorded them. */
  readonly taskHashes: JsonObject;
  /** Totals when a process last ended the run; `null` if none did. */
  readonly totals: RunTotals | null;
};

/** Throws a `ConfigurationError` when the folder holds no run, or one that cannot be resumed. */
export async function readRunToResume(folder: string, cwd: string): Promise<RunToResume> {
  const manifest = await openRunFolder(resolve(cwd, folder)).manifest();
  const { configuration, startedAt, id, resumed, status, totals, environment } = runFacts(manifest);
  if (configuration === null || startedAt === null) {
    throw new ConfigurationError(
      `Cannot resume "${folder}": its run.json names no configuration; name the folder of a rollout or an evaluation.`,
    );
  }
  return {
    folder,
    id,
    begun: new Date(startedAt),
    resumed: resumed ?? 0,
    isComplete: status === "done",
    taskHashes: environment?.taskHashes ?? new Map(),
    settings: { path: `${folder}/run.json`, values: settingValues(configuration, folder) },
    configuration,
    totals: toPlain(totals) as RunTotals | null,
  };
}

function settingValues(configuration: JsonObject, folder: string): ConfigFile["values"] {
  const values = new Map<SettingName, { value: unknown; where: string }>();
  for (const [key, value] of configuration) {
    const name = settingOfKey(key);
    if (name === undefined) {
      throw new ConfigurationError(
        `Cannot resume "${folder}": it has a setting "${key}", which this version does not know; use the version that it began with (see run.json).`,
      );
    }
    if (value !== null && rolloutSettings[name].onResume !== "of-terminal")
      values.set(name, { value: toPlain(value), where: `${folder}/run.json` });
  }
  return values;
}

/**
 * Throws a `ConfigurationError` with a table when settings that affect the episodes have changed.
 * `names`: settings of the run.
 */
export function checkSameSettings(
  { folder, configuration }: RunToResume,
  settings: RolloutSettings,
  names: readonly SettingName[] = settingNames,
): void {
  const now = settingsJson(settings);
  const differences = names.flatMap((name) => {
    const key = keyOf(name);
    const [before, after] = [configuration.get(key), now.get(key)].map((value) =>
      dumpJson(value ?? fromPlain(rolloutSettings[name].default)),
    );
    return rolloutSettings[name].onResume !== "same" || before === after ? [] : [[key, before ?? "", after ?? ""]];
  });
  if (differences.length === 0) return;
  const table = textTable("setting | the run | now", differences);
  throw new ConfigurationError(
    `Cannot resume "${folder}": its episodes would not be comparable, because settings differ.\n\n` +
      `${table.map((line) => `  ${line}`).join("\n")}\n\nRemove them, or start a new run.`,
  );
}

/**
 * Throws a `ConfigurationError` when tasks have changed since the run began. `hashes`: hashes of the
 * present tasks by split.
 */
export function checkSameTasks(
  { folder, taskHashes }: Pick<RunToResume, "folder" | "taskHashes">,
  hashes: Readonly<Record<string, string>>,
): void {
  for (const [name, before] of taskHashes) {
    const now = Object.hasOwn(hashes, name) ? hashes[name]! : null;
    if (before === now) continue;
    const shown = [before, now].map((hash) => (typeof hash === "string" ? hash.slice(0, 12) : "none"));
    throw new ConfigurationError(
      `Cannot resume "${folder}": the tasks of split "${name}" are not those that it began with (hash ${shown[0]} then, ${shown[1]} now); restore the file or the version of the tasks, or start a new run.`,
    );
  }
}
