// Options of environments that run elsewhere.

import { choice, file, section, variable, whole } from "../../parts/setting.ts";

/** Options of services with a key. */
export const accessOptions = section("Tasks", {
  envApiKeyEnv: variable.help("environment variable with the key for a remote environment"),
  envAuthorizationEnv: variable.help(
    'environment variable with the Authorization header for a remote environment, instead of a key, like "Basic <base64>"',
  ),
});

/** Options of environments that may have no tasks of their own. */
export const taskOptions = section("Tasks", {
  envTasks: file.help(
    "JSON lines, CSV, Parquet or a module with tasks for your own environment (--env ./mine.ts), or a remote one that has none (mcp:, openenv:); seeds:<number> for openenv:",
  ),
});

export const mcpOptions = section("Tasks", {
  mcpElicitation: choice("<policy>", "decline", "accept-defaults").help(
    "reply to an MCP server that requests input: decline, or accept the defaults of its form",
  ),
  mcpWarm: whole(2, { min: 0, max: 1000 }).help("processes of an MCP server to start before episodes need them"),
});
