// `view`: parses flags, calls view(), prints.

import { Command } from "commander";
import { exportView, view, type ViewOptions, viewSettings } from "../../api/view.ts";
import { ConfigurationError } from "../../core/index.ts";
import { type CliContext, exitCodes, type RunCommand, untilAborted } from "../cli-context.ts";
import { formatCount } from "../display/terminal-text.ts";
import { addSettings, jsonOption, writeJson } from "../flags.ts";

export function viewCommand(runCommand: RunCommand): Command {
  const command = new Command("view")
    .summary("see runs in a browser: verdicts, conversations, tokens with their masks")
    .description(
      "Serves a page on this machine: a run's verdict and why episodes failed, a search of all messages, each episode as a " +
        "conversation and as tokens with mask, logprob and weight version, the episodes of a group side by side, a training's curves. Two runs " +
        "can be compared, and a run in progress is followed. No data leaves the machine.",
    )
    .argument(
      "[source...]",
      "run folders, folders of train, result files of other tools; or one folder, to list the runs below it",
    );
  addSettings(command, viewSettings);
  return command
    .option("--logprobs <file>", "show a trainer's logprobs over the sampled ones: JSON lines, one per row")
    .option(
      "--export <file>",
      "write one HTML file that opens without a server, or marks as labels of eval (labels.json), and exit",
    )
    .option("--episode <number>", "export only this episode, by its number or id")
    .option("--where <expression>", "export only episodes that match an expression, as in export --where")
    .addOption(jsonOption())
    .addHelpText("after", examples)
    .action(async (sources: string[], flags: ViewFlags) => runCommand((context) => run(sources, flags, context)));
}

const examples = `
Examples:
  # Every run below the current folder, newest first.
  $ npx trainable-agents view

  $ npx trainable-agents view runs/20260101-120000-bookshop

  # Two runs of the same tasks, compared.
  $ npx trainable-agents view runs/one runs/two

  # With the logprobs that a trainer computed for the same tokens.
  $ npx trainable-agents view runs/20260101-120000-bookshop --logprobs trainer-logprobs.jsonl

  # One file, to send to a colleague.
  $ npx trainable-agents view runs/20260101-120000-bookshop --export failed.html --where "reward < 1"`;

type ViewFlags = Omit<ViewOptions, "sources"> & {
  readonly export?: string;
  readonly episode?: string;
  readonly where?: string;
  readonly json?: true;
};

async function run(named: readonly string[], flags: ViewFlags, context: CliContext): Promise<number> {
  const sources = named.length === 0 ? ["."] : named;
  const { cwd, env: variables, stdout, stderr, drain, cancel } = context;
  const { export: file, episode, where, json, ...options } = flags;
  const { logprobs } = options;
  if (file !== undefined) {
    const choice = {
      ...(episode === undefined ? {} : { episode }),
      ...(where === undefined ? {} : { where }),
      ...(logprobs === undefined ? {} : { logprobs }),
    };
    const bytes = await exportView({ sources, file, cwd, ...choice });
    if (json === true) return writeJson({ file, bytes }, context);
    stdout.write(`${file}  ${formatCount(Math.ceil(bytes / 1000))} kB\n`);
    return exitCodes.done;
  }
  if (episode !== undefined || where !== undefined) {
    throw new ConfigurationError(
      "Cannot use --episode or --where without --export: in the page a filter is typed; add --export <file>.",
    );
  }
  const viewer = await view({ ...options, sources, cwd, variables });
  try {
    if (json === true) writeJson({ url: viewer.url }, context);
    else stdout.write(`${viewer.url}\n`);
    stderr.write(`Open it in a browser. Ctrl-C ends it.\n`);
    await untilAborted(drain, cancel);
  } finally {
    await viewer.close();
  }
  return exitCodes.done;
}
