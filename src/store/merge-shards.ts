// Converts a run with shards to a run of one process: a new folder in today's layout, with the
// lines in the order of the index, byte for byte as the workers wrote them. Only lines of turns
// that name experts are written again, since the experts' bytes move. The old run is not changed;
// the new folder appears whole or not at all.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { copyFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { makeFolder } from "../system/make-folder.ts";
import {
  ConfigurationError,
  type Episode,
  type RoutedExperts,
  type SamplingMaskPlace,
  type Turn,
} from "../core/index.ts";
import { unchanged } from "../lib/text.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { ByteWriter } from "./byte-writer.ts";
import { EpisodeFiles } from "./episode-files.ts";
import { type EpisodePlace, writeSummary } from "./episode-index.ts";
import { AppendFile, endLine, readCheckedLines } from "./lines.ts";
import { episodeFromJson, groupFromJson, parseRecord, writeEpisode } from "./records.ts";
import {
  createRoutedExpertsFile,
  createSamplingMasksFile,
  openRoutedExperts,
  openSamplingMasks,
  type TurnBytesFile,
  type TurnBytesReader,
} from "./routed-experts.ts";
import { hasShards, openRunFolder } from "./run-folder.ts";
import { lockRun, type RunLock } from "./run-lock.ts";
import { runFiles } from "./run-store.ts";

/** Counts of a merged run. */
export type MergedRun = {
  readonly episodes: number;
  readonly groups: number;
  /** Size of `episodes.jsonl`. */
  readonly bytes: number;
  /** Shards with at least one episode that counts. */
  readonly shards: number;
};

const writtenAtOnce = 4 << 20;

/**
 * Merges the shards of a run into a folder that must not exist. Resolves with `null` when the
 * signal stopped it, and leaves nothing. Rejects with a `ConfigurationError` for a run without
 * shards, for one in progress, and for a corrupted line.
 */
export async function mergeShards(
  folder: string,
  out: string,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<MergedRun | null> {
  const cannot = `Cannot merge run "${folder}"`;
  const manifest = await openRunFolder(folder).manifest();
  if (!hasShards(manifest)) {
    throw new ConfigurationError(`${cannot}: it has no shards; it is in the layout that a merge makes.`);
  }
  if (existsSync(out)) throw new ConfigurationError(`${cannot}: "${out}" exists; name a new folder with --out.`);
  const locks = await lockAll(folder);
  let draft: string | null = null;
  try {
    const place = join(dirname(out), `.${basename(out)}-${randomUUID()}`);
    await makeFolder(place);
    draft = place;
    const merged = await new Merge(folder, draft).run(signal);
    if (merged === null) return null;
    // The manifest is written last, so that no reader takes a part for the whole.
    const whole = new Map([...manifest, ["sharded", false] as const]);
    await writeFile(join(draft, runFiles.manifest), `${dumpJson(whole, { indent: 2 })}\n`);
    await rename(draft, out);
    draft = null;
    return merged;
  } finally {
    if (draft !== null) await rm(draft, { recursive: true, force: true });
    for (const lock of locks) await lock.release();
  }
}

/** Locks the run and each shard, so that none of them is written during the merge. */
async function lockAll(folder: string): Promise<RunLock[]> {
  const found = await readdir(join(folder, runFiles.shards), { withFileTypes: true }).catch(() => []);
  const shards = found.filter((entry) => !entry.isFile()).map(({ name }) => name);
  const locks: RunLock[] = [];
  try {
    for (const place of [folder, ...shards.map((name) => join(folder, runFiles.shards, name))]) {
      locks.push(await lockRun(place, join(place, runFiles.lock)));
    }
    return locks;
  } catch (error) {
    for (const lock of locks) await lock.release();
    throw error;
  }
}

class Merge {
  readonly #folder: string;
  readonly #draft: string;
  readonly #sources = new Map<string, Sources>();
  readonly #writer = new ByteWriter();
  readonly #index = new ByteWriter();

  constructor(folder: string, draft: string) {
    this.#folder = folder;
    this.#draft = draft;
  }

  async run(signal: AbortSignal | undefined): Promise<MergedRun | null> {
    const reader = openRunFolder(this.#folder);
    const folderOf = await reader.expertsFolder();
    const files = new EpisodeFiles(this.#folder);
    const [episodes, index] = [await this.#create(runFiles.episodes), await this.#create(runFiles.index)];
    const experts = createRoutedExpertsFile(this.#draft);
    const masks = createSamplingMasksFile(this.#draft);
    const shards = new Set<string>();
    let count = 0;
    const flush = async (): Promise<void> => {
      await episodes.append(this.#writer.view());
      await index.append(this.#index.view());
      this.#writer.cut(0);
      this.#index.cut(0);
    };
    try {
      for await (const row of reader.summaries()) {
        if (signal?.aborted === true) return null;
        const line = await files.line(row.id, row.place);
        const offset = episodes.size + this.#writer.length;
        const hasBytes = line.includes('"routedExperts":{') || line.includes('"mask":{"offset":');
        const episode = hasBytes ? this.#read(line, row.place) : null;
        const start = this.#writer.length;
        if (episode === null) {
          this.#writer.bytes(line);
          this.#writer.ascii("\n");
        } else {
          writeEpisode(this.#writer, await relocated(episode, this.#sourcesIn(folderOf(row.id)), { experts, masks }));
          endLine(this.#writer, start);
        }
        const length = this.#writer.length - start - 1;
        const crc32 = this.#writer.view(start + length - 10, start + length - 2).toString("latin1");
        const place: EpisodePlace = { shard: null, offset, length, crc32 };
        writeSummary(this.#index, { ...row, number: ++count, place }, unchanged);
        if (row.place.shard !== null) shards.add(row.place.shard);
        if (this.#writer.length > writtenAtOnce) await flush();
      }
      await flush();
      for (const file of [episodes, index]) await file.sync();
      return { episodes: count, groups: await this.#copyGroups(), bytes: episodes.size, shards: shards.size };
    } finally {
      await files.close();
      for (const file of [experts, masks, episodes, index]) await file.close();
      for (const { experts: source, masks: kept } of this.#sources.values())
        for (const one of [source, kept]) one.close();
    }
  }

  #create(name: string): Promise<AppendFile> {
    return AppendFile.create(join(this.#draft, name));
  }

  #read(line: Buffer, { shard, offset }: EpisodePlace): Episode {
    const where = `the line of shard "${shard ?? ""}" at byte ${offset}`;
    return episodeFromJson(parseRecord(line, where), where);
  }

  #sourcesIn(folder: string): Sources {
    const known = this.#sources.get(folder);
    if (known !== undefined) return known;
    const sources = { experts: openRoutedExperts(folder), masks: openSamplingMasks(folder) };
    this.#sources.set(folder, sources);
    return sources;
  }

  /** Copies complete decided groups and their rows; a torn end of either file is omitted. */
  async #copyGroups(): Promise<number> {
    const file = join(this.#folder, runFiles.groups);
    const groups = await this.#create(runFiles.groups);
    let [count, rows] = [0, 0];
    try {
      for await (const { bytes, where } of readCheckedLines(file, () => undefined)) {
        rows = groupFromJson(parseRecord(bytes, where), where).samplesEnd;
        await groups.append(Buffer.concat([bytes, Buffer.from("\n")]));
        count++;
      }
      await groups.sync();
    } finally {
      await groups.close();
    }
    const samples = join(this.#folder, runFiles.samples);
    if (existsSync(samples)) {
      const copy = join(this.#draft, runFiles.samples);
      await copyFile(samples, copy);
      await (await AppendFile.reopen(copy, rows)).close();
    }
    return count;
  }
}

/** Bytes that the turns of a folder name. */
type Sources = {
  readonly experts: TurnBytesReader<RoutedExperts>;
  readonly masks: TurnBytesReader<SamplingMaskPlace>;
};

/** The episode with the bytes of its turns moved to other files. */
async function relocated(
  episode: Episode,
  sources: Sources,
  { experts, masks }: { readonly experts: TurnBytesFile; readonly masks: TurnBytesFile },
): Promise<Episode> {
  const turns: Turn[] = [];
  for (const turn of episode.trajectory.turns) {
    const { routedExperts = null, truncated = null } = turn;
    const mask = truncated?.mask ?? null;
    turns.push({
      ...turn,
      ...(routedExperts === null
        ? {}
        : {
            routedExperts: { ...routedExperts, offset: await experts.write(sources.experts.read(routedExperts)) },
          }),
      ...(truncated === null || mask === null
        ? {}
        : { truncated: { ...truncated, mask: { ...mask, offset: await masks.write(sources.masks.read(mask)) } } }),
    });
  }
  const events = episode.events.map((event) =>
    event.type === "turn" ? { ...event, turn: turns[event.turn.index] ?? event.turn } : event,
  );
  return { ...episode, trajectory: { turns }, events };
}
