// serveEnvironment(): an environment for programs of others, over MCP and OpenEnv. Agents talk to the simulated user that the settings choose.

import { createEnvServer, type EnvServer } from "../env-server/index.ts";
import { chooseUser } from "./choose-user.ts";
import { checkSplit, loadEnvironment } from "./load-environment.ts";
import { type CallOptions, readOptions, type RolloutSettingOptions, type SettingSources } from "./options.ts";
import type { SettingName } from "./rollout-settings.ts";
import { accessVariables, readKey, redactorFor } from "./secrets.ts";
import { closeRemote } from "./remote-environments.ts";
import { readAddress } from "./serve.ts";
import { readFlags, seconds, section, type SettingValues, text, variable, whole } from "./setting.ts";
import { packageVersion } from "./surroundings.ts";

/** The settings of a rollout that an environment server has: the environment and its user; the agent is the client's. */
export const envServerSettingNames = [
  ...([
    "env",
    "data",
    "envTasks",
    "envApiKeyEnv",
    "envAuthorizationEnv",
    "mcpElicitation",
    "mcpWarm",
    "split",
  ] as const),
  ...(["user", "userModel", "userUrl", "userApiKeyEnv", "userAuthorizationEnv"] as const),
  ...(["userLines", "userPrompts", "userCompat"] as const),
  ...(["openTimeout", "environmentTimeout", "gradingTimeout"] as const),
] as const satisfies readonly SettingName[];

export const envServerSettings = section("The server", {
  listen: text("<host:port>", "an address like 127.0.0.1:8950", "127.0.0.1:8950").help(
    "where requests come in; port 0 takes a free one",
  ),
  tokenEnv: variable.help("environment variable with the bearer token of clients; needed beyond this machine"),
  maxSessions: whole(1024, { max: 1_000_000 }).help("episodes at a time; more are refused with 503"),
  sessionIdle: seconds(900).help("an episode without a call for so long is closed"),
});

/** Options of {@link serveEnvironment}: the flags of the command `env-server` in camelCase. */
export type ServeEnvironmentOptions = Pick<
  RolloutSettingOptions,
  Extract<keyof RolloutSettingOptions, (typeof envServerSettingNames)[number]>
> &
  Partial<SettingValues<typeof envServerSettings>> &
  Pick<SettingSources, "config"> &
  Omit<CallOptions, "drain" | "signal">;

export type RunningEnvServer = EnvServer & {
  /** Of the environment. */
  readonly name: string;
  /** Of the user that agents talk to. */
  readonly user: string;
};

/**
 * Serves the episodes of an environment over MCP, at `/mcp` below the address, and over OpenEnv, at `/ws`. Resolves when requests come
 * in; rejects with a `ConfigurationError` for whatever the caller can correct.
 *
 * @example
 * const server = await serveEnvironment({ env: "bookshop", listen: "127.0.0.1:0" });
 * // ... a client that connects to `${server.url}/mcp?task=17&seed=3` ...
 * await server.close();
 */
export async function serveEnvironment(options: ServeEnvironmentOptions = {}): Promise<RunningEnvServer> {
  const { variables = process.env } = options;
  const own = readFlags(envServerSettings, options);
  const { host, port } = readAddress(own.listen);
  const token = readKey(variables, own.tokenEnv, "--token-env");
  const { source, split, user, redact, callMs, openMs } = await readHostedEnvironment(options);
  const server = await createEnvServer({
    ...{ source, split, user, host, port, token, redact, version: packageVersion() },
    ...{ maxSessions: own.maxSessions, idleMs: own.sessionIdle * 1000, callMs, openMs },
  });
  const close = async (): Promise<void> => {
    await server.close();
    // A source of the caller's is the caller's.
    if (options.env === undefined || typeof options.env === "string") await closeRemote(source);
  };
  return { ...server, close, name: source.name, user: user.name };
}

/** What says which environment is hosted, and with which user. */
export type HostedEnvironmentOptions = Omit<ServeEnvironmentOptions, keyof SettingValues<typeof envServerSettings>>;

/** The environment, its user, and what keeps their secrets. Throws a `ConfigurationError` for whatever the caller can correct. */
export async function readHostedEnvironment(options: HostedEnvironmentOptions) {
  const { variables = process.env } = options;
  const { settings, surroundings } = await readOptions(options);
  const limits = { environmentMs: settings.environmentTimeout * 1000, graderMs: settings.gradingTimeout * 1000 };
  const { source, defaultSplit } = await loadEnvironment(settings.env, {
    ...{ data: settings.data, remote: settings, limits },
    ...surroundings,
  });
  const split = checkSplit(source, settings.split ?? defaultSplit);
  const user = await chooseUser(settings, source, surroundings);
  const redact = redactorFor(variables, {
    variables: accessVariables(settings),
    urls: [settings.userUrl, settings.env],
  });
  return { source, split, user, redact, callMs: limits.environmentMs, openMs: settings.openTimeout * 1000 };
}
