// Options of environments that run elsewhere.

import { choice, file, section, variable, whole } from "../../parts/setting.ts";

/** Options of services with a key. */
export const accessOptions = section("Tasks", {
  envApiKeyEnv: variable.help("environment variable with the key that is sent to a remote environment"),
  envAuthorizationEnv: variable.help(
    'environment variable with the value of the Authorization header that a remote environment is sent, in place of a key, like "Basic <base64>"',
  ),
});

/** Options of services that may have no tasks of their own. */
export const taskOptions = section("Tasks", {
  envTasks: file.help(
    "JSON lines with the tasks of a remote environment that has none of its own (mcp:, openenv:), or seeds:<number> (openenv:)",
  ),
});

export const mcpOptions = section("Tasks", {
  mcpElicitation: choice("<policy>", "decline", "accept-defaults").help(
    "what an MCP server is answered that asks for input: no, or the defaults of its form",
  ),
  mcpWarm: whole(2, { min: 0, max: 1000 }).help(
    "processes of an MCP server that are started before an episode needs one",
  ),
});
