// The settings that hold addresses, and the check of all of them before anything is opened or written.

import { refuseCredentials } from "../http/base-url.ts";
import { type RolloutSettings, rolloutSettings, type SettingName, settingNames } from "./rollout-settings.ts";

type AddressName = Extract<
  SettingName,
  "env" | "url" | "agentUrl" | "agentCommand" | "userUrl" | "judgeUrl" | "teacherUrl" | "metrics" | "queue"
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
