// `inspect`: shows a run as a list of episodes, or one episode as a conversation or as tokens.
// Reads one episode at a time.

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { Command } from "commander";
import { ConfigurationError, type Episode } from "../../core/index.ts";
import {
  episodeLine,
  type EpisodeSummary,
  openRunFolder,
  type RunFacts,
  runFacts,
  runFiles,
  type RunFolder,
} from "../../store/index.ts";
import type { ForeignEpisode } from "../../foreign/index.ts";
import type { CliContext, RunCommand } from "../cli-context.ts";
import { tokenizerOf } from "../../api/choose-model.ts";
import { conversationView } from "../display/conversation-view.ts";
import { coloursFor, formatCount, tableLines } from "../display/terminal-text.ts";
import { tokenView } from "../display/masked-text.ts";
import { jsonOption, writeJson } from "../flags.ts";
import { type EpisodeRow, episodeRow } from "../json-results.ts";
import { quoted, sayLink } from "../rollout-display.ts";
import { remedyFor } from "../../lib/nearest.ts";
import { visibleJson, visibleLine } from "../../lib/text.ts";

type InspectFlags = {
  readonly tokens?: boolean;
  readonly full?: boolean;
  readonly outcome?: string;
  readonly json?: true;
};

export function inspectCommand(run: RunCommand): Command {
  return new Command("inspect")
    .summary("read a run: its episodes, a conversation, its tokens")
    .description("Lists the episodes of a run, or shows one as a conversation, or as tokens with masks and logprobs.")
    .argument("<run>", "run folder, or result file of another tool")
    .argument("[episode]", "its number in the list, or its id")
    .option("--tokens", "show the training rows token by token")
    .option("--full", "show long content in full")
    .option("--outcome <name>", "list only episodes with this outcome, or passed, or failing")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      `
Examples:
  $ npx trainable-agents inspect runs/20260101-120000-bookshop
  $ npx trainable-agents inspect runs/20260101-120000-bookshop --outcome failing
  $ npx trainable-agents inspect runs/20260101-120000-bookshop 3
  $ npx trainable-agents inspect runs/20260101-120000-bookshop 3 --tokens | less -R`,
    )
    .action(async (folder: string, episode: string | undefined, flags: InspectFlags) =>
      run((context) => inspect({ folder, episode: episode ?? null, flags }, context)),
    );
}

async function inspect(
  request: { readonly folder: string; readonly episode: string | null; readonly flags: InspectFlags },
  context: CliContext,
): Promise<number> {
  const { folder, episode, flags } = request;
  if (await inspectForeign(request, context)) return 0;
  const reader = openRunFolder(resolve(context.cwd, folder), {
    onTornLine: ({ bytes }) =>
      context.stderr.write(
        `Note: the last line of the run was cut off (${formatCount(bytes)} bytes) and is left out.\n`,
      ),
  });
  const facts = runFacts(await reader.manifest());
  if (episode === null) {
    if (flags.tokens === true) {
      throw new ConfigurationError(
        "Cannot show tokens of a whole run: name an episode, by its number in the list or its id.",
      );
    }
    await listEpisodes(reader, {
      facts,
      folder,
      context,
      outcome: flags.outcome ?? null,
      asJson: flags.json === true,
    });
    await sayLink(folder, null, context);
    return 0;
  }
  await showEpisode(await findEpisode(reader, episode, folder), {
    run: resolve(context.cwd, folder),
    facts,
    flags,
    context,
  });
  await sayLink(folder, { name: episode, asTokens: flags.tokens === true }, context);
  return 0;
}

/**
 * Shows a file of another tool, as `view` opens it. Resolves with false for a run, and for a file
 * of an unknown format.
 */
async function inspectForeign(
  { folder, episode, flags }: Parameters<typeof inspect>[0],
  { cwd, stdout, env, program }: CliContext,
): Promise<boolean> {
  const path = resolve(cwd, folder);
  if (!existsSync(path) || existsSync(join(path, runFiles.manifest))) return false;
  const [{ openForeignFile }, { foreignConversation, foreignJson, foreignTable }] = await Promise.all([
    import("../../foreign/index.ts"),
    import("../display/foreign-view.ts"),
  ]);
  const file = await openForeignFile(path, folder);
  if (file === null) return false;
  if (flags.tokens === true) {
    throw new ConfigurationError(`Cannot show tokens of "${folder}": a file of ${file.format} names no tokenizer; remove --tokens.`); // prettier-ignore
  }
  const keep = flags.outcome === undefined ? () => true : foreignFilters[flags.outcome];
  if (keep === undefined) {
    throw new ConfigurationError(`Cannot list episodes of "${folder}" with outcome "${flags.outcome}": other tools record no outcomes; use passed or failing.`); // prettier-ignore
  }
  const rows: [number, ForeignEpisode][] = [];
  let number = 0;
  for await (const one of file.episodes()) {
    number++;
    if (episode !== null ? one.id === episode || String(number) === episode : keep(one)) rows.push([number, one]);
  }
  const colours = coloursFor(stdout, env);
  if (episode !== null) {
    const [found] = rows;
    if (found === undefined) {
      throw new ConfigurationError(`Cannot find episode "${episode}" in "${folder}": the file has ${formatCount(number)} episodes; use a number from 1, or an id from the list.`); // prettier-ignore
    }
    if (flags.json === true) writeJson(foreignJson(found[1]), { stdout });
    else stdout.write(`${foreignConversation(found[1], { colours, textLength: flags.full === true ? Infinity : 600 }).join("\n")}\n`); // prettier-ignore
    return true;
  }
  if (flags.json === true) {
    writeJson({ run: folder, format: file.format, episodes: number, rows: rows.map(([at, one]) => ({ number: at, ...foreignJson(one) })) }, { stdout }); // prettier-ignore
    return true;
  }
  const lines = foreignTable(rows, { colours, columns: stdout.columns });
  stdout.write(`${colours.bold(visibleLine(folder))}  ${file.format}\n\n`);
  for (const line of lines) stdout.write(`${line}\n`);
  stdout.write(`\n${formatCount(rows.length)} of ${formatCount(number)} episodes\n`);
  if (rows.length > 0) stdout.write(`Next: ${program} inspect ${quoted(folder)} ${rows[0]![0]}\n`);
  return true;
}

const foreignFilters: Readonly<Record<string, (episode: ForeignEpisode) => boolean>> = Object.assign(
  Object.create(null) as object,
  {
    passed: ({ reward }: ForeignEpisode) => reward !== null && Math.abs(reward - 1) <= 1e-6,
    failing: ({ reward }: ForeignEpisode) => reward !== null && Math.abs(reward - 1) > 1e-6,
  },
);

const listFilters: Readonly<Record<string, (episode: EpisodeSummary) => boolean>> = {
  completed: ({ outcome }) => outcome === "completed",
  truncated: ({ outcome }) => outcome === "truncated",
  aborted: ({ outcome }) => outcome === "aborted",
  failed: ({ outcome }) => outcome === "failed",
  passed: ({ reward }) => reward !== null && Math.abs(reward - 1) <= 1e-6,
  failing: ({ reward }) => reward !== null && Math.abs(reward - 1) > 1e-6,
};

async function listEpisodes(
  reader: RunFolder,
  options: {
    readonly facts: RunFacts;
    readonly folder: string;
    readonly outcome: string | null;
    readonly context: CliContext;
    readonly asJson: boolean;
  },
): Promise<void> {
  const { facts, folder, outcome, context } = options;
  const keep = outcome === null ? () => true : Object.hasOwn(listFilters, outcome) ? listFilters[outcome] : undefined;
  if (keep === undefined) {
    throw new ConfigurationError(
      `Cannot list episodes with outcome "${outcome}": there is no such outcome; ${remedyFor(outcome ?? "", Object.keys(listFilters))}`,
    );
  }
  const shown: EpisodeRow[] = [];
  let number = 0;
  for await (const episode of reader.summaries()) {
    ({ number } = episode);
    if (keep(episode)) shown.push(episodeRow(episode));
  }
  if (options.asJson) {
    writeJson({ run: folder, status: facts.status, episodes: number, rows: shown }, context);
    return;
  }
  const rows = shown.map(cellsOf);
  const { stdout, program } = context;
  const colours = coloursFor(stdout, context.env);
  const lines = tableLines("># | episode | >reward | ended | >turns | >tokens | >sampled | >format errors", rows, {
    colours,
    columns: stdout.columns,
  });
  stdout.write(
    `${colours.bold(visibleLine(folder))}  ${visibleLine(`${facts.status ?? "–"}, started ${facts.startedAt ?? "–"}`)}\n\n`,
  );
  for (const line of lines) stdout.write(`${line}\n`);
  stdout.write(`\n${formatCount(rows.length)} of ${formatCount(number)} episodes\n`);
  const first = rows[0]?.[0];
  if (first !== undefined) {
    stdout.write(`Next: ${program} inspect ${quoted(folder)} ${first}   (and --tokens)\n`);
  }
}

function cellsOf({
  number,
  id,
  reward,
  outcome,
  stopReason,
  turns,
  tokens,
  sampledTokens,
  problems,
}: EpisodeRow): string[] {
  return [
    String(number),
    id,
    reward === null ? "–" : String(Number(reward.toFixed(4))),
    outcome === "completed" ? stopReason : `${outcome}: ${stopReason}`,
    String(turns),
    formatCount(tokens),
    formatCount(sampledTokens),
    formatCount(Object.values(problems).reduce((sum, count) => sum + count, 0)),
  ];
}

/**
 * Finds an episode by its number in the list or by its id. Throws a `ConfigurationError` when it
 * does not exist.
 */
export async function findEpisode(reader: RunFolder, nameOrNumber: string, folder: string): Promise<Episode> {
  const episode = await reader.episode(/^\d+$/.test(nameOrNumber) ? Number(nameOrNumber) : nameOrNumber);
  if (episode !== null) return episode;
  const { total } = await reader.page({ count: 1 });
  throw new ConfigurationError(
    `Cannot find episode "${nameOrNumber}" in "${folder}": the run has ${formatCount(total)} episodes; use a number from 1, or an id from the list.`,
  );
}

async function showEpisode(
  episode: Episode,
  shown: { readonly run: string; readonly facts: RunFacts; readonly flags: InspectFlags; readonly context: CliContext },
): Promise<void> {
  const { facts, flags, context } = shown;
  const { stdout } = context;
  if (flags.json === true) {
    // The line of episodes.jsonl, without its checksum: the record that docs/reference.md describes.
    stdout.write(`${visibleJson(episodeLine(episode))}\n`);
    return;
  }
  const colours = coloursFor(stdout, context.env);
  if (flags.tokens !== true) {
    const textLength = flags.full === true ? Infinity : 600;
    stdout.write(`${conversationView(episode, { colours, textLength }).join("\n")}\n`);
    return;
  }
  const folder = facts.model?.folder ?? null;
  const tokenizer = await tokenizerOf(folder, context.cwd, shown.run);
  if (tokenizer === null) {
    context.stderr.write(
      `Note: the tokenizer of "${visibleLine(folder ?? "")}" no longer exists, so tokens are shown without their text.\n`,
    );
  }
  for (const line of tokenView(episode, {
    colours,
    decode: tokenizer === null ? null : (ids) => tokenizer.decode(ids),
  })) {
    stdout.write(`${line}\n`);
  }
}
