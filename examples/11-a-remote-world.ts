// A world at an address. Here the server is ours, and serves the bookshop over OpenEnv; it serves
// MCP as well, at `/mcp`. A server of tools that others wrote is `env: "mcp:https://..."` or
// `"mcp:npx some-server {folder}"` with `envTasks`, a file of tasks and the graders that it names;
// MCP needs `npm install @modelcontextprotocol/client@2`.
// Run: npx trainable-agents example 11

import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rollout, serveEnvironment } from "trainable-agents";

const server = await serveEnvironment({ env: "bookshop", listen: "127.0.0.1:0" });
const out = join(await mkdtemp(join(tmpdir(), "remote-")), "run");
const { totals } = await rollout({
  env: `openenv:${server.url}`,
  user: "agenda",
  engine: "expert",
  tasks: [0, 1, 2, 3],
  groupSize: 2,
  out,
});
const { opened, closed } = server.sessions();
console.log(
  `${totals.episodesFinished} episodes, mean reward ${totals.meanReward}, ${opened} sessions of the server, ${closed} closed`,
);
console.log(`npx trainable-agents inspect ${out}`);
await server.close();
