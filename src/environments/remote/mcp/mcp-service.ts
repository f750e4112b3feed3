// MCP as a remote service: a session is a process of its own over standard input and output, or an HTTP session that a DELETE
// ends. The tools that the policy is shown are those at the start; when the server changes its list, it is read again before the
// next call, and the episode's info says what came and went. A server of ours (`env-server`) has tasks, users' utterances and a
// grade of its own, which travel beside the protocol's messages.

import { rmSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Environment, Grade, Task, ToolResult } from "../../../core/environment.ts";
import { attribute, ConfigurationError, messageOf } from "../../../core/failure.ts";
import type { Tool } from "../../../core/message.ts";
import { createTaskset } from "../../../core/taskset.ts";
import { fromPlain, toPlain } from "../../../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/value.ts";
import { remoteFault, type RemoteService, type RemoteSession } from "../index.ts";
import { type ElicitationPolicy, McpConnection, type McpLimits, RefusedCall } from "./mcp-connection.ts";
import { boundedFetch, type McpLibrary } from "./mcp-library.ts";
import { folderMark, type McpCommand, McpProcess, parseMcpCommand, WarmPool } from "./mcp-process.ts";
import { type McpCallRecord, type McpTask, gradeOf } from "./mcp-tasks.ts";
import { openOwnSession, ownTasks } from "./own-server.ts";
import { readToolResult, type ReadResult } from "./result-text.ts";

export type McpServiceOptions = {
  readonly library: McpLibrary;
  /** A command line, or an address that begins with http. */
  readonly address: string;
  readonly name: string;
  /** `null`: those of the server, which then is one of ours. */
  readonly tasks: readonly McpTask[] | null;
  readonly elicitation: ElicitationPolicy;
  /** Processes that wait, initialized. */
  readonly warm: number;
  /** Sent as a bearer token over HTTP; `null`: none. */
  readonly token: string | null;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly version: string;
};

const limits: McpLimits & { readonly maxMessageCharacters: number; readonly graceMs: number } = {
  maxMessages: 50_000,
  maxTools: 512,
  maxSize: 10_000_000,
  maxMessageCharacters: 50_000_000,
  graceMs: 500,
};

/** A connection, and what ends with it. */
type Opened = {
  readonly connection: McpConnection;
  readonly folder: string | null;
  readonly isOpen: boolean;
  readonly close: () => Promise<void>;
};

/** What a client of ours says when it begins: which episode a server of ours is to open. */
type OwnRequest = { readonly task: string; readonly seed: number } | null;

/** Throws a `ConfigurationError`; contacts the server when its tasks are needed. */
export async function createMcpService(options: McpServiceOptions): Promise<RemoteService> {
  const { address, tasks } = options;
  const isHttp = /^https?:\/\//i.test(address);
  const command = isHttp ? null : parseMcpCommand(address, options.variables);
  if (isHttp && !URL.canParse(address)) {
    throw new ConfigurationError(`Cannot use "mcp:${address}": it is no address; correct --env.`);
  }
  const hasFolder = address.includes(folderMark) && !isHttp;
  const withFiles = tasks?.find((task) => Object.keys(task.files).length > 0);
  if (withFiles !== undefined && !hasFolder) {
    throw new ConfigurationError(
      `Cannot write the files of task "${withFiles.id}": the command names no ${folderMark} for them; correct --env or --env-tasks.`,
    );
  }
  const title = `the MCP server "${address}"`;
  const openHttp = (signal: AbortSignal, own: OwnRequest = null) => connectHttp(options, { title, signal, own });
  if (command === null) {
    if (tasks === null) return ownService(options, openHttp);
    return foreignService(options, { tasks, open: openHttp, close: async () => undefined });
  }
  if (tasks === null) {
    throw new ConfigurationError(
      `Cannot use "mcp:${address}": a server of tools has no tasks; give them with --env-tasks <file>.`,
    );
  }
  const pool = new WarmPool(options.warm, (signal) => connectProcess(options, { title, signal, command, hasFolder }));
  return foreignService(options, { tasks, open: (signal) => pool.take(signal), close: () => pool.close() });
}

async function connectHttp(
  options: McpServiceOptions,
  { title, signal, own }: { readonly title: string; readonly signal: AbortSignal; readonly own: OwnRequest },
): Promise<Opened> {
  const { library, address, token } = options;
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  const transport = new library.StreamableHTTPClientTransport(new URL(address), {
    requestInit: { headers },
    fetch: boundedFetch(limits.maxMessageCharacters),
    reconnectionOptions: {
      ...{ initialReconnectionDelay: 500, maxReconnectionDelay: 5_000 },
      ...{ reconnectionDelayGrowFactor: 2, maxRetries: 3 },
    },
  });
  const connection = await McpConnection.open({
    ...{ library, transport, title, signal, limits, own },
    ...{ elicitation: options.elicitation, version: options.version },
    endSession: () => endSession(() => transport.terminateSession()),
  });
  return opened(connection, null, () => connection.close());
}

/** A session that is left open takes room on the server until it expires: once more, and again. */
async function endSession(terminate: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await terminate();
    } catch (error) {
      const { status } = ((error as { readonly data?: unknown }).data ?? {}) as { readonly status?: unknown };
      // It knows the session no more.
      if (status === 404) return;
      if (attempt === 4) throw error;
      await sleep(50 * 2 ** attempt, undefined, { ref: false });
    }
  }
}

/** Folders of episodes, removed with them; those of processes that still wait, when this process ends. */
const folders = new Set<string>();

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "trainable-agents-mcp-"));
  if (folders.size === 0) process.once("exit", removeFolders);
  folders.add(folder);
  return folder;
}

async function removeFolder(folder: string | null): Promise<void> {
  if (folder === null) return;
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  folders.delete(folder);
  if (folders.size === 0) process.off("exit", removeFolders);
}

function removeFolders(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}

type ProcessParts = {
  readonly title: string;
  readonly signal: AbortSignal;
  readonly command: McpCommand;
  readonly hasFolder: boolean;
};

async function connectProcess(options: McpServiceOptions, parts: ProcessParts): Promise<Opened> {
  const { library, cwd } = options;
  const { title, signal, command } = parts;
  const folder = parts.hasFolder ? await makeFolder() : null;
  const args = folder === null ? command.args : command.args.map((word) => word.replaceAll(folderMark, folder));
  const transport = new McpProcess({ file: command.file, args, env: command.variables, cwd }, limits);
  try {
    const connection = await McpConnection.open({
      ...{ library, transport, title, signal, limits, own: null },
      ...{ elicitation: options.elicitation, version: options.version },
      lastWords: () => transport.lastWords,
    });
    return opened(connection, folder, async () => {
      try {
        await connection.close();
      } finally {
        await removeFolder(folder);
      }
    });
  } catch (error) {
    await removeFolder(folder);
    throw error;
  }
}

function opened(connection: McpConnection, folder: string | null, close: () => Promise<void>): Opened {
  return {
    connection,
    folder,
    close,
    get isOpen() {
      return connection.isOpen;
    },
  };
}

type ServiceParts = {
  readonly tasks: readonly McpTask[];
  readonly open: (signal: AbortSignal) => Promise<Opened>;
  readonly close: () => Promise<void>;
};

/** A server of tools; tasks and graders are ours. */
function foreignService({ name, address }: McpServiceOptions, { tasks, open, close }: ServiceParts): RemoteService {
  const splits = [...new Set(tasks.map(({ split }) => split))];
  const bySplit = new Map(splits.map((split) => [split, tasks.filter((task) => task.split === split)]));
  const hasEach = (field: "instruction" | "agenda"): boolean => tasks.every((task) => task[field] !== null);
  const users = ["human", "scripted"];
  if (hasEach("instruction")) users.unshift("task", "llm");
  if (hasEach("agenda")) users.unshift("agenda");
  const taskOf = ({ split, index }: Pick<Task, "split" | "index">): McpTask | undefined => bySplit.get(split)?.[index];
  return {
    ...{ name, splits, users, argumentErrors: "loop", unknownTools: "loop", capacity: null, isDeterministic: false },
    taskset: (split) =>
      createTaskset(name, split, {
        sizes: Object.fromEntries(splits.map((one) => [one, bySplit.get(one)!.length])),
        task: (index) => {
          const { id, contentHash, instruction, agenda } = taskOf({ split, index })!;
          return { id: `${name}:${split}:${id}`, environment: name, split, index, contentHash, instruction, agenda };
        },
      }),
    open: async (task, { signal }) => {
      const mcpTask = taskOf(task);
      if (mcpTask === undefined) throw new RangeError(`Cannot open task "${task.id}": it is not of "${address}".`);
      const world = await open(signal);
      try {
        await writeFiles(mcpTask, world.folder);
        const tools = (await world.connection.changedTools(signal)) ?? world.connection.tools;
        return new ToolSession(mcpTask, world, tools);
      } catch (error) {
        await world.close().catch(() => undefined);
        throw error;
      }
    },
    close,
  };
}

async function writeFiles({ files }: McpTask, folder: string | null): Promise<void> {
  if (folder === null) return;
  for (const [path, text] of Object.entries(files)) {
    const file = join(folder, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  }
}

/** One episode over a server's tools. */
class ToolSession implements RemoteSession {
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  readonly info: JsonObject = new Map();
  readonly #task: McpTask;
  readonly #world: Opened;
  readonly #calls: McpCallRecord[] = [];
  readonly #said: string[] = [];
  #toolNames: ReadonlySet<string>;
  #listChanges = 0;

  constructor(task: McpTask, world: Opened, tools: readonly Tool[]) {
    this.#task = task;
    this.#world = world;
    this.tools = tools;
    this.#toolNames = new Set(tools.map(({ name }) => name));
    this.guidelines = task.guidelines ?? world.connection.instructions;
  }

  async call(
    { name, arguments: given }: Parameters<Environment["call"]>[0],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<ToolResult> {
    const info = await this.#listNote(signal);
    const args = toPlain(given) as Readonly<Record<string, unknown>>;
    const result = await this.#carryOut(name, args, signal);
    this.#calls.push({ ...result, name, arguments: args });
    return { text: result.text, isError: result.isError, endsEpisode: false, info };
  }

  async hear(utterance: string): Promise<void> {
    this.#said.push(utterance);
  }

  async grade(
    ending: Parameters<Environment["grade"]>[0],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<Grade> {
    const input = {
      ...{ task: this.#task, calls: this.#calls, said: this.#said, folder: this.#world.folder },
      callTool: (name: string, args: Readonly<Record<string, unknown>> = {}) => this.#carryOut(name, args, signal),
    };
    try {
      const { reward, metrics = {}, log = "" } = await gradeOf(this.#task.grader, input, ending);
      return { reward, metrics, log, info: new Map() };
    } catch (error) {
      throw attribute(error, "grader");
    }
  }

  close(): Promise<void> {
    return this.#world.close();
  }

  async #carryOut(name: string, args: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ReadResult> {
    try {
      const answer = await this.#world.connection.request("tools/call", { name, arguments: args }, { signal });
      return readToolResult(name, answer, limits.maxSize);
    } catch (error) {
      if (!(error instanceof RefusedCall)) throw error;
      return { text: `Error: ${error.message}`, isError: true, structured: null };
    }
  }

  /** What came and went since the last call. */
  async #listNote(signal: AbortSignal): Promise<JsonObject> {
    const tools = await this.#world.connection.changedTools(signal);
    if (tools === null) return new Map();
    this.#listChanges++;
    const names = new Set(tools.map(({ name }) => name));
    const added = [...names].filter((name) => !this.#toolNames.has(name));
    const removed = [...this.#toolNames].filter((name) => !names.has(name));
    this.#toolNames = names;
    const note = { changes: this.#listChanges, added, removed };
    return new Map<string, JsonValue>([["mcpToolList", fromPlain(note)]]);
  }
}

/** A server of ours has tasks, and opens the episode that the client names. */
async function ownService(
  options: McpServiceOptions,
  open: (signal: AbortSignal, own?: OwnRequest) => Promise<Opened>,
): Promise<RemoteService> {
  const { address } = options;
  let described: Awaited<ReturnType<typeof ownTasks>>;
  try {
    const { connection, close } = await open(AbortSignal.timeout(60_000));
    try {
      described = await ownTasks(connection, address);
    } finally {
      await close();
    }
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    throw new ConfigurationError(`Cannot use "mcp:${address}": ${messageOf(error)}`, { cause: error });
  }
  return {
    ...described,
    capacity: null,
    open: async (task, { signal, seed }) => {
      const { connection, close } = await open(signal, { task: task.id, seed });
      if (connection.own !== null) return openOwnSession(connection, close);
      await close();
      throw remoteFault(
        "remote-invalid",
        `Cannot open task "${task.id}" at "${address}": it is another server by now.`,
      );
    },
    close: async () => undefined,
  };
}
