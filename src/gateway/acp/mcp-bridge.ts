// Program: an MCP server over standard input and output that passes each message on to the server
// at TRAINABLE_AGENTS_MCP_URL, for ACP agents that start their MCP servers as programs. Messages are
// passed on one after another, in order.

import { createInterface } from "node:readline";

type Message = {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: { readonly protocolVersion?: unknown };
};

const url = process.env["TRAINABLE_AGENTS_MCP_URL"] ?? "";
const versionField = "io.modelcontextprotocol/protocolVersion";
let sessionId: string | null = null;
/** The version that `initialize` settled. */
let version: string | null = null;

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === "") continue;
  const answer = await send(line);
  if (answer !== "") process.stdout.write(`${answer}\n`);
}

/** Resolves with the answer to a request, which may be an error response; empty for a notification. */
async function send(line: string): Promise<string> {
  const message = parsed(line);
  const { id } = message;
  const failed = (reason: string): string =>
    id === undefined ? "" : JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message: reason } });
  try {
    const response = await fetch(url, { method: "POST", headers: headersFor(message), body: line });
    sessionId = response.headers.get("mcp-session-id") ?? sessionId;
    const text = await response.text();
    const answer = parsed(text);
    if (typeof answer.result?.protocolVersion === "string") version = answer.result.protocolVersion;
    // A refusal of the request as a whole names no request.
    if (id !== undefined && answer.id !== id) return failed(`The environment answered ${response.status}: ${text}`);
    return text.replaceAll("\n", " ");
  } catch (error) {
    return failed(`The environment does not answer: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Headers of a message: those of its session, or since revision 2026-07-28 facts that it repeats. */
function headersFor({ method, params = {} }: Message): Record<string, string> {
  const shared = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const own = (params["_meta"] as Readonly<Record<string, unknown>> | undefined)?.[versionField];
  if (typeof own === "string") {
    const name = method === "resources/read" ? params["uri"] : params["name"];
    return {
      ...shared,
      "mcp-protocol-version": own,
      "mcp-method": method ?? "",
      ...(typeof name === "string" ? { "mcp-name": name } : {}),
    };
  }
  return {
    ...shared,
    ...(sessionId === null ? {} : { "mcp-session-id": sessionId }),
    ...(version === null ? {} : { "mcp-protocol-version": version }),
  };
}

function parsed(text: string): Message {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}
