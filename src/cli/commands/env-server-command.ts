// `env-server`: parses flags, calls serveEnvironment(), prints.

import { Command } from "commander";
import {
  envServerSettingNames,
  envServerSettings,
  serveEnvironment,
  type ServeEnvironmentOptions,
} from "../../api/env-server.ts";
import { rolloutSettings } from "../../api/rollout-settings.ts";
import { type CliContext, exitCodes, type RunCommand, untilAborted } from "../cli-context.ts";
import { addSettings, configOption, shortHelp } from "../flags.ts";

export function envServerCommand(runCommand: RunCommand): Command {
  const command = new Command("env-server")
    .summary("serve an environment to other agents and trainers, over MCP and OpenEnv")
    .description(
      "Programs that speak MCP connect to /mcp: a session is an episode; its tools are the environment's and two more, which talk to " +
        "the simulated user and end the episode with its reward. ?task=<number or id>&seed=<n> in the address selects the task and seed. Clients of " +
        "OpenEnv connect to the address itself: a session is a WebSocket, and reset takes the task and seed.",
    );
  addSettings(command, envServerSettings);
  addSettings(command, rolloutSettings, { names: envServerSettingNames });
  command.addOption(configOption());
  return shortHelp(command, [
    ...["listen", "tokenEnv", "agentTokenEnv", "maxSessions", "env", "data", "split", "user", "userModel", "userUrl"],
    ...["userLines", "config"],
  ])
    .addHelpText("after", examples)
    .action(async (flags: ServeEnvironmentOptions) => runCommand((context) => run(flags, context)));
}

const examples = `
Examples:
  # The bookshop. Any MCP client can connect; the address is printed.
  $ npx trainable-agents env-server --env bookshop

  # A rollout in that environment, as if it ran in this process.
  $ npx trainable-agents rollout --env mcp:http://127.0.0.1:8950/mcp --user agenda --engine expert
  $ npx trainable-agents rollout --env openenv:ws://127.0.0.1:8950 --user agenda --engine expert`;

async function run(flags: ServeEnvironmentOptions, context: CliContext): Promise<number> {
  const { cwd, env, stdout, stderr, drain, cancel } = context;
  const server = await serveEnvironment({ ...flags, cwd, variables: env });
  try {
    stdout.write(`${server.url}\n`);
    stderr.write(
      `Serving ${server.name} over MCP at ${server.url}/mcp and OpenEnv at ${server.url}, with user "${server.user}". Ctrl-C ends it.\n`,
    );
    await untilAborted(drain, cancel);
  } finally {
    await server.close();
  }
  return exitCodes.done;
}
