// A run as a folder: `run.json` (what the run is), `episodes.jsonl` (one episode a line, in the order they ended),
// `groups.jsonl` (one decided group a line) and `samples.jsonl` (one training row a line). The line files only grow;
// `run.json` is replaced whole at the end.

import { type FileHandle, mkdir, open, readdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError, type Episode } from "../core/index.ts";
import { dumpJson } from "../lib/json/dump-json.ts";
import type { JsonObject } from "../lib/json/value.ts";
import { BatchQueue } from "./batch-queue.ts";
import { episodeLine } from "./episode-to-json.ts";
import { groupLine } from "./group-json.ts";
import type { DecidedGroup, RunStore } from "./run-store.ts";
import { closedStore, storeFault, unbegunStore } from "./store-fault.ts";

export const runFiles = Object.freeze({
  manifest: "run.json",
  episodes: "episodes.jsonl",
  groups: "groups.jsonl",
  samples: "samples.jsonl",
});

export type FileRunStoreOptions = {
  /** Takes secrets out of every text that is written. Default: nothing is taken out. */
  readonly redact?: (text: string) => string;
};

/** A run folder to be made; nothing is touched before `begin`, which refuses a folder that exists and is not empty. */
export function createFileRunStore(folder: string, options: FileRunStoreOptions = {}): RunStore {
  return new FileRunStore(folder, options.redact ?? ((text) => text));
}

type LineFile = Exclude<keyof typeof runFiles, "manifest">;
type Line = { readonly file: LineFile; readonly text: string };

/** The rows of a group are there before the group, and its episodes before both. */
const writingOrder: readonly LineFile[] = ["episodes", "samples", "groups"];

class FileRunStore implements RunStore {
  readonly location: string;
  readonly #redact: (text: string) => string;
  #files: ReadonlyMap<LineFile, FileHandle> | null = null;
  #closing: Promise<void> | null = null;
  readonly #queue = new BatchQueue<readonly Line[]>(async (batch) => {
    const lines = batch.flat();
    for (const file of writingOrder) {
      const text = lines.flatMap((line) => (line.file === file ? [`${line.text}\n`] : [])).join("");
      if (text !== "") await this.#files?.get(file)?.appendFile(text);
    }
  });

  constructor(folder: string, redact: (text: string) => string) {
    this.location = folder;
    this.#redact = redact;
  }

  async begin(manifest: JsonObject): Promise<void> {
    await this.#takePlace();
    await this.#guard("begin a run", async () => {
      await writeFile(this.#path("manifest"), this.#manifestText(manifest), { flag: "wx" });
      const files = new Map<LineFile, FileHandle>();
      for (const file of writingOrder) files.set(file, await open(this.#path(file), "ax"));
      this.#files = files;
    });
  }

  append(episode: Episode): Promise<void> {
    return this.#keep(`keep episode "${episode.id}"`, () => [{ file: "episodes", text: episodeLine(episode) }]);
  }

  appendGroup(decided: DecidedGroup): Promise<void> {
    return this.#keep(`keep group "${decided.group.groupId}"`, () => [
      ...decided.sampleLines.map((text) => ({ file: "samples", text }) as const),
      { file: "groups", text: groupLine(decided) },
    ]);
  }

  async #keep(task: string, lines: () => readonly Line[]): Promise<void> {
    if (this.#files === null) throw unbegunStore(this.location);
    if (this.#closing !== null) throw closedStore(this.location);
    await this.#guard(task, () =>
      this.#queue.add(lines().map(({ file, text }) => ({ file, text: this.#redact(text) }))),
    );
  }

  async close(manifest: JsonObject): Promise<void> {
    if (this.#files === null) throw unbegunStore(this.location);
    this.#closing ??= this.#guard("close the run", () => this.#close(manifest));
    await this.#closing;
  }

  async #close(manifest: JsonObject): Promise<void> {
    await this.#queue.idle();
    for (const file of this.#files?.values() ?? []) {
      await file.datasync();
      await file.close();
    }
    // Written beside and renamed, so that a reader never finds half a manifest.
    const draft = `${this.#path("manifest")}.new`;
    await writeFile(draft, this.#manifestText(manifest));
    await rename(draft, this.#path("manifest"));
  }

  async #takePlace(): Promise<void> {
    let taken: readonly string[];
    try {
      await mkdir(this.location, { recursive: true });
      taken = await readdir(this.location);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ConfigurationError(
        `Cannot make the run folder "${this.location}": ${reason}; name another with --out.`,
        {
          cause: error,
        },
      );
    }
    if (taken.length > 0) {
      throw new ConfigurationError(
        `Cannot start a run in "${this.location}": the folder exists and is not empty (it holds "${taken[0]}"); ` +
          "name another folder with --out, or empty it.",
      );
    }
  }

  async #guard(task: string, action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      throw storeFault(task, this.location, error);
    }
  }

  #manifestText(manifest: JsonObject): string {
    return this.#redact(`${dumpJson(manifest, { indent: 2 })}\n`);
  }

  #path(file: keyof typeof runFiles): string {
    return join(this.location, runFiles[file]);
  }
}
