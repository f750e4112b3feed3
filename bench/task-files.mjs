// Time and memory of opening a file of tasks again, against reading all of it: JSON lines, CSV and
// Parquet of generated tasks, as OpenEnv takes them. Each measurement is a process of its own, in
// turns: "parse" reads the lines of the JSON lines and parses them, "first" is the first opening,
// which checks and hashes every row, and "open" is every later one, with a thousand tasks read at
// random. Fails if "open" takes more than 0.2 of "parse", or the process more than 200 MB.
// Run: npm run bench -- task-files [tasks] [rounds] (default: 1000000 3)

import { execFileSync } from "node:child_process";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";

import { openTasks } from "../dist/task-files/index.js";
import { machine, median } from "./lib/measure.mjs";

const most = { ratio: 0.2, megabytes: 200 };
const readAtRandom = 1000;

const reader = {
  name: "bench",
  defaultSplit: "train",
  read: ({ id, split }) => ({ id, split, traits: [] }),
};

const splitOf = (at) => (at % 50 === 0 ? "test" : "train");
const instructionOf = (at) => `Win game ${at}, and say which of its ${at % 97} rooms the "key" was in.`;

const [first = "1000000", second = "3", ...more] = process.argv.slice(2);
if (first === "measure") await measure(second, ...more);
else await compare(Number(first), Number(second));

/** The peak of the process's memory in MB. */
async function peakMegabytes() {
  const status = await readFile("/proc/self/status", "utf8").catch(() => "");
  const peak = /VmHWM:\s+(\d+) kB/.exec(status)?.[1];
  return peak === undefined ? process.memoryUsage().rss / 1e6 : Number(peak) / 1000;
}

async function measure(what, file, cache) {
  const start = performance.now();
  if (what === "parse") {
    let size = 0;
    for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
      if (JSON.parse(line) !== null) size++;
    }
    process.stdout.write(JSON.stringify({ ms: performance.now() - start, size, megabytes: await peakMegabytes() }));
    return;
  }
  const table = await openTasks(file, { cwd: "/", reader, flag: "--env-tasks", cache });
  const ms = performance.now() - start;
  const [{ name, size }] = table.splits;
  let state = 1;
  const from = performance.now();
  for (let count = 0; count < readAtRandom; count++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    table.row(name, state % size);
  }
  const rowUs = (1000 * (performance.now() - from)) / readAtRandom;
  process.stdout.write(JSON.stringify({ ms, size: table.size, rowUs, megabytes: await peakMegabytes() }));
}

function* lines(tasks, lineOf) {
  let text = "";
  for (let at = 0; at < tasks; at++) {
    text += lineOf(at);
    if (text.length < 2 ** 20) continue;
    yield text;
    text = "";
  }
  yield text;
}

async function writeParquet(path, tasks) {
  const { fileWriter, ParquetWriter, schemaFromColumnData } = await import("hyparquet-writer");
  const columns = (from, to) => {
    const ids = Array.from({ length: to - from }, (_, at) => from + at);
    return [
      { name: "id", data: ids.map((at) => `task-${at}`), type: "STRING" },
      { name: "split", data: ids.map(splitOf), type: "STRING" },
      { name: "instruction", data: ids.map(instructionOf), type: "STRING" },
      { name: "reset", data: ids.map((at) => ({ seed: at })), type: "JSON" },
    ];
  };
  const schema = schemaFromColumnData({ columnData: columns(0, 1) });
  const writer = new ParquetWriter({ writer: fileWriter(path), schema });
  for (let from = 0; from < tasks; from += 100_000) {
    writer.write({ columnData: columns(from, Math.min(tasks, from + 100_000)), rowGroupSize: 100_000 });
  }
  await writer.finish();
}

async function compare(tasks, rounds) {
  const folder = await mkdtemp(join(tmpdir(), "bench-task-files-"));
  const run = (...args) => {
    const command = [fileURLToPath(import.meta.url), "measure", ...args];
    return JSON.parse(execFileSync(process.execPath, command, { encoding: "utf8" }));
  };
  try {
    const files = ["jsonl", "csv", "parquet"].map((kind) => ({ kind, path: join(folder, `tasks.${kind}`) }));
    const json = (at) =>
      `${JSON.stringify({ id: `task-${at}`, split: splitOf(at), instruction: instructionOf(at), reset: { seed: at } })}\n`;
    const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
    const row = (at) => `task-${at},${splitOf(at)},${quoted(instructionOf(at))},${quoted(`{"seed":${at}}`)}\n`;
    await pipeline(lines(tasks, json), createWriteStream(files[0].path));
    const header = "id,split,instruction,reset\n";
    await pipeline(
      lines(tasks, (at) => (at === 0 ? header + row(at) : row(at))),
      createWriteStream(files[1].path),
    );
    await writeParquet(files[2].path, tasks);
    console.log(`machine   ${machine()}`);
    console.log(`command   npm run bench -- task-files ${tasks} ${rounds}`);
    let isWithin = true;
    const found = files.map((file) => ({ ...file, parse: [], first: [], open: [], rowUs: [], memory: [], peak: [] }));
    for (let round = 0; round < rounds; round++) {
      for (const one of found) {
        const cache = join(folder, `cache-${round}`);
        const parsed = run("parse", files[0].path);
        const began = run("first", one.path, cache);
        const opened = run("open", one.path, cache);
        for (const { size } of [parsed, began, opened]) if (size !== tasks) throw new Error(`${size} tasks were read`);
        one.parse.push(parsed.ms);
        one.first.push(began.ms);
        one.open.push(opened.ms);
        one.rowUs.push(opened.rowUs);
        one.memory.push(opened.megabytes);
        one.peak.push(began.megabytes);
      }
    }
    for (const { kind, path, parse, first: whole, open, rowUs, memory, peak } of found) {
      const ratio = median(open) / median(parse);
      const megabytes = Math.max(...memory);
      isWithin &&= ratio <= most.ratio && megabytes <= most.megabytes;
      console.log(
        `${kind.padEnd(9)} ${((await stat(path)).size / 1e6).toFixed(0)} MB, open ${median(open).toFixed(0)} ms, parse ${median(parse).toFixed(0)} ms, ` +
          `ratio ${ratio.toFixed(3)}; first opening ${median(whole).toFixed(0)} ms, ratio ${(median(open) / median(whole)).toFixed(3)}; ` +
          `a task ${median(rowUs).toFixed(0)} us; peak ${megabytes.toFixed(0)} MB, at the first opening ${Math.max(...peak).toFixed(0)} MB`,
      );
    }
    if (!isWithin) throw new Error(`the limits are a ratio of ${most.ratio} and ${most.megabytes} MB`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
