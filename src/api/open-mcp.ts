// MCP servers as environments: `mcp:<command or url>`.

import { basename, dirname, extname, resolve } from "node:path";
import {
  checkedGrader,
  mcpEnvironment,
  type McpGrader,
  type McpTaskList,
  readMcpTask,
} from "../environments/remote/mcp/index.ts";
import type { LoadedEnvironment } from "../parts/environment.ts";

import { loadedRemote, type RemoteContext } from "./remote-options.ts";
import { readAccess } from "./secrets.ts";
import { packageVersion } from "./surroundings.ts";
import { openTasks, type RowReader, splitFacts } from "../task-files/index.ts";

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
  const tasks = await mcpTasks(options.envTasks, context);
  const name = `mcp/${basename(options.envTasks, extname(options.envTasks))}`;
  return loadedRemote(await mcpEnvironment({ ...common, tasks, name }));
}

const graderMark = "grader ";

const reader: RowReader = {
  name: "mcp-1",
  defaultSplit: "test",
  read: (fields, place) => {
    const { id, split, instruction, agenda, files, grader } = readMcpTask(fields, place);
    const traits = [`${graderMark}${grader}`];
    if (instruction !== null) traits.push("instruction");
    if (agenda !== null) traits.push("agenda");
    if (Object.keys(files).length > 0) traits.push("files");
    return { id, split, traits };
  },
};

/** The tasks of a file, each read when it is run. The graders that it names are loaded now. */
async function mcpTasks(path: string, { cwd, importDefault }: RemoteContext): Promise<McpTaskList> {
  const table = await openTasks(path, { cwd, reader, flag: "--env-tasks", importDefault });
  const folder = dirname(resolve(cwd, path));
  const graders = new Map<string, McpGrader>();
  const load = async (module: string, place: string): Promise<McpGrader> =>
    checkedGrader(await importDefault(resolve(folder, module), "grader"), module, place);
  for (const [trait, { first }] of table.traits) {
    const module = trait.startsWith(graderMark) ? trait.slice(graderMark.length) : null;
    if (module !== null) graders.set(module, await load(module, first));
  }
  return {
    ...splitFacts(table),
    hasInstructions: table.allHave("instruction"),
    hasAgendas: table.allHave("agenda"),
    withFiles: table.traits.get("files")?.first ?? null,
    task: (split, index) => {
      const { fields, place } = table.row(split, index);
      const { grader: module, ...task } = readMcpTask(fields, place);
      // A function may name a grader that none of its first tasks have.
      const grader: McpGrader = graders.get(module) ?? (async (input) => (await load(module, place))(input));
      return { ...task, split, grader };
    },
  };
}
