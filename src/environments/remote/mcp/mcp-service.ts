// MCP as a remote service: a session is a process of its own over standard input and output, or an
// HTTP session that a DELETE ends. The policy is shown the tools listed at the start; when the
// server changes its list, the list is read again before the next call, and the episode's info
// records the difference. An `env-server` has its own tasks, receives utterances and returns a
// grade, all of which travel beside the protocol's messages.

import { rmSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { makeFolder } from "../../../system/make-folder.ts";
import type { Environment, Grade, ToolResult } from "../../../core/environment.ts";
import { attribute, AttributedError, ConfigurationError, messageOf } from "../../../core/failure.ts";
import type { Tool } from "../../../core/message.ts";
import { createTaskset } from "../../../core/taskset.ts";
import { fromPlain, toPlain } from "../../../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/value.ts";
import { createHttpPool, type HttpClient, httpFetch, parseBaseUrl } from "../../../http/index.ts";
import { hideSecrets } from "../../../lib/hidden-parts.ts";
import { remoteFault, type RemoteFaultCode, type RemoteService, type RemoteSession } from "../index.ts";
import { type ElicitationPolicy, McpConnection, type McpLimits, RefusedCall } from "./mcp-connection.ts";
import type { McpEra, McpLibrary } from "./mcp-library.ts";
import {
  folderMark,
  type McpCommand,
  McpProcess,
  parseMcpCommand,
  type ProcessLimits,
  refuseCommandCredentials,
  WarmPool,
} from "./mcp-process.ts";
import { messageFetch } from "./message-fetch.ts";
import { OddMessages } from "./odd-messages.ts";
import { type McpCallRecord, type McpTask, type McpTaskList, gradeOf } from "./mcp-tasks.ts";
import { openOwnSession, ownTasks } from "./own-server.ts";
import { readToolResult, type ReadResult } from "./result-text.ts";

export type McpServiceOptions = {
  readonly library: McpLibrary;
  /** A command line, or an address that begins with http. */
  readonly address: string;
  readonly name: string;
  /** Tasks; `null` for the tasks of the server, which must be an `env-server`. */
  readonly tasks: McpTaskList | null;
  readonly elicitation: ElicitationPolicy;
  /** Number of initialized processes kept ready. */
  readonly warm: number;
  /** Bearer token for HTTP; `null` for none. */
  readonly token: string | null;
  /** Value of the `Authorization` header for HTTP; `null` for none. */
  readonly authorization: string | null;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly version: string;
  /** Receives each notice for people once. */
  readonly onNotice: (message: string) => void;
};

const limits: McpLimits & ProcessLimits & { readonly maxMessageBytes: number } = {
  maxMessages: 50_000,
  maxTools: 512,
  maxSize: 10_000_000,
  maxMessageCharacters: 50_000_000,
  /** Size of one HTTP answer after decompression, streams of events included. */
  maxMessageBytes: 64 * 1024 * 1024,
  graceMs: 500,
};

/** Time in milliseconds for a process to start and report its revision. */
const probeMs = 20_000;

/** A connection with the resources that end with it. */
type Opened = {
  readonly connection: McpConnection;
  readonly folder: string | null;
  readonly isOpen: boolean;
  readonly close: () => Promise<void>;
};

/** The episode that a client requests when it connects to an `env-server`. */
type OwnRequest = { readonly task: string; readonly seed: number } | null;

/** Throws a `ConfigurationError`. Contacts the server if its tasks are needed. */
export async function createMcpService(options: McpServiceOptions): Promise<RemoteService> {
  const { address, tasks } = options;
  const isHttp = /^https?:\/\//i.test(address);
  const shown = hideSecrets(address);
  const { authorization } = options;
  if (isHttp) parseBaseUrl(address, { what: "MCP server", authorization, setting: "--env-authorization-env" });
  else refuseCommandCredentials(address);
  const command = isHttp ? null : parseMcpCommand(address, options.variables);
  const hasFolder = address.includes(folderMark) && !isHttp;
  if (tasks !== null && tasks.withFiles !== null && !hasFolder) throw withoutFolder(tasks.withFiles);
  const title = `the MCP server "${shown}"`;
  const http = createHttpPool({ boundary: "environment" });
  const memory = new EraMemory();
  const said = new Set<string>();
  const parts = {
    title,
    http,
    onNotice: (message: string): void => {
      if (!said.has(message)) options.onNotice(message);
      said.add(message);
    },
  };
  if (command === null) {
    const open = (signal: AbortSignal) =>
      memory.open((era) => connectHttp(options, { ...parts, signal, own: null, era }));
    // A session of an `env-server` is an episode, and only the older revisions have sessions.
    const openOwn = (signal: AbortSignal, own: OwnRequest = null) =>
      connectHttp(options, { ...parts, signal, own, era: { kind: "legacy" } });
    if (tasks === null) return ownService(options, { open: openOwn, close: () => http.close() });
    return foreignService(options, { tasks, open, close: () => http.close() });
  }
  if (tasks === null) {
    throw new ConfigurationError(
      `Cannot use "mcp:${hideSecrets(address)}": an MCP server has no tasks; pass them with --env-tasks <file>.`,
    );
  }
  const pool = new WarmPool(options.warm, (signal) =>
    memory.open((era) => connectProcess(options, { ...parts, signal, command, hasFolder, era })),
  );
  return foreignService(options, { tasks, open: (signal) => pool.take(signal), close: () => pool.close() });
}

function withoutFolder(task: string): ConfigurationError {
  return new ConfigurationError(
    `Cannot write the files of task "${task}": the command does not contain ${folderMark}; correct --env or --env-tasks.`,
  );
}

/**
 * Remembers the server's revision from the first connection, so that later connections skip the
 * discovery.
 */
class EraMemory {
  #era: McpEra | null = null;

  /**
   * Opens a connection; if the server fails at the discovery, opens it once more as a server of an
   * older revision.
   */
  async open(open: (era: McpEra | null) => Promise<Opened>): Promise<Opened> {
    let world: Opened;
    try {
      world = await open(this.#era);
    } catch (error) {
      const code = error instanceof AttributedError ? (error.failure.code as RemoteFaultCode) : null;
      // A process that ends at the discovery, or answers it with an error, may still work with the
      // older handshake.
      const isAnswer = code === "remote-lost" || code === "remote-unreachable" || code === "remote-error";
      if (this.#era !== null || !isAnswer || isFinal(error)) throw error;
      world = await open({ kind: "legacy" });
    }
    this.#era ??= world.connection.era;
    return world;
  }
}

/** True if the server does not exist or denies access: another handshake would fail in the same way. */
function isFinal(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    const { code, data } = at as { readonly code?: unknown; readonly data?: { readonly status?: unknown } };
    if (code === "ECONNREFUSED" || code === "ENOENT" || code === "ENOTFOUND" || code === "EACCES") return true;
    if (data?.status === 401 || data?.status === 403) return true;
  }
  return false;
}

type ConnectParts = {
  readonly title: string;
  readonly http: HttpClient;
  readonly signal: AbortSignal;
  readonly era: McpEra | null;
  readonly onNotice: (message: string) => void;
};

async function connectHttp(
  options: McpServiceOptions,
  { title, http, signal, own, era, onNotice }: ConnectParts & { readonly own: OwnRequest },
): Promise<Opened> {
  const { library, address, token } = options;
  const authorization = options.authorization ?? (token === null ? null : `Bearer ${token}`);
  const odd = new OddMessages();
  let fail: (error: unknown) => void = () => undefined;
  const transport = new library.StreamableHTTPClientTransport(new URL(address), {
    requestInit: { headers: authorization === null ? {} : { authorization } },
    fetch: messageFetch(httpFetch(http, { maxBytes: limits.maxMessageBytes, bodies: "streamed" }), {
      odd,
      maxCharacters: limits.maxMessageCharacters,
      onFault: (error) => fail(error),
    }),
    reconnectionOptions: {
      initialReconnectionDelay: 500,
      maxReconnectionDelay: 5_000,
      reconnectionDelayGrowFactor: 2,
      maxRetries: 3,
    },
  });
  const connection = await McpConnection.open({
    library,
    transport,
    odd,
    era,
    title,
    signal,
    limits,
    own,
    onNotice,
    elicitation: options.elicitation,
    version: options.version,
    probeMs,
    onLink: (link) => {
      fail = link.fail;
    },
    endSession: () => endSession(() => transport.terminateSession()),
  });
  return opened(connection, null, () => connection.close());
}

/**
 * Ends the session, with retries, because an open session takes capacity on the server until it
 * expires.
 */
async function endSession(terminate: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await terminate();
    } catch (error) {
      const { status } = ((error as { readonly data?: unknown }).data ?? {}) as { readonly status?: unknown };
      // The server does not know the session any more.
      if (status === 404) return;
      if (attempt === 4) throw error;
      await sleep(50 * 2 ** attempt, undefined, { ref: false });
    }
  }
}

/**
 * Folders of episodes, removed with them; folders of idle processes are removed when this process
 * ends.
 */
const folders = new Set<string>();

async function makeHome(): Promise<string> {
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

type ProcessParts = ConnectParts & {
  readonly command: McpCommand;
  readonly hasFolder: boolean;
};

async function connectProcess(options: McpServiceOptions, parts: ProcessParts): Promise<Opened> {
  const { library, cwd } = options;
  const { title, signal, command, era, onNotice } = parts;
  const folder = parts.hasFolder ? await makeHome() : null;
  const args = folder === null ? command.args : command.args.map((word) => word.replaceAll(folderMark, folder));
  const transport = new McpProcess({ file: command.file, args, env: command.variables, cwd }, limits);
  try {
    const connection = await McpConnection.open({
      library,
      transport,
      odd: new OddMessages(),
      era,
      title,
      signal,
      limits,
      own: null,
      onNotice,
      elicitation: options.elicitation,
      version: options.version,
      probeMs,
      lastOutput: () => transport.lastOutput,
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
  readonly tasks: McpTaskList;
  readonly open: (signal: AbortSignal) => Promise<Opened>;
  readonly close: () => Promise<void>;
};

/** The service of a server that only has tools; tasks and graders are ours. */
function foreignService({ name, address }: McpServiceOptions, { tasks, open, close }: ServiceParts): RemoteService {
  const { sizes, hashes = {} } = tasks;
  const users = ["human", "scripted"];
  if (tasks.hasInstructions) users.unshift("task", "llm");
  if (tasks.hasAgendas) users.unshift("agenda");
  return {
    name,
    splits: Object.keys(sizes),
    users,
    argumentErrors: "loop",
    unknownTools: "loop",
    capacity: null,
    isDeterministic: false,
    taskset: (split) =>
      createTaskset(name, split, {
        sizes,
        hashes,
        task: (index) => {
          const { id, contentHash, instruction, agenda } = tasks.task(split, index);
          return { id: `${name}:${split}:${id}`, environment: name, split, index, contentHash, instruction, agenda };
        },
      }),
    open: async (task, { signal }) => {
      const { split, index } = task;
      if (!Object.hasOwn(sizes, split) || !(index >= 0 && index < sizes[split]!))
        throw new RangeError(`Cannot open task "${task.id}": it is not a task of "${hideSecrets(address)}".`);
      const mcpTask = tasks.task(split, index);
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

async function writeFiles({ id, files }: McpTask, folder: string | null): Promise<void> {
  if (Object.keys(files).length === 0) return;
  if (folder === null) throw withoutFolder(id);
  for (const [path, text] of Object.entries(files)) {
    const file = join(folder, path);
    await makeFolder(dirname(file));
    await writeFile(file, text);
  }
}

/** One episode that uses a server's tools. */
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

  async receiveUtterance(utterance: string): Promise<void> {
    this.#said.push(utterance);
  }

  async grade(
    ending: Parameters<Environment["grade"]>[0],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<Grade> {
    const input = {
      task: this.#task,
      calls: this.#calls,
      said: this.#said,
      folder: this.#world.folder,
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
      const answer = await this.#world.connection.callTool({ name, arguments: args }, { signal });
      return readToolResult(answer, limits.maxSize);
    } catch (error) {
      if (!(error instanceof RefusedCall)) throw error;
      return { text: `Error: ${error.message}`, isError: true, structured: null };
    }
  }

  /** Tools added and removed since the last call. */
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

/** The service of an `env-server`, which has tasks and opens the episode that the client names. */
async function ownService(
  options: McpServiceOptions,
  {
    open,
    close: closeService,
  }: {
    readonly open: (signal: AbortSignal, own?: OwnRequest) => Promise<Opened>;
    readonly close: () => Promise<void>;
  },
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
    await closeService();
    if (error instanceof ConfigurationError) throw error;
    throw new ConfigurationError(`Cannot use "mcp:${hideSecrets(address)}": ${messageOf(error)}`, { cause: error });
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
        `Cannot open task "${task.id}" at "${hideSecrets(address)}": a different server answers there now.`,
      );
    },
    close: closeService,
  };
}
