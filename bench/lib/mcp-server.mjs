// The smallest MCP server over standard input and output: one tool, which echoes its argument.

import { createInterface } from "node:readline";

const tool = { name: "echo", inputSchema: { type: "object", properties: { text: { type: "string" } } } };

/** @type {Record<string, (params: any) => object>} */
const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "echo", version: "1" },
  }),
  "tools/list": () => ({ tools: [tool] }),
  "tools/call": ({ arguments: { text } }) => ({ content: [{ type: "text", text }] }),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const result = methods[method]?.(params);
  if (id !== undefined) process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
});
