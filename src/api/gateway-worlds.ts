// Environments for the sessions of a gateway: a session that is opened with `environment_task` has the tools of that task's world
// over MCP, at `/s/<key>/mcp`, and the world's reward at its end. The episodes are hosted as those of `env-server`.

import { readHostedEnvironment, type HostedEnvironmentOptions } from "./env-server.ts";
import { type OpenedWorlds, type WorldBounds, worldsOf } from "./host-worlds.ts";
import type { Opened } from "../lib/opened.ts";

/** The settings that say which worlds sessions may have. */
export const worldSettingNames = [
  ...(["env", "data", "envTasks", "envApiKeyEnv", "envAuthorizationEnv", "split"] as const),
  ...(["user", "userModel", "userUrl", "userApiKeyEnv", "userAuthorizationEnv", "userLines"] as const),
] as const;

/** Throws a `ConfigurationError` for whatever the caller can correct. `opened`: gets what is open then. */
export async function openWorlds(
  options: HostedEnvironmentOptions,
  { opened, ...bounds }: WorldBounds & { readonly opened: Opened },
): Promise<OpenedWorlds> {
  const worlds = worldsOf(await readHostedEnvironment(options, opened), bounds);
  opened.add(() => worlds.closeAll());
  return worlds;
}
