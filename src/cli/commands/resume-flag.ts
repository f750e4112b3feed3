// `--resume`, for every command that plays: what it is called, what it does not go with, and what there is to say when there is
// nothing to do.

import { Option } from "commander";
import { ConfigurationError } from "../../core/index.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import type { RunToResume } from "../../api/run-to-resume.ts";
import { formatCount } from "../display/terminal-text.ts";
import { quoted } from "./play-rollout.ts";

export function resumeOption(): Option {
  return new Option(
    "--resume <run>",
    "go on with the run in this folder, with its settings; only addresses, keys, concurrency and the like may be given anew",
  ).helpGroup("Output:");
}

/** Throws a `ConfigurationError` for flags that would name another folder or other settings. */
export function refuseBesideResume(flags: { readonly config?: unknown; readonly out?: unknown }): void {
  const named = (["config", "out"] as const).find((name) => flags[name] !== undefined);
  if (named === undefined) return;
  throw new ConfigurationError(
    `Cannot use --${named} with --resume: folder and settings are those of the run; leave --${named} out.`,
  );
}

export function sayComplete({ folder, episodes }: RunToResume, { stdout, program }: CliContext): number {
  stdout.write(
    `The run in ${folder} is complete: ${formatCount(episodes)} episodes; there is nothing to resume.\n` +
      `  ${program} inspect ${quoted(folder)}\n`,
  );
  return exitCodes.done;
}
