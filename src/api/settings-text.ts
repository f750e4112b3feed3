// Settings as text: YAML that a configuration file can hold, and the JSON of run.json. Settings name where keys are and
// never hold one; addresses are shown without credentials.

import { stringify } from "yaml";
import { showAddress } from "../http/index.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";
import { type RolloutSettings, type SettingName, settingKey, settingNames } from "./rollout-settings.ts";

const addresses: ReadonlySet<SettingName> = new Set(["url", "userUrl"]);

/** One entry a setting, named as in a configuration file. */
export function settingsRecord(settings: RolloutSettings): Record<string, unknown> {
  return Object.fromEntries(
    settingNames.map((name) => {
      const value = settings[name];
      return [settingKey(name), addresses.has(name) && typeof value === "string" ? showAddress(value) : value];
    }),
  );
}

/** YAML for `--dry-run`; feeding it to `--config` gives the same settings. */
export function settingsYaml(settings: RolloutSettings): string {
  return stringify(settingsRecord(settings), { lineWidth: 0 });
}

export function settingsJson(settings: RolloutSettings): JsonObject {
  return new Map<string, JsonValue>(
    Object.entries(settingsRecord(settings)).map(([key, value]) => [key, fromPlain(value)]),
  );
}
