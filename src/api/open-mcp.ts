// MCP servers as environments: `mcp:<command or url>`.

import { basename, dirname, extname, resolve } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { mcpEnvironment, readMcpTasks } from "../environments/remote/mcp/index.ts";
import type { LoadedEnvironment } from "../parts/environment.ts";
import { readRegular } from "../system/regular-file.ts";

import { loadedRemote, type RemoteContext } from "./remote-options.ts";
import { readAccess } from "./secrets.ts";
import { packageVersion } from "./surroundings.ts";

/** Contacts the server if it has the tasks. Rejects with a `ConfigurationError` for settings that the user can correct. */
export async function openSource(
  context: RemoteContext<"envTasks" | "mcpElicitation" | "mcpWarm">,
): Promise<LoadedEnvironment> {
  const { rest: address, cwd, variables, options, limits } = context;
  const { apiKey: token, authorization } = readAccess("env", options, variables);
  const common = {
    address,
    cwd,
    variables,
    token,
    authorization,
    limits,
    version: packageVersion(),
    elicitation: options.mcpElicitation,
    warm: options.mcpWarm,
  };
  if (options.envTasks === null) return loadedRemote(await mcpEnvironment(common));
  const envTasks = resolve(cwd, options.envTasks);
  const tasks = await readMcpTasks(await readTasks(envTasks), {
    file: envTasks,
    loadGrader: (module) => context.importDefault(resolve(dirname(envTasks), module), "grader"),
  });
  return loadedRemote(await mcpEnvironment({ ...common, tasks, name: `mcp/${basename(envTasks, extname(envTasks))}` }));
}

async function readTasks(file: string): Promise<string> {
  try {
    return await readRegular(file, "utf8");
  } catch (cause) {
    throw new ConfigurationError(`Cannot read tasks from "${file}": it is not a readable file; correct --env-tasks.`, {
      cause,
    });
  }
}
