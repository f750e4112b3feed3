// view(): shows runs in a browser. Opens the named sources and serves the page, or writes it into
// one file.

import { existsSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { randomBytes } from "node:crypto";
import { ConfigurationError } from "../core/index.ts";
import { openForeignFile } from "../foreign/index.ts";
import { isLoopback } from "../lib/address.ts";
import { failedStartMs, Opened } from "../lib/opened.ts";
import {
  type EpisodeStore,
  type ExportChoice,
  exportPage,
  Home,
  isRunFolder,
  isTrainingFolder,
  openFolderStore,
  openForeignStore,
  openTrainingStore,
  readTrainerLogprobs,
  RunView,
  type RunViewOptions,
  serveViewer,
  type ViewerParts,
} from "../viewer/index.ts";
import type { tokenizerOf } from "./choose-model.ts";
import type { CallOptions } from "./options.ts";
import { listenSettings, readListen } from "./listen.ts";
import { flag, readFlags, section, type SettingValues } from "../parts/setting.ts";
import { SpecialFileError } from "../system/regular-file.ts";
import { announceViewer } from "../system/running-viewers.ts";

export const viewSettings = {
  ...listenSettings(
    "The viewer",
    8970,
    "address to serve the page on; beyond this machine, the printed address includes a token",
  ),
  ...section("The viewer", {
    readOnly: flag.help("keep no marks of people: the page only shows"),
  }),
};

/** Options of {@link view}: the flags of the command `view` in camelCase. */
export type ViewOptions = Partial<SettingValues<typeof viewSettings>> &
  Pick<CallOptions, "cwd" | "variables"> & {
    /**
     * Run folders, folders of trainings, files of other tools. Several runs are compared. One folder
     * of another kind is listed: every run below it can be opened.
     * @default the current folder
     */
    readonly sources?: readonly string[];
    /**
     * A trainer's file of logprobs for the run's rows, shown over the sampled ones.
     * @default none
     */
    readonly logprobs?: string;
  };

export type RunningViewer = {
  /** The address, including the token if there is one. */
  readonly url: string;
  close(): Promise<void>;
};

/** The public function of this name: `functions.ts`. */
export async function view(options: ViewOptions): Promise<RunningViewer> {
  const { cwd = process.cwd() } = options;
  const { host, port } = readListen(viewSettings, options);
  const { readOnly: isReadOnly } = readFlags({ readOnly: viewSettings.readOnly }, options);
  const opened = new Opened();
  try {
    const parts = await openParts({ ...options, isReadOnly }, cwd, opened);
    const token = isLoopback(host) ? null : randomBytes(16).toString("hex");
    const listener = await serveViewer(parts, { host, port, token, isReadOnly });
    opened.add(() => listener.close());
    const url = token === null ? `${listener.url}/` : `${listener.url}/?token=${token}`;
    const locations = parts.runs.map(({ facts }) => facts.location);
    const home = parts.home?.folder ?? null;
    opened.add(await announceViewer({ url, locations, home }, options.variables ?? process.env));
    return { url, close: () => opened.close() };
  } catch (error) {
    await opened.abandon(failedStartMs);
    throw error;
  }
}

/** Options of {@link exportView}. */
export type ExportViewOptions = Pick<ViewOptions, "cwd" | "logprobs"> &
  Required<Pick<ViewOptions, "sources">> &
  ExportChoice & {
    /**
     * Path of the file to write: a page, or, where it ends in ".json", the marks of a run as labels
     * of `eval --labels`.
     */
    readonly file: string;
  };

/** The public function of this name: `functions.ts`. */
export async function exportView({
  cwd = process.cwd(),
  sources,
  logprobs,
  file,
  ...choice
}: ExportViewOptions): Promise<number> {
  const opened = new Opened();
  try {
    const parts = await openParts({ sources, ...(logprobs === undefined ? {} : { logprobs }) }, cwd, opened);
    if (parts.home !== null) {
      throw new ConfigurationError(
        `Cannot export "${parts.home.folder}": it is not a run, but may have runs below it; name one of them.`,
      );
    }
    const text = file.endsWith(".json") ? await exportLabels(parts, choice) : await exportPage(parts, choice);
    await writeFile(resolve(cwd, file), text);
    return Buffer.byteLength(text);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined || error instanceof SpecialFileError) throw error;
    throw new ConfigurationError(`Cannot write "${file}": ${code}; name another file.`, { cause: error });
  } finally {
    await opened.close();
  }
}

/** The marks of a run as `eval --labels` reads them. */
async function exportLabels({ runs: [run, ...others] }: ViewerParts, choice: ExportChoice): Promise<string> {
  if (run === undefined || others.length > 0 || !run.facts.hasEpisodes || Object.keys(choice).length > 0) {
    throw new ConfigurationError(
      "Cannot export labels: they are all marks of one run; name one run, without --episode and --where. A page has the ending .html.",
    );
  }
  return `${JSON.stringify(await run.labels(), null, 2)}\n`;
}

/** `opened` receives the runs. */
async function openParts(
  {
    sources = ["."],
    logprobs,
    isReadOnly = false,
  }: Pick<ViewOptions, "sources" | "logprobs"> & { isReadOnly?: boolean },
  cwd: string,
  opened: Opened,
): Promise<ViewerParts> {
  if (sources.length === 0) {
    throw new ConfigurationError(
      "Cannot view a run: the list of sources is empty; name a run folder, or leave the list out to see the runs below the current folder.",
    );
  }
  const tokenizerOf = tokenizers(cwd);
  const attribute: RunViewOptions["attribute"] = async (line, folder) =>
    (await import("./view-faults.ts")).attributeStored(line, { folder, cwd });
  const [only] = sources;
  if (only !== undefined && sources.length === 1 && (await isListed(only, cwd))) {
    if (logprobs !== undefined) {
      throw new ConfigurationError(
        `Cannot use --logprobs with "${only}": a trainer's logprobs are laid over one run, and this folder is not one; name the run.`,
      );
    }
    const home = new Home(resolve(cwd, only), (path) => openStore(path, cwd), { attribute, isReadOnly });
    opened.add(() => home.close());
    await home.refresh();
    return { runs: [], home, tokenizerOf };
  }
  const trainer = logprobs === undefined ? null : await readOverlay(logprobs, sources, cwd);
  const runs: RunView[] = [];
  for (const source of sources) {
    const run = new RunView(await openStore(source, cwd), String(runs.length), { trainer, attribute, isReadOnly });
    opened.add(() => run.close());
    runs.push(run);
  }
  if (trainer !== null && !runs[0]!.facts.hasEpisodes) {
    throw new ConfigurationError(
      `Cannot use --logprobs with "${sources[0]}": a training stores no episodes; name a run folder.`,
    );
  }
  return { runs, home: null, tokenizerOf };
}

/** Loads each tokenizer once. */
function tokenizers(cwd: string): ViewerParts["tokenizerOf"] {
  const loaded = new Map<string, ReturnType<typeof tokenizerOf>>();
  return (folder, run) => {
    const key = JSON.stringify([folder, run]);
    const known = loaded.get(key) ?? import("./choose-model.ts").then((models) => models.tokenizerOf(folder, cwd, run));
    loaded.set(key, known);
    return known;
  };
}

/** True for a folder that is neither a run nor a training nor a log: the runs below it are listed. */
async function isListed(source: string, cwd: string): Promise<boolean> {
  const path = resolve(cwd, source);
  if (!existsSync(path) || !statSync(path).isDirectory() || isTrainingFolder(path)) return false;
  if (isRunFolder(path)) return false;
  return (await openForeignFile(path, source).catch(() => null)) === null;
}

async function readOverlay(
  logprobs: string,
  sources: readonly string[],
  cwd: string,
): ReturnType<typeof readTrainerLogprobs> {
  if (sources.length > 1) {
    throw new ConfigurationError(
      "Cannot use --logprobs with several runs: a trainer's logprobs are laid over one; name only that one.",
    );
  }
  const path = resolve(cwd, logprobs);
  if (!existsSync(path) || !statSync(path).isFile()) {
    throw new ConfigurationError(
      `Cannot read the logprobs of "${logprobs}": there is no such file; name the one that the trainer wrote.`,
    );
  }
  return readTrainerLogprobs(path, logprobs);
}

async function openStore(source: string, cwd: string): Promise<EpisodeStore> {
  if (/^https?:\/\//.test(source)) {
    throw new ConfigurationError(
      `Cannot view "${source}": a service answers requests and lists no episodes; name the folder that it writes, its --out, which is followed while it runs.`,
    );
  }
  const path = resolve(cwd, source);
  if (!existsSync(path)) {
    throw new ConfigurationError(
      `Cannot view "${source}": there is no such folder or file; name that of a run, a training, or results of another tool.`,
    );
  }
  const isFolder = statSync(path).isDirectory();
  if (isFolder && isTrainingFolder(path)) return openTrainingStore(path);
  if (isFolder && isRunFolder(path)) return openFolderStore(path);
  const file = await openForeignFile(path, source);
  if (file !== null) return openForeignStore(path, file);
  if (isFolder) return openFolderStore(path);
  throw new ConfigurationError(
    `Cannot view "${source}": it is not a file of slime, verifiers, inspect, ATIF, τ-bench or τ²-bench.`,
  );
}
