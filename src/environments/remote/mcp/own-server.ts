// The client of a server of ours (`env-server`): its tools are called as those of every MCP server, and what the protocol has no
// place for travels beside it, exact to the byte. That is: which episode is opened (with the client's capabilities), its info and
// opening (with the server's), arguments and results that plain JSON would change (`_meta`), and four methods whose names begin
// with `trainable-agents/`: describe, tasks, hear and grade. The other side is `service/env-server`.

import type { Grade, Task, ToolResult } from "../../../core/environment.ts";
import { ConfigurationError, messageOf } from "../../../core/failure.ts";
import { dumpJson } from "../../../python-semantics/json/dump-json.ts";
import { fromForeign, toPlain } from "../../../python-semantics/json/plain.ts";
import { parseJson } from "../../../python-semantics/json/parse-json.ts";
import type { JsonObject } from "../../../python-semantics/json/value.ts";
import { remoteFault, type RemoteService, type RemoteSession } from "../index.ts";
import { type McpConnection, ownExtension, RefusedCall } from "./mcp-connection.ts";
import { asRecord } from "./result-text.ts";

/** Of each split; more are not fetched. */
const mostTasks = 2_000;
const pageSize = 100;

export type OwnTasks = Pick<RemoteService, "name" | "splits" | "users" | "argumentErrors" | "isDeterministic"> & {
  readonly tasks: ReadonlyMap<string, readonly Task[]>;
};

/** Rejects with a `ConfigurationError` when the server is another, and has no tasks. */
export async function readOwnTasks(connection: McpConnection, address: string): Promise<OwnTasks> {
  if (connection.own === null) {
    throw new ConfigurationError(
      `Cannot use "mcp:${address}": a server of tools has no tasks; give them with --env-tasks <file>.`,
    );
  }
  const signal = AbortSignal.timeout(120_000);
  const ask = async (method: string, params: object): Promise<Readonly<Record<string, unknown>>> =>
    asRecord(await connection.request(`${ownExtension}/${method}`, params, { signal })) ?? {};
  const { name, sizes, users, argumentErrors, resume } = await ask("describe", {});
  const counts = Object.entries(asRecord(sizes) ?? {});
  const areTexts = (value: unknown): value is readonly string[] =>
    Array.isArray(value) && value.every((one) => typeof one === "string");
  if (typeof name !== "string" || counts.length === 0 || !areTexts(users)) {
    throw new ConfigurationError(`Cannot use "mcp:${address}": it does not say what it serves; see its version.`);
  }
  const tasks = new Map<string, readonly Task[]>();
  for (const [split, size] of counts) {
    const found: Task[] = [];
    const wanted = Math.min(typeof size === "number" ? size : 0, mostTasks);
    while (found.length < wanted) {
      const { tasks: page } = await ask("tasks", { split, from: found.length, count: pageSize });
      if (!Array.isArray(page) || page.length === 0) break;
      found.push(...page.map((task: unknown) => readTask(task, { name, split, address })));
    }
    tasks.set(split, found);
  }
  const isDeterministic = resume !== "restart";
  const errors = argumentErrors === "environment" ? "environment" : "loop";
  return { name, splits: [...tasks.keys()], users, argumentErrors: errors, isDeterministic, tasks };
}

function readTask(
  value: unknown,
  { name, split, address }: { readonly name: string; readonly split: string; readonly address: string },
): Task {
  const { id, index, contentHash, instruction, agenda } = asRecord(value) ?? {};
  const isTask =
    typeof id === "string" &&
    Number.isSafeInteger(index) &&
    typeof contentHash === "string" &&
    (instruction === null || typeof instruction === "string") &&
    (agenda === null || asRecord(agenda) !== null);
  if (!isTask)
    throw new ConfigurationError(`Cannot use "mcp:${address}": it has a malformed task of split "${split}".`);
  return { ...(value as Task), environment: name, split };
}

/** `close` ends the connection. */
export function openOwnSession(connection: McpConnection, close: () => Promise<void>): RemoteSession {
  const { info, opening } = connection.own ?? {};
  const request = (method: string, params: object, signal: AbortSignal): Promise<unknown> =>
    connection.request(`${ownExtension}/${method}`, params, { signal });
  return {
    guidelines: connection.instructions,
    tools: connection.tools,
    info: exactObject(info),
    opening: typeof opening === "string" ? opening : null,
    call: async ({ name, arguments: given }, { signal }) => {
      const exact = { [`${ownExtension}/arguments`]: dumpJson(given) };
      try {
        const params = { name, arguments: toPlain(given), _meta: exact };
        return readResult(name, await connection.request("tools/call", params, { signal }));
      } catch (error) {
        if (!(error instanceof RefusedCall)) throw error;
        return { text: `Error: ${error.message}`, isError: true, endsEpisode: false, info: new Map() };
      }
    },
    hear: async (text, { signal }) => void (await request("hear", { text }, signal)),
    grade: async ({ outcome }, { signal }) => {
      const {
        reward,
        metrics,
        log,
        info: more,
        turnRewards,
      } = asRecord(await request("grade", { outcome }, signal)) ?? {};
      const grade = { reward, metrics, log, info: exactObject(more), turnRewards: turnRewards ?? null };
      // Types are checked where every grade is.
      return grade as Grade;
    },
    close,
  };
}

function readResult(name: string, value: unknown): ToolResult {
  const { content, isError = false, _meta } = asRecord(value) ?? {};
  const extra = asRecord(asRecord(_meta)?.[`${ownExtension}/result`]);
  const [first] = Array.isArray(content) ? (content as readonly unknown[]) : [];
  const text = asRecord(first)?.["text"];
  if (extra === null || typeof text !== "string" || typeof isError !== "boolean") {
    throw remoteFault("remote-invalid", `Cannot read the result of "${name}": it is not what a server of ours sends.`);
  }
  const { endsEpisode, info, reward } = extra;
  return {
    ...{ text, isError, endsEpisode: endsEpisode === true, info: exactObject(info) },
    ...(typeof reward === "number" ? { reward } : {}),
  };
}

/** JSON as text, which nothing on the way changes. */
function exactObject(text: unknown): JsonObject {
  if (text === undefined) return new Map();
  try {
    const value = typeof text === "string" ? parseJson(text) : fromForeign(text, { maxSize: 1_000_000 });
    if (value instanceof Map) return value;
  } catch (error) {
    throw remoteFault("remote-invalid", `Cannot read an info: ${messageOf(error)}`, { cause: error });
  }
  throw remoteFault("remote-invalid", "Cannot read an info: it is no object.");
}
