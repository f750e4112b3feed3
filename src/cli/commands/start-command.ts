// `start`, which `npm start` runs: a whole rollout in a minute without a server, a key or a
// download, and suggestions for the next steps. `prepare` makes a data folder from an upstream
// checkout.

import { resolve, relative } from "node:path";

import { Command } from "commander";

import { tokenizerOf } from "../../api/choose-model.ts";
import { rollout, type RolloutOptions } from "../../api/rollout.ts";
import { ConfigurationError, type Episode, type Tokenizer } from "../../core/index.ts";
import { episodeSamples } from "../../rollout/index.ts";
import { readEpisodes } from "../../store/index.ts";
import { untrainedSamples } from "../../trajectories/index.ts";
import { type CliContext, exitCodes, type RunCommand, sayWhenInterrupted } from "../cli-context.ts";
import { conversationHeading, endingLines } from "../display/conversation-view.ts";
import { maskedText, maskLegend } from "../display/masked-text.ts";
import { coloursFor, oneMessage } from "../display/terminal-text.ts";
import { jsonOption, writeJson } from "../flags.ts";
import { rolloutJson, type StartJson } from "../json-results.ts";
import { exitCodeOf, quoted, showRollout, showTable } from "../rollout-display.ts";
import { meant } from "../../lib/nearest.ts";

type PrepareFlags = { readonly from?: string; readonly to?: string; readonly json?: true };

export function prepareCommand(run: RunCommand): Command {
  return new Command("prepare")
    .summary("prepare the data of tau-bench or tau2-bench in a folder")
    .description(
      "Reads an upstream checkout of a benchmark as data (none of it is executed) and writes databases, guidelines, tools, " +
        "tasks and prompts into a folder. Without --from, the pinned commit is cloned with git.",
    )
    .argument("<benchmark>", "tau-bench or tau2-bench")
    .option("--from <checkout>", "folder of an upstream checkout (default: clone the pinned commit)")
    .option("--to <folder>", "folder to create; must be new or empty")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      `
Examples:
  $ npx trainable-agents prepare tau-bench --to ./tau-bench
  $ npx trainable-agents prepare tau-bench --from ../tau-bench --to ./tau-bench-data
  $ npx trainable-agents prepare tau2-bench --from ../tau2-bench --to ./tau2-bench-data`,
    )
    .action(async (benchmark: string, flags: PrepareFlags) => run((context) => prepare(benchmark, flags, context)));
}

const benchmarks = new Map([
  ["tau-bench", async () => (await import("../../environments/tau-bench/index.ts")).prepareTauBench],
  ["tau2-bench", async () => (await import("../../environments/tau2-bench/index.ts")).prepareTau2Bench],
]);

async function prepare(benchmark: string, { from, to, json }: PrepareFlags, context: CliContext): Promise<number> {
  const { cwd, stdout, stderr, program, cancel, drain } = context;
  const load = benchmarks.get(benchmark);
  if (load === undefined) {
    throw new ConfigurationError(
      `Cannot prepare "${benchmark}": expected ${[...benchmarks.keys()].join(" or ")}; write "prepare tau-bench".${meant(benchmark, [...benchmarks.keys()])}`,
    );
  }
  if (to === undefined) {
    throw new ConfigurationError(`Cannot prepare ${benchmark}: no folder is named; pass --to <folder>.`);
  }
  const prepareBenchmark = await load();
  const isSaid = sayWhenInterrupted(drain, () => void stderr.write("Interrupted: nothing is kept.\n"));
  const { folder, files, commit } = await prepareBenchmark({
    to: resolve(cwd, to),
    ...(from === undefined ? {} : { from: resolve(cwd, from) }),
    onProgress: (line) => void stderr.write(`${oneMessage(line)}\n`),
    // Nothing needs a gentle end here: the first Ctrl-C stops.
    signal: AbortSignal.any([drain, cancel]),
  }).finally(isSaid);
  const shown = relative(cwd, folder) || folder;
  if (json === true) return writeJson({ folder: shown, files, commit }, context);
  stdout.write(
    `${files.length} files in ${shown}${commit === null ? "" : ` (commit ${commit.slice(0, 12)})`}\n` +
      `Next: ${program} rollout --env ${benchmark}/retail --data ${quoted(shown)} --url <server> --model <folder> --user-model <provider/model>\n`,
  );
  return exitCodes.done;
}

/**
 * Eight tasks of all kinds, eight attempts each. Every turn draws from its own seed, so the run can
 * be repeated.
 */
const demonstration: RolloutOptions = {
  env: "bookshop",
  split: "validation",
  tasks: "0-7",
  groupSize: 8,
  user: "agenda",
  seedTurns: true,
  writeSamples: true,
};

type StartFlags = {
  readonly engine?: string;
  readonly tasks?: string;
  readonly out?: string;
  readonly seed?: string;
  readonly expertNoise?: string;
  readonly json?: true;
};

export function startCommand(run: RunCommand): Command {
  return new Command("start")
    .summary("see it work: a small model runs 64 episodes, without a server")
    .description(
      "Runs 64 episodes of the bookshop in groups of 8, on held-out tasks, and shows one that passed and one that failed as " +
        "the policy saw them, with loss masks. The policy is a language model of a million parameters that comes with the " +
        "package and runs in this process; the user follows an agenda.",
    )
    .option(
      "--engine <name>",
      "embedded: the model, or expert: a script that sometimes errs, behind SGLang's protocol (default: embedded)",
    )
    .option("--expert-noise <p>", "probability that the expert errs at a turn (default: 0.1); implies --engine expert")
    .option("--tasks <list>", "validation tasks to run, like 0-7 or 3,5 (default: 0-7)")
    .option("--seed <n>", "seed of the run (default: 0)")
    .option("--out <folder>", "run folder (default: runs/<time>-bookshop)")
    .addOption(jsonOption())
    .action(async (flags: StartFlags) => run((context) => start(flags, context)));
}

async function start({ json, ...flags }: StartFlags, context: CliContext): Promise<number> {
  const engine = flags.engine ?? (flags.expertNoise === undefined ? "embedded" : "expert");
  checkEngine(engine, flags);
  const options = { ...demonstration, ...flags, engine } as RolloutOptions;
  const result = await showRollout(context, "rollout", (call) => rollout({ ...options, ...call }));
  const exitCode = exitCodeOf(result);
  const { folder } = result;
  if (json === true) {
    const { passing, failing } = await findTwoEpisodes(folder, context);
    const numbers = { passing: passing?.number ?? null, failing: failing?.number ?? null };
    writeJson({ ...rolloutJson(result), ...numbers } satisfies StartJson, context);
    return exitCode;
  }
  showTable(result, context);
  if (exitCode !== exitCodes.done) return exitCode;
  const tokenizer = await tokenizerOf(engine === "embedded" ? "bookshop-1m" : null, context.cwd);
  const found = await findTwoEpisodes(folder, context);
  showTwoEpisodes(found, tokenizer, context);
  showCommands(folder, found.failing?.number ?? 1, context);
  return exitCode;
}

function checkEngine(engine: string, { expertNoise }: StartFlags): void {
  if (engine !== "embedded" && engine !== "expert") {
    throw new ConfigurationError(
      `Cannot start with engine "${engine}": the demonstration needs no server; use embedded or expert, or the command rollout.`,
    );
  }
  if (engine === "embedded" && expertNoise !== undefined) {
    throw new ConfigurationError(
      'Cannot use --expert-noise with engine "embedded": the expert does not run; remove one of them.',
    );
  }
}

type Found = { readonly number: number; readonly episode: Episode };
type FoundTwo = { readonly passing: Found | null; readonly failing: Found | null };

/** An episode that passed and one that failed; `null` if there is none. */
async function findTwoEpisodes(folder: string, { cwd }: Pick<CliContext, "cwd">): Promise<FoundTwo> {
  const found: { passing: Found | null; failing: Found | null } = { passing: null, failing: null };
  let number = 0;
  for await (const episode of readEpisodes(resolve(cwd, folder))) {
    number++;
    const kind = episode.reward === 1 ? "passing" : "failing";
    if (isShorter(episode, found[kind])) found[kind] = { number, episode };
  }
  return found;
}

function showTwoEpisodes(
  { passing, failing }: FoundTwo,
  tokenizer: Tokenizer | null,
  { stdout, env }: CliContext,
): void {
  const colours = coloursFor(stdout, env);
  const decode = (tokens: Uint32Array): string => tokenizer?.decode(tokens) ?? "";
  const view = { colours, decode, columns: stdout.columns };
  stdout.write(`Two conversations as the policy saw them:  ${maskLegend(colours)}\n\n`);
  for (const [title, found] of [
    ["An episode that passed", passing],
    ["An episode that failed its task", failing],
  ] as const) {
    if (found === null) {
      stdout.write(`${colours.bold(colours.cyan(title))}: none did.\n\n`);
      continue;
    }
    const { episode } = found;
    const { samples } = episodeSamples(episode);
    const rows = samples.length > 0 ? samples : untrainedSamples(episode);
    const lines = [
      conversationHeading(episode, colours),
      "",
      ...rows.flatMap((sample) => [...maskedText(sample, view)]),
      "",
      ...endingLines(episode, { colours, textLength: 300 }),
    ];
    stdout.write(`${colours.bold(colours.cyan(title))}\n${lines.join("\n")}\n\n`);
  }
}

function showCommands(folder: string, failing: number, { stdout, program, env }: CliContext): void {
  const run = quoted(folder);
  // A clone has a shorter npm command, which also rebuilds an outdated program first.
  const train = env["npm_lifecycle_event"] === "start" ? "npm run train" : `${program} train`;
  stdout.write(
    [
      "Look closer:",
      `  ${program} inspect ${run}`,
      `  ${program} inspect ${run} ${failing}`,
      `  ${program} inspect ${run} ${failing} --tokens`,
      `  ${program} view ${run}`,
      "Let the model learn from its own episodes, in twelve minutes:",
      `  ${train}`,
      "Roll out your own model behind SGLang:",
      `  ${program} rollout --url http://127.0.0.1:30000 --model <folder of the model> --group-size 8`,
      "",
    ].join("\n"),
  );
}

/** Short conversations are easier to read; the shortest one with several turns is shown. */
function isShorter(episode: Episode, than: Found | null): boolean {
  const turns = episode.trajectory.turns.length;
  return turns >= 4 && (than === null || turns < than.episode.trajectory.turns.length);
}
