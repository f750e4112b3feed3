// exportRun(): writes runs as the rows of a trainer into one file. Streams group by group; left-out
// data are counted with their reason, and a token that would be lost or trained twice stops the
// export before the file has its name.

import { existsSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { basename, dirname, extname, resolve } from "node:path";
import {
  ConfigurationError,
  type EnvironmentSource,
  type Episode,
  type EpisodeSamples,
  type Tool,
  useEnvironment,
} from "../core/index.ts";
import {
  createJsonLinesFile,
  createParquetFile,
  type ExportContext,
  type ExportedGroup,
  type ExportFormat,
  type ExportFormatName,
  type ExportOrigin,
  exportFormatNames,
  exportFormats,
  exportGroup,
  type GroupToExport,
  type RowFile,
  type TurnRewardsChoice,
  toolsOfSession,
} from "../export/index.ts";
import { faultPolicies } from "../graders/index.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { episodeSamples } from "../rollout/index.ts";
import { openRunFolder, parseWhere, type RunFacts, runFacts } from "../store/index.ts";
import { RowBytesWriter } from "./export-experts.ts";
import { readExportGroups, type RunToExport } from "./export-groups.ts";
import { ExportTeacher } from "./export-teacher.ts";
import type { Tau2Export } from "./export-tau2.ts";
import { templateKwargsOf, tokenizerOf } from "./choose-model.ts";
import { faultPolicyOf } from "./fault-policy.ts";
import { environmentNames } from "./environments.ts";
import { loadEnvironment } from "./load-environment.ts";
import type { CallOptions } from "./options.ts";
import type { SettingName } from "./rollout-settings.ts";
import { type ExportCounts, NothingToExportError } from "./export-counts.ts";
import { keyOf } from "../parts/setting.ts";
import type { GivenParts } from "./surroundings.ts";

const fileKinds = { jsonl: createJsonLinesFile, parquet: createParquetFile } as const;

/** Kinds of files that rows are written to. */
export type ExportFileKind = keyof typeof fileKinds;
export const exportFileKinds = Object.keys(fileKinds) as readonly ExportFileKind[];

/** The same file as the run's samples.jsonl. */
const ownSamples = "samples";

const tau2Results = "tau2";
const tau2Submission = "tau2-submission";

/**
 * Row layouts; "samples" is the run's own samples.jsonl, "tau2" the file of simulations that
 * tau2-bench's evaluator reads, and "tau2-submission" a folder for its leaderboard.
 */
export type ExportName = ExportFormatName | typeof ownSamples | typeof tau2Results | typeof tau2Submission;
export const exportNames: readonly ExportName[] = [...exportFormatNames, ownSamples, tau2Results, tau2Submission];

/** Options of {@link exportRun}: the flags of the command `export` in camelCase. */
export type ExportRunOptions = Omit<CallOptions, "variables"> & {
  /** Run folders, at least one. */
  readonly runs: string | readonly string[];
  /**
   * Format of the rows: slime, verl, ...; "samples", the run's own samples.jsonl; "tau2",
   * upstream's file of simulations; or "tau2-submission", a folder for upstream's leaderboard.
   */
  readonly format: ExportName;
  /** The file to write; for "tau2-submission" a folder. */
  readonly output: string;
  /** Kind of file. @default "parquet" for a file with that extension, else "jsonl" */
  readonly to?: ExportFileKind;
  /** Only episodes that match the expression, like `reward == 1 and turns < 9`. @default all */
  readonly where?: string;
  /** Folder of the tokenizer, if the run's own no longer exists (slime, samples). @default the run's */
  readonly model?: string;
  /**
   * Environment that supplies tools and faults, if the run's is a user module. @default the run's
   */
  readonly env?: string | EnvironmentSource;
  /** Folder of the environment's data, if it has moved. @default the run's */
  readonly data?: string;
  /**
   * "keep" writes rewards of turns into rows, and a format without a field for them refuses them;
   * otherwise they are left out. @default "keep"
   */
  readonly turnRewards?: TurnRewardsChoice;
  /** Replaces the file if it exists. @default false */
  readonly force?: boolean;
  /** Receives notices for people, synchronously, such as a torn line or unknown tools. @default none */
  readonly onNotice?: (message: string) => void;
};

/** Counts and sizes of an export. */
export type ExportRunResult = ExportCounts & {
  /** Size of the file in bytes. */
  readonly bytes: number;
  /**
   * Size of `<output>.routed-experts.bin` in bytes; 0 if no row has experts, and then this file
   * does not exist.
   */
  readonly expertBytes: number;
  /** Size of `<output>.sampling-masks.bin` in bytes; 0 if no row has kept ids. */
  readonly maskBytes: number;
};

/** The public function of this name: `functions.ts`. */
export async function exportRun(options: ExportRunOptions): Promise<ExportRunResult | null> {
  const { output, signal, drain, where, force = false } = options;
  const folders = [options.runs].flat();
  const cwd = options.cwd ?? process.cwd();
  if (options.format === ownSamples && folders.length > 1) {
    throw new ConfigurationError(
      'Cannot export several runs as "samples": their numbers of groups and episodes would meet; export each separately, or use --format slime.',
    );
  }
  const fileKind = isTau2(options.format) ? "document" : formatNamed(options.format).file;
  if (options.to !== undefined && fileKind !== "any") {
    throw new ConfigurationError(
      `Cannot export to ${options.format} as ${options.to}: the file is ${fileKind === "json-lines" ? "JSON lines" : "one JSON document"}; remove --to.`,
    );
  }
  const passes = where === undefined ? () => true : parseWhere(where);
  const path = resolve(cwd, output);
  if (!force && existsSync(path)) {
    throw new ConfigurationError(
      `Cannot write "${output}": it exists; pass --force to replace it, or name another file.`,
    );
  }
  if (options.format === tau2Submission) {
    const { exportSubmission } = await import("./export-submission.ts");
    return exportSubmission(options, (file) => exportRun({ ...options, ...file, format: tau2Results, force: true }));
  }
  const opening = { options, cwd, onNotice: options.onNotice ?? (() => undefined) };
  const runs = await openRuns(folders, opening);
  const tau2 = options.format === tau2Results ? await tau2Of(runs) : null;
  const plain = tau2?.format ?? formatNamed(options.format);
  const folderOf = ({ name, reader }: OpenedRun) => ({ name, folder: reader.location });
  const scored = options.format === ownSamples ? null : await ExportTeacher.open(runs.map(folderOf));
  const teacher = plain.teacherColumns === null ? null : scored;
  if (scored !== null && teacher === null) {
    opening.onNotice(`Note: rows of ${options.format} have no place for a teacher's logprobs, which the run has.`);
  }
  const format = teacher === null ? plain : { ...plain, columns: [...plain.columns, ...(plain.teacherColumns ?? [])] };
  const request: ExportRequest = { ...opening, format };
  const rowBytes = new RowBytesWriter(path);
  const bytesFolders = new Map<string | null, (episodeId: string) => string>();
  if (format.holdsTurnBytes) for (const { name, reader } of runs) bytesFolders.set(name, await reader.expertsFolder());
  const folderOfEpisode = ({ episode, run }: Pick<ExportOrigin, "episode" | "run">): string =>
    bytesFolders.get(run)?.(episode.id) ?? "";
  const expertsOf: ExportContext["expertsOf"] = (sample, origin) =>
    rowBytes.experts(sample, origin.episode, folderOfEpisode(origin));
  const samplingMaskOf: ExportContext["samplingMaskOf"] = (sample, origin) =>
    rowBytes.mask(sample, origin.episode, folderOfEpisode(origin));
  const context = {
    ...(await contextOf(runs, request)),
    where: passes,
    expertsOf,
    samplingMaskOf,
    ...(teacher === null ? {} : { teacherOf: teacher.of }),
  };
  const kind = fileKinds[options.to ?? (extname(path) === ".parquet" ? "parquet" : "jsonl")];
  const title = runs.map(({ environment }) => recorded(environment, "env") ?? "episodes")[0] ?? "episodes";
  const open = (to: string): Promise<RowFile> => {
    if (typeof format.file === "function") return format.file(to, format.columns, title);
    return format.file === "json-lines" ? createJsonLinesFile(to, format.columns) : kind(to, format.columns);
  };
  const file = await openFile(path, open, options);
  let counts: ExportCounts = { rows: 0, episodes: 0, groups: 0, trainedTokens: null, leftOut: [] };
  let groupSize: number | null = null;
  let isNoted = false;
  try {
    for await (const group of readExportGroups(runs, options.format === ownSamples ? "run" : "export")) {
      if (drain?.aborted === true || signal?.aborted === true) {
        await file.abandon();
        rowBytes.abandon();
        return null;
      }
      for (const { episode } of group.episodes) await context.learnTools(group.run, episode);
      await tau2?.learn(group);
      await teacher?.learn(group);
      const unheld = format.holdsTurnBytes || isNoted ? null : turnBytesIn(group);
      if (unheld !== null) {
        isNoted = true;
        request.onNotice(`Note: rows of ${options.format} have no place for ${unheld}, which the run kept.`);
      }
      const turnRewards = options.turnRewards ?? "keep";
      const exported = exportGroup(group, format, { ...context, groupSize, turnRewards });
      if (format.wholeGroups) groupSize ??= exported.rows.length === 0 ? null : exported.rows.length;
      counts = addCounts(counts, exported);
      await file.write(exported.rows);
    }
    if (counts.rows === 0) {
      throw new NothingToExportError(
        `Cannot export: no episode is left for format "${options.format}"; nothing is written.`,
        counts,
      );
    }
    rowBytes.close();
    if (teacher !== null && teacher.missing > 0) {
      request.onNotice(
        `Note: ${teacher.missing} rows have no teacher's logprobs; score the run again for those that ended since.`,
      );
    }
    return { ...counts, bytes: await file.close(), ...rowBytes.sizes };
  } catch (error) {
    await file.abandon();
    rowBytes.abandon();
    throw error;
  } finally {
    rowBytes.closeSources();
  }
}

/** Name of the bytes that turns of the group have; `null` if they have none. */
function turnBytesIn({ episodes }: GroupToExport): string | null {
  const turns = episodes.flatMap(({ episode: { trajectory } }) => trajectory.turns);
  if (turns.some(({ routedExperts }) => (routedExperts ?? null) !== null)) return "routed experts";
  return turns.some(({ truncated }) => (truncated?.mask ?? null) !== null) ? "kept ids" : null;
}

/** The format whose rows these are; formats differ only in the types of their rows. */
const formatNamed = (name: ExportName): ExportFormat =>
  exportFormats[name === ownSamples || isTau2(name) ? "slime" : name];

const isTau2 = (name: ExportName): name is typeof tau2Results | typeof tau2Submission =>
  name === tau2Results || name === tau2Submission;

async function tau2Of(runs: readonly OpenedRun[]): Promise<Tau2Export> {
  const opened = runs.map(async ({ name, environment }) => {
    const data = environment.data ?? recorded(environment, "data");
    return { ...environment, name, data, source: await environmentOf(environment) };
  });
  return (await import("./export-tau2.ts")).openTau2Export(await Promise.all(opened));
}

type ExportRequest = {
  readonly options: ExportRunOptions;
  readonly cwd: string;
  readonly format: ExportFormat;
  readonly onNotice: (message: string) => void;
};

function addCounts(before: ExportCounts, { rows, episodes, trainedTokens, leftOut }: ExportedGroup): ExportCounts {
  const byReason = new Map(before.leftOut.map((one) => [one.reason, one]));
  for (const { reason, episodes: more, sampledTokens } of leftOut) {
    const known = byReason.get(reason) ?? { reason, episodes: 0, sampledTokens: 0 };
    const sums = { episodes: known.episodes + more, sampledTokens: known.sampledTokens + sampledTokens };
    byReason.set(reason, { reason, ...sums });
  }
  return {
    rows: before.rows + rows.length,
    episodes: before.episodes + episodes,
    groups: before.groups + (rows.length > 0 ? 1 : 0),
    trainedTokens: trainedTokens === null ? before.trainedTokens : (before.trainedTokens ?? 0) + trainedTokens,
    leftOut: [...byReason.values()],
  };
}

async function openFile(
  path: string,
  open: (path: string) => Promise<RowFile>,
  options: ExportRunOptions,
): Promise<RowFile> {
  try {
    return await open(path);
  } catch (error) {
    const folder = dirname(path);
    const reason = error instanceof Error ? error.message : String(error);
    const remedy = existsSync(folder)
      ? `${reason}; correct --output.`
      : `there is no folder "${folder}"; create it first, or name another file with --output.`;
    throw new ConfigurationError(`Cannot write "${options.output}": ${remedy}`, { cause: error });
  }
}

type OpenedRun = RunToExport & { readonly environment: RunEnvironment };
async function openRuns(
  folders: readonly string[],
  { options, cwd, onNotice }: Omit<ExportRequest, "format">,
): Promise<OpenedRun[]> {
  const names = folders.map((folder) => basename(resolve(cwd, folder)));
  const areUnique = new Set(names).size === names.length;
  const { env = null, data = null } = options;
  const given = typeof env === "object" && env !== null ? { env: env.name, parts: { env } } : { env, parts: {} };
  const opened = await Promise.all(
    folders.map(async (folder, at) => {
      const reader = openRunFolder(resolve(cwd, folder), {
        onTornLine: ({ bytes }) =>
          onNotice(
            `Note: the last line of "${folder}" was cut off (${bytes.toLocaleString("en-US")} bytes) and is left out.`,
          ),
      });
      const name = folders.length === 1 ? null : areUnique ? (names[at] ?? folder) : folder;
      const environment = { facts: runFacts(await reader.manifest()), folder, ...given, data, cwd };
      return { reader, name, environment, samplesOf: await samplesOfRun(environment) };
    }),
  );
  await refuseTwice(opened, cwd);
  return opened;
}

/** A run may be given by two paths, by a link, or as a copy: its episodes would be trained twice. */
async function refuseTwice(runs: readonly OpenedRun[], cwd: string): Promise<void> {
  const known = new Map<string, string>();
  for (const { folder, facts } of runs.map(({ environment }) => environment)) {
    const keys = [await realpath(resolve(cwd, folder)), ...(facts.id === null ? [] : [facts.id])];
    const twin = keys.map((key) => known.get(key)).find((other) => other !== undefined);
    if (twin !== undefined) {
      throw new ConfigurationError(
        `Cannot export "${twin}" and "${folder}" together: they are the same run, whose tokens would be trained twice; name it once.`,
      );
    }
    for (const key of keys) known.set(key, folder);
  }
}

/** Data besides episodes that formats need, collected for each run. */
async function contextOf(
  runs: readonly OpenedRun[],
  request: ExportRequest,
): Promise<ExportContext & { readonly learnTools: (run: string | null, episode: Episode) => Promise<void> }> {
  const { format, onNotice } = request;
  const kwargs = new Map(
    runs.map(({ name, environment: { facts } }) => [
      name,
      templateKwargsOf({ templateKwargs: facts.model?.templateKwargs ?? new Map() }),
    ]),
  );
  const decoders = new Map<string | null, (tokens: Uint32Array) => string>();
  const tools = new Map<string | null, RunTools>();
  for (const { name, environment } of runs) {
    if (format.needsText) decoders.set(name, await decoderOf(environment, request));
    // Sessions of a gateway record their own tools.
    if (!format.needsTools || (environment.env ?? recorded(environment, "env")) === null) continue;
    const onUnknown = (reason: string): void =>
      onNotice(`Note: the tools of "${environment.folder}" are not known, so "tools" is null: ${reason}`);
    tools.set(name, await toolsOfRun(environment, onUnknown));
  }
  return {
    decode: (tokens, { run }) => decoders.get(run)?.(tokens) ?? "",
    toolsOf: (origin) => shownTools(origin.episode) ?? tools.get(origin.run)?.of(origin.episode) ?? null,
    templateKwargsOf: (run) => kwargs.get(run) ?? null,
    learnTools: async (run, episode) => tools.get(run)?.learn(episode),
  };
}

/** The tools of an outside program, as JSON text; `null` if the episode is not one of a program. */
export function shownTools(episode: Pick<Episode, "events">): string | null {
  const tools = toolsOfSession(episode);
  return tools === null ? null : dumpJson(tools);
}

async function decoderOf(
  run: RunEnvironment,
  { options, cwd }: ExportRequest,
): Promise<(tokens: Uint32Array) => string> {
  const folder = options.model ?? run.facts.model?.folder ?? null;
  const tokenizer = await tokenizerOf(folder, cwd, resolve(cwd, run.folder));
  if (tokenizer !== null) return (tokens) => tokenizer.decode(tokens);
  throw new ConfigurationError(
    `Cannot export "${run.folder}" to ${options.format}: its rows hold text, and the tokenizer in "${folder}" no longer exists; name its folder with --model.`,
  );
}

// Data that a run folder does not hold but its environment knows: the tools that an episode's
// template showed, and who caused a failure. Code that a run folder names is never run; a module of
// the user must be given.

type RunEnvironment = {
  readonly facts: RunFacts;
  readonly folder: string;
  /** The given name; `null` to use the name that the run recorded. */
  readonly env: string | null;
  readonly data: string | null;
  readonly parts: GivenParts;
  readonly cwd: string;
};

/**
 * The tools of an episode as JSON, after `learn`; `null` if unknown, or not shown by the chat
 * template.
 */
type RunTools = { of(episode: Episode): string | null; learn(episode: Episode): Promise<void> };

const unknownTools: RunTools = { of: () => null, learn: async () => undefined };

/** `onUnknown` receives the reason if tools are unknown. */
async function toolsOfRun(run: RunEnvironment, onUnknown: (reason: string) => void): Promise<RunTools> {
  // Other strategies describe tools in the first message.
  if ((recorded(run, "strategy") ?? "tool-calling") !== "tool-calling") return unknownTools;
  let source: EnvironmentSource;
  try {
    source = await environmentOf(run);
  } catch (error) {
    if (!(error instanceof ConfigurationError) || run.env !== null || run.data !== null) throw error;
    onUnknown(error.message);
    return unknownTools;
  }
  const texts = new WeakMap<readonly Tool[], string>();
  const byTask = new Map<string, string>();
  return {
    of: ({ task }) => byTask.get(task.id) ?? null,
    async learn({ task }) {
      if (byTask.has(task.id)) return;
      const tools = await useEnvironment(source, task, (world) => world.tools);
      const text = texts.get(tools) ?? dumpJson(tools.map(({ definition }) => definition));
      texts.set(tools, text);
      byTask.set(task.id, text);
    },
  };
}

/**
 * Samples of an episode that the run trained on, with its fault policy applied. Throws a
 * `ConfigurationError` when they cannot be determined.
 */
async function samplesOfRun(run: RunEnvironment): Promise<(episode: Episode) => Promise<EpisodeSamples>> {
  const policy = faultPolicies.find((one) => one === recorded(run, "faultPolicy")) ?? "keep";
  if (policy === "keep") return async (episode) => episodeSamples(episode);
  const data = run.data ?? recorded(run, "data");
  const environment = await environmentOf(run);
  const train = faultPolicyOf({ policy, environment, data: data === null ? null : resolve(run.cwd, data) });
  return async (episode) => train(episode, episodeSamples(episode));
}

async function environmentOf(run: RunEnvironment): Promise<EnvironmentSource> {
  const env = run.env ?? recorded(run, "env");
  if (env === null || (run.env === null && !environmentNames.includes(env))) {
    throw new ConfigurationError(
      `Cannot open the environment "${env}" of run "${run.folder}": it is a module, and code that a run folder names is not run; name it with --env.`,
    );
  }
  const { source } = await loadEnvironment(env, {
    settings: { data: run.data ?? recorded(run, "data") },
    split: recorded(run, "split"),
    cwd: run.cwd,
    parts: run.parts,
  });
  return source;
}

/** A setting of the run, by its key in run.json. */
function recorded({ facts }: RunEnvironment, name: SettingName): string | null {
  const value = facts.configuration?.get(keyOf(name));
  return typeof value === "string" ? value : null;
}
