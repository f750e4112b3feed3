// Environments that run elsewhere, by the scheme of their address. The folder of a protocol, and
// the packages that it needs, are loaded only when its scheme is named.

import { basename, dirname, extname, resolve } from "node:path";
import { ConfigurationError, type EnvironmentSource } from "../core/index.ts";
import type { RemoteSource } from "../environments/remote/index.ts";
import type { RemoteContext } from "./remote-options.ts";
import { packageVersion } from "./surroundings.ts";
import { readAccess } from "./secrets.ts";
import { readRegular } from "../system/regular-file.ts";

/** The settings of remote environments. */
export type RemoteSettings = Pick<
  RemoteContext,
  "envTasks" | "envApiKeyEnv" | "envAuthorizationEnv" | "mcpElicitation" | "mcpWarm"
>;

export const defaultRemote: RemoteSettings = {
  envTasks: null,
  envApiKeyEnv: null,
  envAuthorizationEnv: null,
  mcpElicitation: "decline",
  mcpWarm: 2,
};

/**
 * Contacts the service if that is needed to know its tasks. Throws a `ConfigurationError` for
 * settings that the user can correct.
 */
type RemoteLoader = (address: string, context: RemoteContext) => Promise<EnvironmentSource>;

const loaders: Readonly<Record<string, RemoteLoader>> = {
  mcp: async (address, context) => {
    const { mcpEnvironment, readMcpTasks } = await import("../environments/remote/mcp/index.ts");
    const { cwd, variables, envTasks, limits } = context;
    const { apiKey: token, authorization } = readAccess("env", context, variables);
    const common = {
      address,
      cwd,
      variables,
      token,
      authorization,
      limits,
      version: packageVersion(),
      elicitation: context.mcpElicitation,
      warm: context.mcpWarm,
    };
    if (envTasks === null) return mcpEnvironment(common);
    const tasks = await readMcpTasks(await readTasks(envTasks), {
      file: envTasks,
      loadGrader: (module) => context.importDefault(resolve(dirname(envTasks), module), "grader"),
    });
    return mcpEnvironment({ ...common, tasks, name: `mcp/${basename(envTasks, extname(envTasks))}` });
  },
  openenv: async (...given) => (await import("./remote-rewarding.ts")).loadOpenEnv(...given),
  ors: async (...given) => (await import("./remote-rewarding.ts")).loadOrs(...given),
};

async function readTasks(file: string): Promise<string> {
  try {
    return await readRegular(file, "utf8");
  } catch (cause) {
    throw new ConfigurationError(
      `Cannot read tasks from "${file}": it is no file that can be read; correct --env-tasks.`,
      {
        cause,
      },
    );
  }
}

export const remoteSchemes: readonly string[] = Object.keys(loaders);

/**
 * Ends resources that the service of a remote source keeps besides its sessions. Never rejects,
 * because the run is already done.
 */
export async function closeRemote(source: Partial<RemoteSource>): Promise<void> {
  if (source.boundsOpening === true) await source.close?.().catch(() => undefined);
}

/** The loader of an address like `mcp:...`, and the part after the scheme; `null` for other names. */
export function findRemote(env: string): { readonly address: string; readonly load: RemoteLoader } | null {
  const [, scheme = "", address = ""] = /^([a-z]+):(.+)$/s.exec(env) ?? [];
  const load = Object.hasOwn(loaders, scheme) ? loaders[scheme] : undefined;
  return load === undefined ? null : { address: address.trim(), load };
}
