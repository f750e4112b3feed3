// The client of an `env-server`: its tools are called as those of every MCP server, and everything
// that the protocol has no place for travels beside it, exact to the byte: the episode to open
// (with the client's capabilities), its info and opening (with the server's), arguments and results
// that plain JSON would change (`_meta`), and four methods whose names begin with
// `trainable-agents/`: describe, tasks, hear and grade. The other side is `service/env-server`.

import type { Grade, ToolResult } from "../../../core/environment.ts";
import { ConfigurationError, messageOf } from "../../../core/failure.ts";
import { hideSecrets } from "../../../lib/hidden-parts.ts";
import { dumpJson } from "../../../python-semantics/json/dump-json.ts";
import { fromForeign, toPlain } from "../../../python-semantics/json/plain.ts";
import { parseJson } from "../../../python-semantics/json/parse-json.ts";
import type { JsonObject } from "../../../python-semantics/json/value.ts";
import { type OwnTasks, readOwnTasks, remoteFault, type RemoteSession } from "../index.ts";
import { type McpConnection, ownExtension, RefusedCall } from "./mcp-connection.ts";
import { asRecord } from "./result-text.ts";

/** Rejects with a `ConfigurationError` if the server is not an `env-server` and so has no tasks. */
export async function ownTasks(connection: McpConnection, address: string): Promise<OwnTasks> {
  if (connection.own === null) {
    throw new ConfigurationError(
      `Cannot use "mcp:${hideSecrets(address)}": an MCP server has no tasks; pass them with --env-tasks <file>.`,
    );
  }
  const signal = AbortSignal.timeout(120_000);
  const request = async (method: string, params: object): Promise<JsonObject> =>
    exactObject(await connection.request(`${ownExtension}/${method}`, params, { signal }), {
      what: "tasks",
      maxSize: 10_000_000,
    });
  return readOwnTasks(await request("describe", {}), (query) => request("tasks", query));
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
        return readResult(name, await connection.callTool(params, { signal }));
      } catch (error) {
        if (!(error instanceof RefusedCall)) throw error;
        return { text: `Error: ${error.message}`, isError: true, endsEpisode: false, info: new Map() };
      }
    },
    receiveUtterance: async (text, { signal }) => void (await request("hear", { text }, signal)),
    grade: async ({ outcome }, { signal }) => {
      const {
        reward,
        metrics,
        log,
        info: more,
        turnRewards,
      } = asRecord(await request("grade", { outcome }, signal)) ?? {};
      const grade = { reward, metrics, log, info: exactObject(more), turnRewards: turnRewards ?? null };
      // Types are checked in one place for all grades.
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
    throw remoteFault("remote-invalid", `Cannot read the result of "${name}": it is not what our own server sends.`);
  }
  const { endsEpisode, info, reward } = extra;
  return {
    text,
    isError,
    endsEpisode: endsEpisode === true,
    info: exactObject(info),
    ...(typeof reward === "number" ? { reward } : {}),
  };
}

/** Reads JSON that was sent as text, so that nothing on the way changes it. */
function exactObject(text: unknown, { what = "an info", maxSize = 1_000_000 } = {}): JsonObject {
  if (text === undefined) return new Map();
  try {
    const value = typeof text === "string" ? parseJson(text) : fromForeign(text, { maxSize });
    if (value instanceof Map) return value;
  } catch (error) {
    throw remoteFault("remote-invalid", `Cannot read ${what}: ${messageOf(error)}`, { cause: error });
  }
  throw remoteFault("remote-invalid", `Cannot read ${what}: it is not an object.`);
}
