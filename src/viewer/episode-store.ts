// The source of the viewer's episodes, as a contract, and its first implementation: a run folder
// through the one reader of runs. Another process may be writing the folder, may be killed, or may
// resume the run.

import { existsSync } from "node:fs";

import { basename, join } from "node:path";
import { toPlain } from "../python-semantics/json/plain.ts";
import {
  EpisodeFiles,
  type EpisodeSummary,
  isRunInUse,
  openRunFolder,
  type RunFolder,
  type RunPosition,
} from "../store/index.ts";
import { phrasesOf } from "./summary.ts";
import type { Hit, PlainJson, PlainObject, Row, RunFacts } from "./wire/index.ts";
import { readRegular } from "../system/regular-file.ts";

/** Facts about a run, before it has a place among the runs that are shown. */
export type StoreFacts = Omit<RunFacts, "key" | "readOnly">;

export interface EpisodeStore {
  /** Facts about the run, as of the last refresh. */
  readonly facts: StoreFacts;
  /** Number of episodes, as of the last refresh. */
  readonly count: number;
  /** Looks for new episodes. Resolves with false if everything read before is invalid. */
  refresh(): Promise<boolean>;
  /** Rows `[from, to)`, counted from 0. */
  rows(from: number, to: number): Promise<readonly Row[]>;
  /**
   * A line of episodes.jsonl. Rejects with a `ConfigurationError` if it differs from what was
   * written.
   */
  line(place: number): Promise<Buffer>;
  /** Places of the episodes that an expression of `export --where` keeps. Throws a `WhereError`. */
  filter(where: string): AsyncIterable<number>;
  /** Searches messages, calls and results; yields at most one hit per episode. */
  search(text: string): AsyncIterable<Hit>;
  close(): Promise<void>;
  /** Folder that the model's tokenizer was loaded from; `null` for the built-in one. */
  readonly modelFolder: string | null;
  /** False if the tokenizer that made the ids is unknown. */
  readonly hasTokenizer: boolean;
}

/** Rejects with a `ConfigurationError` if the folder holds no readable run. */
export async function openFolderStore(folder: string): Promise<EpisodeStore> {
  const store = new FolderStore(folder);
  await store.refresh();
  return store;
}

class FolderStore implements EpisodeStore {
  readonly hasTokenizer = true;
  readonly #folder: string;
  readonly #reader: RunFolder;
  #files: EpisodeFiles;
  /** Places of the rows that were read, so that their lines are found without the index. */
  #places: Pick<EpisodeSummary, "id" | "place">[] = [];
  #position: RunPosition | null = null;
  #count = 0;
  #facts: StoreFacts | null = null;
  #model: string | null = null;

  constructor(folder: string) {
    this.#folder = folder;
    this.#reader = openRunFolder(folder);
    this.#files = new EpisodeFiles(folder);
  }

  get facts(): StoreFacts {
    return this.#facts!;
  }

  get count(): number {
    return this.#count;
  }

  get modelFolder(): string | null {
    return this.#model;
  }

  async refresh(): Promise<boolean> {
    await this.#readManifest();
    const isSame = this.#position === null || !(await this.#reader.changesSince(this.#position, { count: 1 })).isReset;
    const { total, position } = await this.#reader.page({ count: 1 });
    this.#position = position;
    this.#count = total;
    if (!isSame) {
      await this.#files.close();
      this.#files = new EpisodeFiles(this.#folder);
      this.#places = [];
    }
    return isSame;
  }

  async rows(from: number, to: number): Promise<readonly Row[]> {
    const last = Math.min(to, this.#count);
    if (from >= last) return [];
    const { rows } = await this.#reader.page({ count: last - from, before: last + 1 });
    for (const { number, id, place } of rows) this.#places[number - 1] = { id, place };
    return rows.map(rowOf).reverse();
  }

  async line(place: number): Promise<Buffer> {
    const summary = this.#places[place] ?? (await this.#reader.summary(place + 1));
    if (summary === null) throw new Error(`There is no episode ${place + 1} any more.`);
    return this.#files.line(summary.id, summary.place);
  }

  async *filter(where: string): AsyncGenerator<number> {
    for await (const { number } of this.#reader.filter(where)) yield number - 1;
  }

  async *search(text: string): AsyncGenerator<Hit> {
    let latest = 0;
    for await (const { number, id, role, before, after } of this.#reader.search(text)) {
      // Skipped, because guidelines and tools are in every episode.
      if (role === "system" || number === latest) continue;
      latest = number;
      const reward = (await this.#reader.summary(number))?.reward ?? null;
      yield { number, id, reward, before, match: text, after };
    }
  }

  close(): Promise<void> {
    return this.#files.close();
  }

  async #readManifest(): Promise<void> {
    const manifest = toPlain(await this.#reader.manifest()) as PlainObject;
    const says = textOf(manifest["status"]) ?? "unknown";
    const isWritten = says === "running" && (await isRunInUse(this.#folder));
    const part = (key: string): PlainObject | null => objectOf(manifest[key]);
    const [environment, model, configuration] = [part("environment"), part("model"), part("configuration")];
    this.#model = textOf(model?.["folder"]);
    this.#facts = {
      name: basename(this.#folder),
      location: this.#folder,
      kind: "run",
      status: says === "running" && !isWritten ? "killed" : says,
      isLive: isWritten,
      startedAt: textOf(manifest["startedAt"]),
      environment: textOf(environment?.["name"]),
      split: textOf(environment?.["split"]),
      model: textOf(model?.["tokenizer"]) ?? textOf(part("agent")?.["name"]),
      engine: textOf(part("engine")?.["name"]),
      historyPolicy: textOf(model?.["historyPolicy"]),
      planned: plannedOf(environment, configuration),
      calls: callsOf(part("engine"), part("agent"), configuration),
      hasEpisodes: true,
      hasTraining: false,
      missing: [],
    };
  }
}

function rowOf(summary: EpisodeSummary): Row {
  const { number, id, groupId, sampleIndex, task, outcome, stopReason, failure, reward, turns, decisions } = summary;
  const hasTokens = summary.historyPolicy !== "no-tokens";
  return {
    number,
    id,
    groupId,
    taskId: task.id,
    taskIndex: task.index,
    domain: `${task.environment} (${task.split})`,
    contentHash: task.contentHash,
    sampleIndex,
    outcome,
    stopReason,
    reward,
    failure: failure === null ? null : `${failure.boundary}/${failure.code}`,
    turns: hasTokens ? turns : decisions,
    tokens: hasTokens ? summary.observedTokens + summary.sampledTokens : null,
    sampledTokens: hasTokens ? summary.sampledTokens : null,
    formatErrors: summary.problems,
    sentence: summary.gradeNote ?? "",
    phrases: phrasesOf(summary.gradeNote ?? ""),
    durationMs: summary.durationMs,
    fault: null,
    extract: null,
  };
}

/** Settings of sampling, with their names in requests of the engines. */
const samplingKeys = ["temperature", "top-p", "top-k", "min-p", "repetition-penalty", "max-new-tokens"];

function callsOf(
  engine: PlainObject | null,
  agent: PlainObject | null,
  configuration: PlainObject | null,
): StoreFacts["calls"] {
  const address = textOf(agent?.["address"]) ?? textOf(engine?.["address"]);
  if (address === null) return null;
  const sampling = samplingKeys.flatMap((key) => {
    const value = configuration?.[key];
    return typeof value === "number" ? [[key.replaceAll("-", "_"), value] as const] : [];
  });
  return { engine: agent === null ? textOf(engine?.["name"]) : null, address, sampling: Object.fromEntries(sampling) };
}

/** Number of tasks times episodes per task, if the run has a plan. */
function plannedOf(environment: PlainObject | null, configuration: PlainObject | null): number | null {
  const [tasks, size] = [environment?.["tasks"], configuration?.["group-size"]];
  const hasPlan = configuration?.["groups"] === null && typeof tasks === "number" && typeof size === "number";
  return hasPlan ? tasks * size : null;
}

/** True for a folder of `train --out`; see `training.ts`. */
export function isTrainingFolder(folder: string): boolean {
  return existsSync(join(folder, "train.json"));
}

/** Reads a JSON object from a file; throws the errors of reading and parsing. */
export async function readJsonFile(file: string): Promise<PlainObject | null> {
  return objectOf(JSON.parse(await readRegular(file, "utf8")) as PlainJson);
}

export function objectOf(value: PlainJson | undefined): PlainObject | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as PlainObject) : null;
}

export function textOf(value: PlainJson | undefined): string | null {
  return typeof value === "string" ? value : null;
}
