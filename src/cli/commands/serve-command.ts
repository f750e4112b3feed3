// `serve`: parses flags, calls serve(), prints.

import { Command } from "commander";
import { type RunningService, serve, type ServeOptions, serveSettingNames, serveSettings } from "../../api/serve.ts";
import { rolloutSettings } from "../../api/rollout-settings.ts";
import { subscribeToAbort } from "../../lib/deadline.ts";
import { type CliContext, exitCodes, type RunCommand, startServing, untilAborted } from "../cli-context.ts";
import { formatCount, oneMessage } from "../display/terminal-text.ts";
import { addSettings, configOption, shortHelp } from "../flags.ts";

export function serveCommand(runCommand: RunCommand): Command {
  const command = new Command("serve")
    .summary("run episodes on request, for a trainer that sends HTTP requests")
    .description(
      "Runs episodes and groups that HTTP requests name, and answers with training rows; or runs groups continuously, for a " +
        "trainer that takes batches of them while it trains. Describes itself at /openapi.json. Requests are kept in its " +
        "folder; a service restarted there resumes them.",
    );
  addSettings(command, serveSettings);
  addSettings(command, rolloutSettings, { names: serveSettingNames.filter((name) => !(name in serveSettings)) });
  command.addOption(configOption());
  return shortHelp(command, [
    ...["listen", "tokenEnv", "env", "data", "engine", "url", "model", "agentCommand", "temperature", "maxNewTokens"],
    ...["userModel", "concurrency", "out"],
  ])
    .addHelpText("after", examples)
    .action(async (flags: ServeOptions) => runCommand((context) => run(flags, context)));
}

const examples = `
Examples:
  # The bookshop with a scripted expert. Needs nothing else.
  $ npx trainable-agents serve --out runs/service
  $ curl -s http://127.0.0.1:8800/v1/groups -H 'content-type: application/json' \\
      -d '{"task_index":3,"group_size":8,"wait_seconds":60,"rows":"slime"}'

  # Batches of two groups of eight, run while you train; the next one is ready when you return.
  $ curl -s http://127.0.0.1:8800/v1/producers -H 'content-type: application/json' -d '{"group_size": 8, "batch_groups": 2}'
  $ curl -s http://127.0.0.1:8800/v1/producers/<id>/batches/0 -H 'content-type: application/json' -d '{"wait_seconds": 60}'

  # Your own agent program runs the episodes.
  $ npx trainable-agents serve --env tasks.jsonl --agent-command "node my-agent.mjs" --url http://127.0.0.1:30000 \\
      --model ./Qwen3-4B-Instruct-2507 --out runs/service

  # tau-bench for a trainer whose requests name the engine.
  $ npx trainable-agents serve --env tau-bench/retail --data ./tau-bench --model ./Qwen3-4B-Instruct-2507 \\
      --user-model openai/gpt-4o --out runs/service`;

async function run(flags: ServeOptions, context: CliContext): Promise<number> {
  const { cwd, env, stdout, stderr, drain, cancel } = context;
  const onNotice = (message: string): void => void stderr.write(`${oneMessage(message)}\n`);
  const service = await startServing(context, (signal) => serve({ ...flags, cwd, variables: env, signal, onNotice }));
  stdout.write(`${service.url}\n`);
  stderr.write(greeting(service, String(flags.out)));
  await untilAborted(drain, cancel);
  if (!cancel.aborted) {
    onNotice(
      "Closing: running episodes are finished, for --grace seconds. Ctrl-C again stops them where they are; the next start resumes them.",
    );
  }
  const leave = subscribeToAbort(cancel, () => void service.close({ wait: false }));
  await service.close({ wait: !cancel.aborted }).finally(leave);
  return exitCodes.done;
}

function greeting({ url, environment, split, earlier, producers }: RunningService, out: string): string {
  const lines = [`Serving ${environment} (${split}) at ${url}; episodes go to ${out}. Ctrl-C ends it.`];
  if (earlier !== null) {
    const [ended, inFlight] = [formatCount(earlier.ended), formatCount(earlier.inFlight)];
    lines.push(`Resuming: ${ended} episodes have ended, ${inFlight} resume at the turn where they stopped.`);
  }
  for (const { id, state, batches } of producers) {
    lines.push(`Producer ${id} is ${state}; its next batch is ${formatCount(batches)}.`);
  }
  lines.push(`Its document: ${url}/openapi.json`);
  return `${lines.join("\n")}\n`;
}
