// `serve`: rollouts on request, for a trainer that asks over HTTP. The settings are those of a rollout, without a plan: what
// is played comes with the requests.

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { Command, Option } from "commander";
import { ConfigurationError } from "../../core/index.ts";
import { runFiles } from "../../store/index.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import { type OpenedService, openService } from "../../api/open-service.ts";
import { readRunToResume } from "../../api/run-to-resume.ts";
import { formatCount } from "../display/terminal-text.ts";
import { readConfigFile } from "../../api/config-file.ts";
import { type FlagValues, resolveSettings } from "../../api/resolve-settings.ts";
import { type SettingName, groupSettings, rolloutSettings, settingNames } from "../../api/rollout-settings.ts";
import { readFlag, section, whole } from "../../api/setting.ts";
import { addSettings, configOption } from "../flags.ts";
import { untilAborted } from "../until-aborted.ts";
import { readKey } from "../../api/secrets.ts";
import type { RunCommand } from "./command-result.ts";

type ServeFlags = FlagValues & {
  readonly listen: string;
  readonly tokenEnv?: string;
  readonly maxWaiting?: string;
  readonly config?: string;
};

/** What a plan, an agent behind an API or a terminal needs. */
const notServed: ReadonlySet<SettingName> = new Set([
  "tasks",
  "groupSize",
  "agentModel",
  "agentUrl",
  "agentApiKeyEnv",
  "preset",
  "faultPolicy",
  "metrics",
  "logJson",
  "quiet",
  "recordUsers",
  "replayUsers",
]);

const { maxWaiting: maxWaitingFlag } = section("The service", {
  maxWaiting: whole("<n>", "requested episodes that may wait; more are refused with 429 (default: 4096)", 4096, {
    max: 10_000_000,
  }),
});

export function serveCommand(run: RunCommand): Command {
  const command = new Command("serve")
    .summary("roll out on request, for a trainer that asks over HTTP")
    .description(
      "Plays episodes and groups that HTTP requests ask for, and answers with training rows; or plays groups without end, " +
        "for a trainer that takes batches of them while it trains. Describes itself at /openapi.json. What it was asked " +
        "is kept in its folder: start it there again, and it goes on.",
    )
    .addOption(
      new Option("--listen <host:port>", "where requests come in; port 0 takes a free one")
        .default("127.0.0.1:8800")
        .helpGroup("The service:"),
    )
    .addOption(
      new Option(
        "--token-env <variable>",
        "environment variable with the token that requests must send; needed beyond this machine",
      ).helpGroup("The service:"),
    )
    .addOption(new Option(maxWaitingFlag.flag, maxWaitingFlag.help).helpGroup("The service:"));
  const names = settingNames.filter((name) => !notServed.has(name) && !Object.hasOwn(groupSettings, name));
  addSettings(command, rolloutSettings, { names });
  return command
    .addOption(configOption())
    .addHelpText("after", examples)
    .action(async (flags: ServeFlags) => run((context) => serve(flags, context)));
}

const examples = `
Examples:
  # The bookshop, played by a scripted expert. Needs nothing.
  $ npx trainable-agents serve --out runs/service
  $ curl -s http://127.0.0.1:8800/v1/groups -H 'content-type: application/json' \\
      -d '{"task_index": 3, "samples": 8, "wait_seconds": 60}'

  # Batches of two groups of eight, played while you train; the next one is there when you come back.
  $ curl -s http://127.0.0.1:8800/v1/producers -H 'content-type: application/json' -d '{"samples": 8, "batch_groups": 2}'
  $ curl -s http://127.0.0.1:8800/v1/producers/<id>/batches/0 -H 'content-type: application/json' -d '{"wait_seconds": 60}'

  # tau-bench for a trainer whose requests name the engine.
  $ npx trainable-agents serve --env tau-bench/retail --data ./tau-bench --model ./Qwen3-4B-Instruct-2507 \\
      --user-model openai/gpt-4o --out runs/service`;

async function serve(flags: ServeFlags, context: CliContext): Promise<number> {
  const { cwd, stdout, stderr, drain, cancel } = context;
  const address = readAddress(flags.listen);
  const maxWaiting = readFlag(maxWaitingFlag, flags.maxWaiting);
  const token = readKey(context.env, flags.tokenEnv ?? null, "--token-env");
  const { out } = flags;
  if (typeof out !== "string" || out === "") {
    throw new ConfigurationError("Cannot serve: no folder is named for what is asked and played; give --out <folder>.");
  }
  const folder = resolve(cwd, out);
  const resume = existsSync(join(folder, runFiles.manifest)) ? await readRunToResume(out, cwd) : null;
  const config = flags.config === undefined ? null : await readConfigFile(flags.config, cwd);
  const settings = resolveSettings(flags, resume?.settings ?? config);
  const opened = await openService(settings, context, {
    ...{ folder, token, maxWaiting, resume, cancel },
    onNotice: (message) => stderr.write(`${message}\n`),
  });
  try {
    const listener = await opened.service.listen(address);
    try {
      stdout.write(`${listener.url}\n`);
      stderr.write(greeting(opened, { url: listener.url, out }));
      await untilAborted(drain, cancel);
      if (!cancel.aborted) {
        stderr.write(
          "Closing: running episodes are finished. Ctrl-C again stops them where they are; the next start goes on.\n",
        );
      }
      const cutOff = untilAborted(cancel).then(() => opened.service.close({ wait: false }));
      await Promise.race([opened.service.close({ wait: true }), cutOff]);
      return exitCodes.done;
    } finally {
      await listener.close();
    }
  } finally {
    await opened.close();
  }
}

function greeting(
  { service, environment, split, earlier }: OpenedService,
  shown: { readonly url: string; readonly out: string },
): string {
  const lines = [
    `Serving ${environment} (${split}) at ${shown.url}; what is played goes to ${shown.out}. Ctrl-C ends it.`,
  ];
  if (earlier !== null) {
    lines.push(
      `Going on: ${formatCount(earlier.ended)} episodes have ended, ${formatCount(earlier.underWay)} go on at the turn where they stopped.`,
    );
  }
  for (const { id, state, batches } of service.producers) {
    lines.push(`Producer ${id} is ${state}; its next batch is ${formatCount(batches)}.`);
  }
  lines.push(`Its document: ${shown.url}/openapi.json`);
  return `${lines.join("\n")}\n`;
}

function readAddress(text: string): { readonly host: string; readonly port: number } {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:\s]+)):(\d{1,5})$/.exec(text.trim());
  const port = Number(match?.[3]);
  const host = match?.[1] ?? match?.[2];
  if (host !== undefined && port <= 65_535) return { host, port };
  throw new ConfigurationError(`Cannot use --listen "${text}": an address like 127.0.0.1:8800 is needed.`);
}
