// Runs the bookshop on our server with OpenEnv's own Python clients, and measures the time of a
// call there and on their own server.

import { setTimeout as delay } from "node:timers/promises";

import { serveEnvironment } from "../../../dist/index.js";

/**
 * @param {(...given: readonly string[]) => Promise<string>} client Runs a Python program of this folder; what it printed.
 * @param {readonly [mcp: number, typed: number]} ports Ports of their servers: one with MCP tools, one with typed actions.
 * @returns {Promise<string>} The figures, for the report.
 */
export async function playWithPythonClients(client, [mcpPort, typedPort]) {
  const server = await serveEnvironment({ env: "bookshop", listen: "127.0.0.1:0", variables: {} });
  try {
    const figures = /** @type {{ episodes: number, tools: number, call_ms: number }} */ (
      JSON.parse(await client("openenv_client.py", server.url, "16", "500"))
    );
    await delay(100);
    const { opened, closed } = server.sessions();
    if (opened !== closed) throw new Error(`${opened - closed} sessions are open`);
    const addresses = [mcpPort, typedPort].map((port) => `http://127.0.0.1:${port}`);
    const theirs = await client("openenv_cost.py", ...addresses, "500");
    const [mcp = NaN, typed = NaN] = theirs.trim().split("\n").map(Number);
    return (
      `${figures.episodes} episodes, ${figures.tools} tools; a call takes ${figures.call_ms.toFixed(2)} ms, on its own server ` +
      `${mcp.toFixed(2)} ms as an MCP tool and ${typed.toFixed(2)} ms as a typed action`
    );
  } finally {
    await server.close();
  }
}
