// `start`, what `npm start` runs: a whole rollout in a minute without a server, a key or a download, and where to look next.

import { resolve } from "node:path";
import { Command } from "commander";
import type { Episode } from "../../core/index.ts";
import { readEpisodes } from "../../store/index.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import { conversationView } from "../display/conversation-view.ts";
import { coloursFor } from "../display/terminal-text.ts";
import { resolveSettings, type FlagValues } from "../settings/resolve-settings.ts";
import type { RunCommand } from "./command-result.ts";
import { playRollout, quoted } from "./play-rollout.ts";

/** Eight tasks of all kinds, eight tries each, by an expert that errs often enough for its groups to differ. */
const demonstration: FlagValues = {
  env: "bookshop",
  engine: "expert",
  tasks: "0-7",
  samplesPerTask: 8,
  user: "agenda",
};

type StartFlags = { readonly out?: string; readonly seed?: string; readonly expertNoise?: string };

export function startCommand(run: RunCommand): Command {
  return new Command("start")
    .summary("see it work: 64 episodes of the bookshop, without a server")
    .description(
      "Plays 64 episodes of the bookshop in groups of 8. A scripted expert that errs now and then plays the policy behind the " +
        "same protocol, over real HTTP, as a language model; the user follows an agenda.",
    )
    .option("--seed <n>", "of the run (default: 0)")
    .option("--expert-noise <p>", "how often the expert errs at a turn (default: 0.1)")
    .option("--out <folder>", "run folder (default: runs/<time>-bookshop)")
    .action(async (flags: StartFlags) => run((context) => start(flags, context)));
}

async function start(flags: StartFlags, context: CliContext): Promise<number> {
  const settings = resolveSettings({ ...demonstration, ...flags }, null);
  const { exitCode, folder } = await playRollout(settings, context);
  if (exitCode !== exitCodes.done) return exitCode;
  await showTwoEpisodes(folder, context);
  return exitCode;
}

async function showTwoEpisodes(folder: string, context: CliContext): Promise<void> {
  const { stdout, program, env, cwd } = context;
  const colours = coloursFor(stdout, env);
  const shown: { passing: Found | null; failing: Found | null } = { passing: null, failing: null };
  let number = 0;
  for await (const episode of readEpisodes(resolve(cwd, folder))) {
    number++;
    const kind = episode.reward === 1 ? "passing" : "failing";
    if (isShorter(episode, shown[kind])) shown[kind] = { number, episode };
  }
  for (const [title, found] of [
    ["An episode that passed", shown.passing],
    ["An episode that failed its task", shown.failing],
  ] as const) {
    if (found === null) continue;
    const lines = conversationView(found.episode, { colours, textLength: 160, maxLines: 24 });
    stdout.write(`${colours.bold(colours.cyan(title))}\n${lines.map((line) => `  ${line}`.trimEnd()).join("\n")}\n\n`);
  }
  const run = quoted(folder);
  const failing = shown.failing?.number ?? 1;
  stdout.write(
    [
      "Look closer:",
      `  ${program} inspect ${run}`,
      `  ${program} inspect ${run} ${failing}`,
      `  ${program} inspect ${run} ${failing} --tokens`,
      "Roll out a model of yours behind SGLang:",
      `  ${program} rollout --url http://127.0.0.1:30000 --model <folder of the model> --samples-per-task 8`,
      "",
    ].join("\n"),
  );
}

type Found = { readonly number: number; readonly episode: Episode };

/** Short conversations are read; the shortest with some turns is shown. */
function isShorter(episode: Episode, than: Found | null): boolean {
  const turns = episode.trajectory.turns.length;
  return turns >= 4 && (than === null || turns < than.episode.trajectory.turns.length);
}
