// `gateway`: parses flags, calls gateway(), prints.

import { Command } from "commander";
import {
  gateway,
  type GatewayOptions,
  gatewaySettingNames,
  gatewaySettings,
  type RunningGateway,
} from "../../api/gateway.ts";
import { worldSettingNames } from "../../api/gateway-worlds.ts";
import { rolloutSettings } from "../../api/rollout-settings.ts";
import { subscribeToAbort } from "../../lib/deadline.ts";
import { type CliContext, exitCodes, type RunCommand, startServing, untilAborted } from "../cli-context.ts";
import { formatCount, oneMessage } from "../display/terminal-text.ts";
import { addSettings, configOption, shortHelp } from "../flags.ts";

export function gatewayCommand(runCommand: RunCommand): Command {
  const command = new Command("gateway")
    .summary("serve a policy, or an API model, to agent programs, and record the answers")
    .description(
      "Agent programs that speak Chat Completions, Messages or Responses point their base URL here. What the policy samples " +
        "for a session becomes an episode of the run folder, token for token; sessions of one task are a group. With " +
        "--agent-model or --agent-url their calls are forwarded to a model behind an API: recorded, but not trained. When restarted " +
        "in its folder, it continues its sessions.",
    );
  addSettings(command, gatewaySettings);
  addSettings(command, rolloutSettings, { names: gatewaySettingNames.filter((name) => !(name in gatewaySettings)) });
  const heading = "Session environments";
  addSettings(command, rolloutSettings, { names: worldSettingNames, heading, initial: { env: "none" } });
  command.addOption(configOption());
  return shortHelp(command, [
    ...["listen", "tokenEnv", "clientSampling", "engine", "url", "model", "agentModel", "agentUrl", "temperature"],
    ...["env", "data", "out", "config"],
  ])
    .addHelpText("after", examples)
    .action(async (flags: GatewayOptions) => runCommand((context) => run(flags, context)));
}

const examples = `
Examples:
  # The small model of this package. Needs nothing else. On this machine, any name works as a key.
  $ npx trainable-agents gateway --engine embedded --out runs/gateway
  $ curl -s http://127.0.0.1:8900/v1/chat/completions -H 'authorization: Bearer first' -H 'content-type: application/json' \\
      -d '{"model":"policy","messages":[{"role":"user","content":"Hello."}]}'
  $ curl -s http://127.0.0.1:8900/v1/sessions/first/end -H 'content-type: application/json' -d '{"reward": 1}'

  # A model behind an API instead of a policy: recorded, but not trained.
  $ npx trainable-agents gateway --agent-url http://127.0.0.1:8000/v1 --out runs/evaluated`;

async function run(flags: GatewayOptions, context: CliContext): Promise<number> {
  const { cwd, env, stdout, stderr, drain, cancel } = context;
  const onNotice = (message: string): void => void stderr.write(`${oneMessage(message)}\n`);
  const running = await startServing(context, (signal) => gateway({ ...flags, cwd, variables: env, signal, onNotice }));
  stdout.write(`${running.url}\n`);
  stderr.write(greeting(running));
  await untilAborted(drain, cancel);
  if (!cancel.aborted)
    onNotice("Closing: answers in flight are sent, for --grace seconds. Ctrl-C again ends it at once.");
  const leave = subscribeToAbort(cancel, () => void running.close({ wait: false }));
  await running.close({ wait: !cancel.aborted }).finally(leave);
  return exitCodes.done;
}

function greeting({ url, folder, policy, earlier }: RunningGateway): string {
  const what = policy.startsWith("engine ") ? "the policy" : policy;
  const lines = [`Serving ${what} at ${url}/v1; sessions go to ${folder}. Ctrl-C ends it.`];
  if (earlier !== null) {
    const [ended, inFlight] = [formatCount(earlier.ended), formatCount(earlier.inFlight)];
    lines.push(`Resuming: ${ended} sessions have ended, ${inFlight} are open.`);
  }
  return `${lines.join("\n")}\n`;
}
