// MCP servers as environments: `mcp:<command or url>`.

import { basename, dirname, extname, resolve } from "node:path";
import { mcpEnvironment, readMcpTasks } from "../environments/remote/mcp/index.ts";
import type { LoadedEnvironment } from "../parts/environment.ts";

import { loadedRemote, type RemoteContext } from "./remote-options.ts";
import { readAccess } from "./secrets.ts";
import { packageVersion } from "./surroundings.ts";
import { readTaskRows } from "./task-rows.ts";

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
  const tasks = await readMcpTasks(readTaskRows(options.envTasks, cwd), {
    file: envTasks,
    loadGrader: (module) => context.importDefault(resolve(dirname(envTasks), module), "grader"),
  });
  return loadedRemote(await mcpEnvironment({ ...common, tasks, name: `mcp/${basename(envTasks, extname(envTasks))}` }));
}
