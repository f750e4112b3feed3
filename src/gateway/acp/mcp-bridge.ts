// Program: an MCP server over standard input and output that passes each message on to the server
// at TRAINABLE_AGENTS_MCP_URL, for ACP agents that start their MCP servers as programs. Messages are
// passed on one after another, in order.

import { createInterface } from "node:readline";

const url = process.env["TRAINABLE_AGENTS_MCP_URL"] ?? "";
let sessionId: string | null = null;
let version: string | null = null;

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === "") continue;
  const answer = await send(line);
  if (answer !== "") process.stdout.write(`${answer}\n`);
}

/** Resolves with the answer, or with an error response; empty for a notification. */
async function send(line: string): Promise<string> {
  try {
    const response = await fetch(url, { method: "POST", headers: headers(), body: line });
    sessionId = response.headers.get("mcp-session-id") ?? sessionId;
    const text = await response.text();
    version = protocolVersion(text) ?? version;
    return text.replaceAll("\n", " ");
  } catch (error) {
    const { id } = parsed(line);
    if (id === undefined) return "";
    const message = `The environment does not answer: ${error instanceof Error ? error.message : String(error)}`;
    return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message } });
  }
}

function headers(): Record<string, string> {
  return {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    ...(sessionId === null ? {} : { "mcp-session-id": sessionId }),
    ...(version === null ? {} : { "mcp-protocol-version": version }),
  };
}

/** The version that an answer to `initialize` settles. */
function protocolVersion(text: string): string | null {
  const { result } = parsed(text) as { readonly result?: { readonly protocolVersion?: unknown } };
  return typeof result?.protocolVersion === "string" ? result.protocolVersion : null;
}

function parsed(text: string): { readonly id?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}
