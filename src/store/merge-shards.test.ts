import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Episode } from "../core/index.ts";
import { flipped, sampleEpisode } from "./sample-episode.test-helper.ts";
import {
  createFileRunStore,
  createRoutedExpertsFile,
  mergeShards,
  openRoutedExperts,
  openRunFolder,
  openShard,
  resumeFileRunStore,
} from "./index.ts";

let root = "";
let made = 0;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "merge-shards-"));
});
afterAll(() => rm(root, { recursive: true }));

const newFolder = (): string => join(root, `run-${made++}`);

/**
 * A run whose episodes are written by these workers, `null` for the process that decides; the index
 * has them in this order.
 */
async function runOf(workers: readonly (string | null)[], rows: readonly string[] = []): Promise<string> {
  const folder = newFolder();
  const store = createFileRunStore(folder, { hasShards: true });
  await store.begin(new Map([["status", "done"]]));
  const shards = new Map<string, Awaited<ReturnType<typeof openShard>>>();
  for (const [at, worker] of workers.entries()) {
    const episode = sampleEpisode(`e${at}`);
    if (worker === null) {
      await store.append(episode);
      continue;
    }
    const shard = shards.get(worker) ?? (await openShard(folder, worker));
    shards.set(worker, shard);
    await store.appendIndexed(await shard.append(episode));
  }
  for (const [at, row] of rows.entries()) {
    const group = { groupId: `g${at}`, taskId: "t", groupIndex: at, decision: "kept", reason: null } as const;
    await store.appendGroup({ group: { ...group, episodeIds: [`e${at}`], rewards: [null] }, sampleLines: [row] });
  }
  for (const shard of shards.values()) await shard.close();
  await store.close(new Map([["status", "done"]]));
  return folder;
}

async function filesOf(folder: string): Promise<Record<string, string>> {
  const names = (await readdir(folder)).toSorted();
  const texts = await Promise.all(
    names.map(async (name) => [name, await readFile(join(folder, name), "utf8")] as const),
  );
  return Object.fromEntries(texts);
}

describe("mergeShards()", () => {
  it("writes what one process would have written, whichever worker wrote what", async () => {
    const rows = ['{"row":0}', '{"row":1}'];
    const merged: Record<string, string>[] = [];
    for (const workers of [
      ["a", "b", "a", null],
      ["b", null, "c", "c"],
    ]) {
      const folder = await runOf(workers, rows);
      const out = newFolder();
      const before = await readdir(folder, { recursive: true });
      const found = await mergeShards(folder, out);
      expect(found).toMatchObject({ episodes: 4, groups: 2, shards: 2 });
      expect(await readdir(folder, { recursive: true })).toEqual(before);
      merged.push(await filesOf(out));
    }
    const single = newFolder();
    const store = createFileRunStore(single);
    await store.begin(new Map());
    for (let at = 0; at < 4; at++) await store.append(sampleEpisode(`e${at}`));
    for (const [at, row] of rows.entries()) {
      const group = { groupId: `g${at}`, taskId: "t", groupIndex: at, decision: "kept", reason: null } as const;
      await store.appendGroup({ group: { ...group, episodeIds: [`e${at}`], rewards: [null] }, sampleLines: [row] });
    }
    await store.close(new Map([["status", "done"]]));
    expect(merged).toEqual([await filesOf(single), await filesOf(single)]);
  });

  it("makes a run that resumes", async () => {
    const out = newFolder();
    await mergeShards(await runOf(["a", "b"]), out);
    const run = await resumeFileRunStore(out);
    expect(run.ended).toEqual(new Set(["e0", "e1"]));
    await run.store.begin(new Map());
    await run.store.append(sampleEpisode("later"));
    await run.store.close(new Map());
    expect((await openRunFolder(out).summary(3))?.id).toBe("later");
  });

  it("brings the experts of every shard into one file, and the turns that name them", async () => {
    const folder = newFolder();
    const store = createFileRunStore(folder, { hasShards: true });
    await store.begin(new Map());
    const bytesOf = (id: string): Uint8Array => Uint8Array.from({ length: 12 }, (_, at) => id.charCodeAt(1) + at);
    for (const id of ["e0", "e1", "e2"]) {
      const shard = await openShard(folder, id === "e1" ? "w2" : "w1");
      const experts = createRoutedExpertsFile(shard.location);
      const base = sampleEpisode(id);
      const part = { offset: await experts.write(bytesOf(id)), rows: 3, layers: 2, topk: 2, width: 1 } as const;
      const turns = base.trajectory.turns.map((turn) => (turn.index === 1 ? { ...turn, routedExperts: part } : turn));
      const events = base.events.map((one) => (one.type === "turn" ? { ...one, turn: turns[one.turn.index]! } : one));
      const episode: Episode = { ...base, trajectory: { turns }, events };
      await store.appendIndexed(await shard.append(episode));
      await experts.close();
      await shard.close();
    }
    await store.close(new Map());
    const out = newFolder();
    await mergeShards(folder, out);
    for (const place of [folder, out]) {
      const reader = openRunFolder(place);
      const folderOf = await reader.expertsFolder();
      for (const id of ["e0", "e1", "e2"]) {
        const source = openRoutedExperts(folderOf(id));
        const { trajectory, events } = (await reader.episode(id))!;
        const part = trajectory.turns[1]?.routedExperts;
        expect(source.read(part!)).toEqual(bytesOf(id));
        expect(events.flatMap((one) => (one.type === "turn" ? (one.turn.routedExperts ?? []) : []))).toEqual([part]);
        source.close();
      }
    }
  });

  it("refuses a run in progress, one without shards, a place that is taken and a changed line, and leaves nothing", async () => {
    const folder = await runOf(["a", "b"]);
    const refusal = (from: string, to: string): Promise<string> => mergeShards(from, to).then(() => "merged", String);
    const shard = await openShard(folder, "b");
    expect(await refusal(folder, newFolder())).toContain("has been using it since");
    await shard.close();
    const { store } = await resumeFileRunStore(folder);
    await store.begin(new Map());
    expect(await refusal(folder, newFolder())).toContain("has been using it since");
    await store.close(new Map());
    const taken = newFolder();
    await mkdir(taken);
    expect(await refusal(folder, taken)).toContain("exists; name a new folder with --out");
    const plain = newFolder();
    const single = createFileRunStore(plain);
    await single.begin(new Map());
    await single.close(new Map());
    expect(await refusal(plain, newFolder())).toContain("it has no shards");
    const file = join(folder, "shards", "b", "episodes.jsonl");
    await writeFile(file, flipped(await readFile(file), 500));
    const out = newFolder();
    expect(await refusal(folder, out)).toContain('Cannot read episode "e1"');
    const stopped = await mergeShards(await runOf(["a"]), newFolder(), { signal: AbortSignal.abort() });
    expect(stopped).toBeNull();
    expect((await readdir(root)).filter((name) => name.startsWith("."))).toEqual([]);
    expect(await readdir(folder)).not.toContain("run.lock");
  });
});
