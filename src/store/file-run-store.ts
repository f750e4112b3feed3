// A run as a folder: `run.json` (what the run is), `episodes.jsonl` (one episode a line, in the order they ended) and
// `samples.jsonl` (one training row a line). The two line files only grow; `run.json` is replaced whole at the end.

import { type FileHandle, mkdir, open, readdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { dumpJson } from "../lib/json/dump-json.ts";
import type { JsonObject } from "../lib/json/value.ts";
import { BatchQueue } from "./batch-queue.ts";
import { episodeLine } from "./episode-to-json.ts";
import type { EpisodeRecord, RunStore } from "./run-store.ts";
import { closedStore, storeFault, unbegunStore } from "./store-fault.ts";

export const runFiles = Object.freeze({
  manifest: "run.json",
  episodes: "episodes.jsonl",
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

type Lines = { readonly episode: string; readonly samples: readonly string[] };

class FileRunStore implements RunStore {
  readonly location: string;
  readonly #redact: (text: string) => string;
  #files: { readonly episodes: FileHandle; readonly samples: FileHandle } | null = null;
  #closing: Promise<void> | null = null;
  readonly #queue = new BatchQueue<Lines>(async (batch) => {
    const samples = batch.flatMap((lines) => lines.samples);
    if (samples.length > 0) await this.#files?.samples.appendFile(`${samples.join("\n")}\n`);
    await this.#files?.episodes.appendFile(`${batch.map((lines) => lines.episode).join("\n")}\n`);
  });

  constructor(folder: string, redact: (text: string) => string) {
    this.location = folder;
    this.#redact = redact;
  }

  async begin(manifest: JsonObject): Promise<void> {
    await this.#takePlace();
    await this.#guard("begin a run", async () => {
      await writeFile(this.#path("manifest"), this.#manifestText(manifest), { flag: "wx" });
      const episodes = await open(this.#path("episodes"), "ax");
      this.#files = { episodes, samples: await open(this.#path("samples"), "ax") };
    });
  }

  async append(record: EpisodeRecord): Promise<void> {
    if (this.#files === null) throw unbegunStore(this.location);
    if (this.#closing !== null) throw closedStore(this.location);
    await this.#guard(`keep episode "${record.episode.id}"`, () =>
      this.#queue.add({
        episode: this.#redact(episodeLine(record.episode)),
        samples: record.sampleLines.map(this.#redact),
      }),
    );
  }

  async close(manifest: JsonObject): Promise<void> {
    if (this.#files === null) throw unbegunStore(this.location);
    this.#closing ??= this.#guard("close the run", () => this.#close(manifest));
    await this.#closing;
  }

  async #close(manifest: JsonObject): Promise<void> {
    await this.#queue.idle();
    for (const file of [this.#files?.samples, this.#files?.episodes]) {
      await file?.datasync();
      await file?.close();
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
