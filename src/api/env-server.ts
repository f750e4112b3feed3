// serveEnvironment(): serves an environment to third-party programs, over MCP and OpenEnv. Agents
// talk to the simulated user that the settings choose.

import { ConfigurationError } from "../core/index.ts";
import { failedStartMs, Opened } from "../lib/opened.ts";
import { createEnvServer, type EnvServer } from "../env-server/index.ts";
import { chooseUser } from "./choose-user.ts";
import { environmentOptionNames } from "./environments.ts";
import { checkSplit, closeRemote, loadEnvironment } from "./load-environment.ts";
import { type CallOptions, readOptions, type RolloutSettingOptions, type SettingSources } from "./options.ts";
import type { SettingName } from "./rollout-settings.ts";
import { accessVariables, readKey, redactorFor } from "./secrets.ts";
import { listenSettings, readListen, withoutListen } from "./listen.ts";
import { milliseconds, readFlags, seconds, section, type SettingValues, variable, whole } from "../parts/setting.ts";
import { hostedUserOptionNames } from "../users/on-demand.ts";
import { packageVersion } from "./surroundings.ts";

/**
 * The settings of a rollout that an environment server has: the environment and its user; the
 * client brings the agent.
 */
export const envServerSettingNames = [
  ...(["env", ...environmentOptionNames, "split", "user", ...hostedUserOptionNames] as const),
  ...(["openTimeout", "environmentTimeout", "gradingTimeout"] as const),
] as const satisfies readonly SettingName[];

export const envServerSettings = {
  ...listenSettings("The server", 8950, "address to listen on for requests"),
  ...section("The server", {
    tokenEnv: variable.help("environment variable with the bearer token of clients; required beyond this machine"),
    agentTokenEnv: variable.help(
      "environment variable with the bearer token of agents, which gives access to tools and the reward of an episode, but not to tasks or grades",
    ),
    maxSessions: whole(1024, { max: 1_000_000 }).help(
      "maximum number of concurrent episodes; more are refused with 503",
    ),
    sessionIdle: seconds(900).help("close an episode after this long without a call"),
  }),
};

/** Options of {@link serveEnvironment}: the flags of the command `env-server` in camelCase. */
export type ServeEnvironmentOptions = Pick<
  RolloutSettingOptions,
  Extract<keyof RolloutSettingOptions, (typeof envServerSettingNames)[number]>
> &
  Partial<SettingValues<typeof envServerSettings>> &
  Pick<SettingSources, "config"> &
  Omit<CallOptions, "drain" | "signal">;

export type RunningEnvServer = EnvServer & {
  /** Name of the environment. */
  readonly name: string;
  /** Name of the user that agents talk to. */
  readonly user: string;
};

/** The public function of this name: `functions.ts`. */
export async function serveEnvironment(options: ServeEnvironmentOptions = {}): Promise<RunningEnvServer> {
  const { variables = process.env } = options;
  const own = readFlags(envServerSettings, options);
  const { host, port } = readListen(envServerSettings, options);
  const token = readKey(variables, own.tokenEnv, "--token-env");
  const agentToken = readKey(variables, own.agentTokenEnv, "--agent-token-env");
  if (agentToken !== null && agentToken === token) {
    throw new ConfigurationError(
      "Cannot serve an environment: --token-env and --agent-token-env hold the same token, so agents would read tasks and grades; use two tokens.",
    );
  }
  const opened = new Opened();
  try {
    const hosted = await readHostedEnvironment(withoutListen(options), opened);
    const { source, split, user, redact, callMs, openMs } = hosted;
    const server = await createEnvServer({
      source,
      split,
      user,
      host,
      port,
      token,
      agentToken,
      redact,
      version: packageVersion(),
      maxSessions: own.maxSessions,
      idleMs: milliseconds(own.sessionIdle),
      callMs,
      openMs,
    });
    opened.add(() => server.close());
    return { ...server, close: () => opened.close(), name: source.name, user: user.name };
  } catch (error) {
    await opened.abandon(failedStartMs);
    throw error;
  }
}

/** Options that name the hosted environment and its user. */
export type HostedEnvironmentOptions = Omit<ServeEnvironmentOptions, keyof SettingValues<typeof envServerSettings>>;

/**
 * The environment, its user, and the redactor of their secrets. Throws a `ConfigurationError` for
 * settings that the caller can correct. `opened` receives the resources that the environment keeps
 * besides its episodes; a source that the caller gave stays the caller's to close.
 */
export async function readHostedEnvironment(options: HostedEnvironmentOptions, opened: Opened) {
  const { variables = process.env } = options;
  const { settings, surroundings } = await readOptions(options);
  const limits = {
    environmentMs: milliseconds(settings.environmentTimeout),
    graderMs: milliseconds(settings.gradingTimeout),
  };
  const { source, defaultSplit } = await loadEnvironment(settings.env, {
    settings,
    limits,
    ...surroundings,
  });
  if (surroundings.parts?.env === undefined) opened.add(() => closeRemote(source));
  const split = checkSplit(source, settings.split ?? defaultSplit);
  const user = await chooseUser(settings, source, surroundings);
  const redact = redactorFor(variables, {
    variables: accessVariables(settings),
    urls: [settings.userUrl, settings.env],
  });
  return { source, split, user, redact, callMs: limits.environmentMs, openMs: milliseconds(settings.openTimeout) };
}
