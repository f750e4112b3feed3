// Where the viewer's episodes come from, as a contract, and the first kind: a run folder, whose episodes are found by number without
// reading them. Another process may be writing the folder, may be killed, or may resume the run.

import { existsSync } from "node:fs";
import { open, readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { isRunInUse, openRunFolder, runFiles } from "../store/index.ts";
import { toPlain } from "../python-semantics/json/plain.ts";
import type { PlainJson, PlainObject, RunFacts } from "./wire/index.ts";

/** What is known of a run, before it has a place among those that are shown. */
export type StoreFacts = Omit<RunFacts, "index">;

export interface EpisodeStore {
  /** As of the last refresh. */
  readonly facts: StoreFacts;
  /** Episodes that are there, as of the last refresh. */
  readonly count: number;
  /** Looks for what is new. False: what was read before is not valid any more. */
  refresh(): Promise<boolean>;
  /** Lines of episodes.jsonl, `[from, to)` counted from 0. */
  lines(from: number, to: number): Promise<readonly Buffer[]>;
  /** The model's tokenizer was loaded from here; `null`: the one that is built in, or none. */
  readonly modelFolder: string | null;
}

/** Read at once. */
const blockBytes = 1 << 22;

/** Rejects with a `ConfigurationError` when the folder holds no run that can be read. */
export async function openFolderStore(folder: string, hasTraining: boolean): Promise<EpisodeStore> {
  const store = new FolderStore(folder, hasTraining);
  await store.refresh();
  return store;
}

class FolderStore implements EpisodeStore {
  readonly #folder: string;
  readonly #file: string;
  readonly #hasTraining: boolean;
  /** Where each line begins; the last entry is where the next one will. */
  #starts: number[] = [0];
  #inode = 0;
  #facts: StoreFacts | null = null;
  #model: string | null = null;

  constructor(folder: string, hasTraining: boolean) {
    this.#folder = folder;
    this.#file = join(folder, runFiles.episodes);
    this.#hasTraining = hasTraining;
  }

  get facts(): StoreFacts {
    return this.#facts!;
  }

  get count(): number {
    return this.#starts.length - 1;
  }

  get modelFolder(): string | null {
    return this.#model;
  }

  async refresh(): Promise<boolean> {
    await this.#readManifest();
    const { size, ino } = await stat(this.#file);
    // A resumed run is cut behind its last whole line, so that a file never loses one; a shorter file is another one.
    const isSame = (this.#inode === 0 || this.#inode === ino) && size >= this.#starts.at(-1)!;
    if (!isSame) this.#starts = [0];
    this.#inode = ino;
    await this.#findLines(size);
    return isSame;
  }

  async lines(from: number, to: number): Promise<readonly Buffer[]> {
    const starts = this.#starts;
    const last = Math.min(to, this.count);
    if (from >= last) return [];
    const begin = starts[from]!;
    const bytes = Buffer.alloc(starts[last]! - begin);
    const handle = await open(this.#file, "r");
    try {
      await handle.read(bytes, 0, bytes.length, begin);
    } finally {
      await handle.close();
    }
    const lines: Buffer[] = [];
    for (let at = from; at < last; at++) lines.push(bytes.subarray(starts[at]! - begin, starts[at + 1]! - begin - 1));
    return lines;
  }

  /** Line feeds from the last whole line on. What follows the last one is still being written, or was when its process died. */
  async #findLines(size: number): Promise<void> {
    let position = this.#starts.at(-1)!;
    if (position >= size) return;
    const handle = await open(this.#file, "r");
    try {
      const block = Buffer.allocUnsafe(Math.min(blockBytes, size - position));
      while (position < size) {
        const { bytesRead } = await handle.read(block, 0, Math.min(block.length, size - position), position);
        if (bytesRead === 0) break;
        const read = block.subarray(0, bytesRead);
        for (let end = read.indexOf(10); end !== -1; end = read.indexOf(10, end + 1))
          this.#starts.push(position + end + 1);
        position += bytesRead;
      }
    } finally {
      await handle.close();
    }
  }

  async #readManifest(): Promise<void> {
    const manifest = toPlain(await openRunFolder(this.#folder).manifest()) as PlainObject;
    const says = textOf(manifest["status"]) ?? "unknown";
    const isWritten = says === "running" && (await isRunInUse(this.#folder));
    const part = (key: string): PlainObject | null => objectOf(manifest[key]);
    const { environment, model, engine, agent, configuration } = {
      ...{ environment: part("environment"), model: part("model"), engine: part("engine"), agent: part("agent") },
      configuration: part("configuration"),
    };
    this.#model = textOf(model?.["folder"]);
    this.#facts = {
      ...{ name: basename(this.#folder), location: this.#folder, kind: "run" },
      status: says === "running" && !isWritten ? "killed" : says,
      isLive: isWritten,
      startedAt: textOf(manifest["startedAt"]),
      environment: textOf(environment?.["name"]),
      split: textOf(environment?.["split"]),
      model: textOf(model?.["tokenizer"]) ?? textOf(agent?.["name"]),
      engine: textOf(engine?.["name"]),
      historyPolicy: textOf(model?.["historyPolicy"]),
      planned: plannedOf(environment, configuration),
      ...{ hasEpisodes: true, hasTraining: this.#hasTraining, missing: [] },
    };
  }
}

/** Tasks times episodes of each, where a run has a plan. */
function plannedOf(environment: PlainObject | null, configuration: PlainObject | null): number | null {
  const [tasks, size] = [environment?.["tasks"], configuration?.["group-size"]];
  const hasPlan = configuration?.["groups"] === null && typeof tasks === "number" && typeof size === "number";
  return hasPlan ? tasks * size : null;
}

/** A folder of `train --out`; see `training.ts`. */
export function isTrainingFolder(folder: string): boolean {
  return existsSync(join(folder, "train.json"));
}

/** A JSON object of a file; throws what reading or parsing throws. */
export async function readJsonFile(file: string): Promise<PlainObject | null> {
  return objectOf(JSON.parse(await readFile(file, "utf8")) as PlainJson);
}

export function objectOf(value: PlainJson | undefined): PlainObject | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as PlainObject) : null;
}

export function textOf(value: PlainJson | undefined): string | null {
  return typeof value === "string" ? value : null;
}
