// Megabytes of rows that verify-rows proves per second of CPU, against reading the same file and
// parsing its lines, and the memory of both ends of the file. Episodes are generated: four turns of
// 700 shown and 300 sampled tokens, eight to a group, with logprobs as an engine reports them.
// Run: npm run bench -- verify-rows [episodes] [format ...] (default: 800 verl slime)

import { createReadStream } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { verifyRows } from "../dist/index.js";
import { createJsonLinesFile, exportFormats, exportGroup } from "../dist/export/index.js";
import { createFileRunStore } from "../dist/store/index.js";
import { episodeSamples } from "../dist/trajectories/index.js";
import { cpuOf, machine, median } from "./lib/measure.mjs";

const [count = "800", ...named] = process.argv.slice(2);
const groups = Math.ceil(Number(count) / 8);
const formats = named.length === 0 ? ["verl", "slime"] : named;
const rounds = 3;
const root = await mkdtemp(join(tmpdir(), "bench-verify-rows-"));
const folder = join(root, "run");

let state = 1;
const random = () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0);
const ids = (length) => Uint32Array.from({ length }, () => random() % 150_000);

function turn(index) {
  return {
    index,
    parent: index === 0 ? null : index - 1,
    observationTokens: ids(700),
    sampledTokens: ids(300),
    logprobs: Float32Array.from({ length: 300 }, () => Math.log(1 - (random() % 1_000_000) / 1_000_001)),
    finish: { reason: "stop", matched: null, raw: null },
    weightSpans: [{ tokenCount: 300, dispatch: "1", reply: "1" }],
    requestIds: [`0123456789abcdef_t000${index}_r0001`],
    spelledTokens: 0,
    deviation: null,
    rewriteReason: null,
  };
}

function makeEpisode(group, sampleIndex) {
  const id = `bench:train:${group}`;
  const task = { id, environment: "bench", split: "train", index: group, contentHash: "" };
  const turns = [0, 1, 2, 3].map(turn);
  const usage = { promptTokens: 700, completionTokens: 300, cachedTokens: null };
  return {
    id: `${id}#${sampleIndex}`,
    groupId: id,
    sampleIndex,
    task: { ...task, instruction: null, agenda: null },
    seed: 1,
    outcome: "completed",
    stopReason: "user_hung_up",
    failure: null,
    reward: sampleIndex % 2,
    grade: null,
    info: new Map(),
    // About as many characters as the tokens would be.
    messages: turns.flatMap(() => [
      { role: "user", content: "x".repeat(2800) },
      { role: "assistant", content: "y".repeat(1200), reasoning: null, toolCalls: [] },
    ]),
    trajectory: { turns },
    historyPolicy: "append-only",
    events: turns.map((one) => ({ type: "turn", turn: one, attempts: [], usage, durationMs: 1 })),
    problems: [],
  };
}

try {
  const context = { decode: (tokens) => "word ".repeat(tokens.length), toolsOf: () => null, where: () => true };
  const store = createFileRunStore(folder);
  await store.begin(new Map());
  const files = new Map();
  for (const name of formats) {
    files.set(name, await createJsonLinesFile(join(root, `${name}.jsonl`), exportFormats[name].columns));
  }
  for (let group = 0; group < groups; group++) {
    const episodes = Array.from({ length: 8 }, (_, at) => makeEpisode(group, at));
    await Promise.all(episodes.map((episode) => store.append(episode)));
    const { groupId, task } = episodes[0];
    await store.appendGroup({
      group: {
        groupId,
        taskId: task.id,
        groupIndex: group,
        decision: "kept",
        reason: null,
        episodeIds: episodes.map(({ id }) => id),
        rewards: episodes.map(({ reward }) => reward),
      },
      sampleLines: [],
    });
    const rows = episodes.map((episode, at) => ({
      episode,
      result: episodeSamples(episode),
      index: group * 8 + at,
    }));
    const whole = { run: null, groupIndex: group, decision: "kept", reason: null, episodes: rows };
    for (const [name, file] of files) await file.write(exportGroup(whole, exportFormats[name], context).rows);
  }
  await store.close(new Map());
  for (const file of files.values()) await file.close();
  console.log(`machine   ${machine()}`);
  console.log(`command   npm run bench -- verify-rows ${groups * 8} ${formats.join(" ")}`);
  for (const name of formats) await measure(name);
} finally {
  await rm(root, { recursive: true, force: true });
}

async function measure(name) {
  const file = join(root, `${name}.jsonl`);
  const megabytes = (await stat(file)).size / 1e6;
  const [verified, parsed] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const { result, cpuUs } = await cpuOf(() => verifyRows({ file, run: folder, complete: true }));
    if (result.faultCount > 0 || result.rows !== groups * 8) throw new Error(JSON.stringify(result.faults[0]));
    verified.push(megabytes / (cpuUs / 1e6));
    const plain = await cpuOf(() => parse(file));
    if (plain.result !== groups * 8) throw new Error(`${plain.result} lines were parsed`);
    parsed.push(megabytes / (plain.cpuUs / 1e6));
  }
  const rss = Math.round(process.memoryUsage().rss / 2 ** 20);
  console.log(
    `${name.padEnd(10)} ${megabytes.toFixed(0)} MB, ${median(verified).toFixed(0)} MB verified a second of CPU, ` +
      `${median(parsed).toFixed(0)} MB read and parsed with JSON.parse, ratio ${(median(verified) / median(parsed)).toFixed(2)}, RSS ${rss} MiB`,
  );
}

async function parse(file) {
  let rows = 0;
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    if (JSON.parse(line) !== null) rows++;
  }
  return rows;
}
