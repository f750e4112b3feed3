// `view`: parses flags, calls view(), prints.

import { Command } from "commander";
import { view, type ViewOptions, viewSettings } from "../../api/view.ts";
import { type CliContext, exitCodes, type RunCommand, untilAborted } from "../cli-context.ts";
import { addSettings } from "../flags.ts";

export function viewCommand(runCommand: RunCommand): Command {
  const command = new Command("view")
    .summary("see runs in a browser: verdicts, conversations, tokens with their masks")
    .description(
      "Serves a page on this machine: a run's verdict and why episodes failed, a search of all messages, each episode as a " +
        "conversation and as tokens with mask, logprob and weight version, a group side by side, a training's curves. Two runs " +
        "are compared. A run in progress is followed. Nothing leaves the machine.",
    )
    .argument("<source...>", "run folders, or folders of train");
  addSettings(command, viewSettings);
  return command
    .addHelpText("after", examples)
    .action(async (sources: string[], flags: Omit<ViewOptions, "sources">) =>
      runCommand((context) => run({ ...flags, sources }, context)),
    );
}

const examples = `
Examples:
  $ npx trainable-agents view runs/20260101-120000-bookshop

  # Two runs of the same tasks, compared.
  $ npx trainable-agents view runs/one runs/two`;

async function run(options: ViewOptions, context: CliContext): Promise<number> {
  const { cwd, stdout, stderr, drain, cancel } = context;
  const viewer = await view({ ...options, cwd });
  try {
    stdout.write(`${viewer.url}\n`);
    stderr.write(`Open it in a browser. Ctrl-C ends it.\n`);
    await untilAborted(drain, cancel);
  } finally {
    await viewer.close();
  }
  return exitCodes.done;
}
