// Cost of reading a large run: the newest page, one episode, a filter, a search, the records
// written since, and the same run without an index, which is read once. The episodes are the
// bookshop expert's, repeated under other ids. Also the cost of the index for the writer of the
// run. Each figure is the fastest of three, except for work done once; "cold" is a process of its
// own, start included.
// Run: npm run bench -- reader [episodes]

import { execFile } from "node:child_process";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";

import { rollout } from "../dist/index.js";
import { createFileRunStore, openRunFolder, readEpisodes } from "../dist/store/index.js";
import { ByteWriter } from "../dist/store/byte-writer.js";
import { summaryOf, writeSummary } from "../dist/store/episode-index.js";
import { unchanged } from "../dist/lib/text.js";
import { cpuOf, machine } from "./lib/measure.mjs";

const count = Number(process.argv[2] ?? 20_000);
const atOnce = 256;
const root = await mkdtemp(join(tmpdir(), "bench-reader-"));
const [source, folder, cacheFolder] = ["source", "run", "cache"].map((name) => join(root, name));

try {
  const settings = { env: "bookshop", engine: "expert", tasks: "0-49", groupSize: 4, expertNoise: 0.1 };
  await rollout({ ...settings, out: source, quiet: true });
  const episodes = [];
  for await (const episode of readEpisodes(source)) episodes.push(episode);
  const writing = await cpuOf(() => write(episodes));
  const { size } = await stat(join(folder, "episodes.jsonl"));
  print(`${machine()}; ${count} episodes, ${(size / 1e6).toFixed(0)} MB`);
  print(`writing                        ${(writing.cpuUs / count).toFixed(0)} us of CPU an episode`);
  print(`  of these, the index          ${(await indexCost(episodes)).toFixed(1)}`);
  await measureReader();
  const program = `import { openRunFolder } from ${JSON.stringify(fileURLToPath(new URL("../dist/store/index.js", import.meta.url)))};
    const { rows } = await openRunFolder(${JSON.stringify(folder)}).page({ count: 100 });
    if (rows.length !== Math.min(100, ${count})) process.exit(1);
    const { user, system } = process.cpuUsage();
    console.log(user + system);`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
  print(`newest 100 rows, cold: CPU of the whole process ${(Number(stdout) / 1000).toFixed(0)} ms`);
  await rm(join(folder, "index.jsonl"));
  await timed("without an index: first page", () => openRunFolder(folder, { cacheFolder }).page({ count: 100 }), 1);
  await timed("without an index: later", () => openRunFolder(folder, { cacheFolder }).page({ count: 100 }));
} finally {
  await rm(root, { recursive: true, force: true });
}

async function measureReader() {
  const open = () => openRunFolder(folder, { cacheFolder });
  await timed("newest 100 rows", () => open().page({ count: 100 }));
  const deep = Math.ceil(count / 2);
  await timed("100 rows of the middle", () => open().page({ count: 100, before: deep }));
  await timed("an episode by its number", () => open().episode(deep));
  const { id } = await open().summary(deep);
  await timed("an episode by its id", () => open().episode(id));
  const { position } = await open().page({ count: 1 });
  const watched = open();
  await timed("what is new, when nothing is", () => watched.changesSince(position));
  await timed("all rows", () => consume(open().summaries()));
  await timed("filter: reward < 1 and turns > 2", () => consume(open().filter("reward < 1 and turns > 2")));
  await timed("search: a text that is nowhere", () => consume(open().search("no such text anywhere")));
  const { messages } = await open().episode(1);
  const text = messages.at(-1).content.slice(0, 20);
  await timed("search: first hit of a common text", async () => {
    for await (const hit of open().search(text)) return hit;
    throw new Error("nothing was found");
  });
}

async function write(episodes) {
  const store = createFileRunStore(folder);
  await store.begin(new Map());
  for (let at = 0; at < count; at += atOnce) {
    const batch = Array.from({ length: Math.min(atOnce, count - at) }, (_, index) => {
      const number = at + index;
      const base = episodes[number % episodes.length];
      const visit = Math.floor(number / episodes.length);
      return { ...base, id: `${base.groupId}@${visit}#${base.sampleIndex}`, groupId: `${base.groupId}@${visit}` };
    });
    await Promise.all(batch.map((episode) => store.append(episode)));
  }
  await store.close(new Map());
}

/** CPU microseconds per episode: the summary and its line, without the write. */
async function indexCost(episodes) {
  const writer = new ByteWriter();
  const place = { shard: null, offset: 123_456_789, length: 17_000, crc32: "01234567" };
  const rounds = 20;
  const run = async () => {
    for (let round = 0; round < rounds; round++) {
      writer.cut(0);
      for (const episode of episodes) writeSummary(writer, { ...summaryOf(episode), number: 1, place }, unchanged);
    }
  };
  await run();
  return (await cpuOf(run)).cpuUs / rounds / episodes.length;
}

async function timed(name, action, rounds = 3) {
  let best = { wallMs: Infinity, cpuUs: Infinity };
  for (let round = 0; round < rounds; round++) {
    const before = performance.now();
    const { result, cpuUs } = await cpuOf(action);
    if (result === null || result === undefined) throw new Error(`${name}: nothing came back`);
    const wallMs = performance.now() - before;
    best = { wallMs: Math.min(best.wallMs, wallMs), cpuUs: Math.min(best.cpuUs, cpuUs) };
  }
  print(
    `${name.padEnd(36)} ${best.wallMs.toFixed(1).padStart(8)} ms, CPU ${(best.cpuUs / 1000).toFixed(1).padStart(7)} ms`,
  );
}

async function consume(items) {
  let found = 0;
  for await (const _ of items) found++;
  return found;
}

function print(line) {
  process.stdout.write(`${line}\n`);
}
