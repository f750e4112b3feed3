// Public entry of MCP environments: any server of tools, over standard input and output or HTTP,
// with the caller's tasks and graders.

import { ConfigurationError } from "../../../core/failure.ts";
import { hideSecrets } from "../../../lib/hidden-parts.ts";
import { type RemoteLimits, type RemoteSource, remoteSource } from "../index.ts";
import type { ElicitationPolicy } from "./mcp-connection.ts";
import { loadMcpLibrary } from "./mcp-library.ts";
import { createMcpService } from "./mcp-service.ts";
import { type McpTask, type McpTaskList, mcpTaskList } from "./mcp-tasks.ts";

export type { ElicitationPolicy } from "./mcp-connection.ts";
export {
  checkedGrader,
  type McpCallRecord,
  type McpGrader,
  type McpGraderInput,
  type McpTask,
  type McpTaskFields,
  type McpTaskList,
  readMcpTask,
  readMcpTasks,
  type ReadTasksOptions,
} from "./mcp-tasks.ts";
export type { ReadResult } from "./result-text.ts";

export type McpEnvironmentOptions = {
  /** A command line (`npx -y server {folder}`), or an address that begins with http. */
  readonly address: string;
  /**
   * Tasks as read by `readMcpTasks`, or a list that reads each of them when it is run. @default the
   * tasks of the server, which must be a `trainable-agents env-server`
   */
  readonly tasks?: readonly McpTask[] | McpTaskList;
  /** Name of the environment, also in the ids of its tasks. @default "mcp" */
  readonly name?: string;
  /** @default "decline" */
  readonly elicitation?: ElicitationPolicy;
  /**
   * Number of initialized processes kept ready for the next episodes; 0: each episode starts its
   * own. @default 2
   */
  readonly warm?: number;
  /** Bearer token for HTTP. @default null */
  readonly token?: string | null;
  /** Value of the `Authorization` header for HTTP, instead of a token. @default null */
  readonly authorization?: string | null;
  /** Variables that the command may refer to. @default the environment of this process */
  readonly variables?: Readonly<Record<string, string | undefined>>;
  /** Working directory of the command. @default the working directory of this process */
  readonly cwd?: string;
  /** Version that the client reports to the server. @default "0" */
  readonly version?: string;
  readonly limits?: Partial<RemoteLimits>;
  /**
   * Receives each notice for people once: a tool that cannot be used and is skipped. @default a
   * warning of the process
   */
  readonly onNotice?: (message: string) => void;
};

/**
 * The environment of an MCP server. Needs the package `@modelcontextprotocol/client`; rejects with
 * a `ConfigurationError` that has the command to install it, and for any other mistake that the
 * caller can correct. `close()` ends the processes kept ready.
 *
 * @example
 * const tasks = await readMcpTasks(text, { file: "tasks.jsonl", loadGrader: (module) => import(module).then((one) => one.default) });
 * const source = await mcpEnvironment({ address: "npx -y @modelcontextprotocol/server-filesystem {folder}", tasks });
 */
export async function mcpEnvironment(options: McpEnvironmentOptions): Promise<RemoteSource> {
  const {
    address,
    tasks = null,
    name = "mcp",
    elicitation = "decline",
    warm = 2,
    token = null,
    authorization = null,
    version = "0",
  } = options;
  if (!Number.isSafeInteger(warm) || warm < 0 || warm > 1_000) {
    throw new ConfigurationError(
      `Cannot use "mcp:${hideSecrets(address)}": warm is ${warm}, expected a whole number from 0 to 1000.`,
    );
  }
  const { variables = process.env, cwd = process.cwd(), limits = {} } = options;
  const { onNotice = (message) => process.emitWarning(message, "McpWarning") } = options;
  const library = await loadMcpLibrary();
  const service = await createMcpService({
    library,
    address,
    tasks: tasks === null || "sizes" in tasks ? tasks : mcpTaskList(tasks),
    name,
    elicitation,
    warm,
    token,
    authorization,
    version,
    variables,
    cwd,
    onNotice,
  });
  return remoteSource(service, { limits });
}
