// A server of the official MCP package for Node: over standard input and output or on a port, of
// both revisions or of 2026-07-28 only. Run from the folder where the package is installed:
//   node mcp-official-server.mjs <folder> stdio|<port> both|newest

/* oxlint-disable typescript/no-unsafe-assignment, typescript/no-unsafe-call, typescript/no-unsafe-member-access, typescript/no-unsafe-return -- The
   package is third-party: it is installed where this runs, and its types are not available here. */

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder = "", place = "", revisions = ""] = process.argv.slice(2);
const require = createRequire(join(folder, "package.json"));
const load = (/** @type {string} */ name) => import(pathToFileURL(require.resolve(name)).href);
const { McpServer, createMcpHandler } = await load("@modelcontextprotocol/server");
const { serveStdio } = await load("@modelcontextprotocol/server/stdio");
const { z } = await load("zod");

const none = z.object({});
const make = () => {
  const server = new McpServer({ name: "official", version: "1" }, { instructions: "Add up." });
  const add = { description: "Adds.", inputSchema: z.object({ a: z.number(), b: z.number() }) };
  server.registerTool("add", add, async (/** @type {{ a: number, b: number }} */ { a, b }) => ({
    content: [{ type: "text", text: String(a + b) }],
  }));
  const lines = { description: "Lists.", inputSchema: none, outputSchema: z.array(z.number()) };
  server.registerTool("lines", lines, async () => ({ content: [], structuredContent: [1, 2] }));
  const record = { description: "Records.", inputSchema: none, outputSchema: z.object({ sum: z.number() }) };
  server.registerTool("record", record, async () => ({ content: [], structuredContent: { sum: 3 } }));
  server.registerTool("fail", { description: "Fails.", inputSchema: none }, async () => ({
    content: [{ type: "text", text: "no" }],
    isError: true,
  }));
  return server;
};
const isNewest = revisions === "newest";
if (place === "stdio") await serveStdio(make, { legacy: isNewest ? "reject" : "serve" });
else {
  const handler = createMcpHandler(make, { legacy: isNewest ? "reject" : "stateless" });
  const serve = async (
    /** @type {import("node:http").IncomingMessage} */ incoming,
    /** @type {import("node:http").ServerResponse} */ outgoing,
  ) => {
    const chunks = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const headers = /** @type {Record<string, string>} */ (incoming.headers);
    const body = chunks.length === 0 ? {} : { body: Buffer.concat(chunks) };
    const request = new Request(`http://127.0.0.1${incoming.url}`, {
      method: incoming.method ?? "GET",
      headers,
      ...body,
    });
    const answer = /** @type {Response} */ (await handler.fetch(request));
    outgoing.writeHead(answer.status, Object.fromEntries(answer.headers));
    for await (const chunk of answer.body ?? []) outgoing.write(chunk);
    outgoing.end();
  };
  createServer((incoming, outgoing) => void serve(incoming, outgoing)).listen(Number(place), "127.0.0.1");
}
