// Generated samples through the exporters into files: rows per second of CPU, and whether memory
// stays constant as the number of rows grows. Episodes are generated on the fly, eight per group,
// 64 of 256 tokens sampled in two turns, and discarded.
// Run: npm run bench -- export [rows] [format ...] (default: 100000 verl; "1000000" is the long
// run)

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import {
  createJsonLinesFile,
  createParquetFile,
  exportFormatNames,
  exportFormats,
  exportGroup,
} from "../dist/export/index.js";
import { toSamples } from "../dist/trajectories/index.js";
import { machine } from "./lib/measure.mjs";

const [count = "100000", ...named] = process.argv.slice(2);
const rows = Number(count);
const names = named.length === 0 ? ["verl"] : named;
if (!Number.isInteger(rows) || rows < 8 || names.some((name) => !exportFormatNames.includes(name))) {
  process.stderr.write(`Usage: npm run bench -- export [rows, at least 8] [${exportFormatNames.join("|")} ...]\n`);
  process.exit(2);
}

let state = 1;
const random = () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0);
const ids = (length) => Uint32Array.from({ length }, () => random() % 150_000);

function turn(index, shown, sampled) {
  return {
    index,
    parent: index === 0 ? null : index - 1,
    observationTokens: ids(shown),
    sampledTokens: ids(sampled),
    logprobs: Float32Array.from({ length: sampled }, () => -(random() % 100_000) / 33_333),
    finish: { reason: "stop", matched: null, raw: null },
    weightSpans: [{ tokenCount: sampled, dispatch: "1", reply: "1" }],
    spelledTokens: 0,
    deviation: null,
    rewriteReason: null,
  };
}

function makeEpisode(group, sampleIndex) {
  const turns = [turn(0, 160, 32), turn(1, 32, 32)];
  const id = `bench:${group}`;
  const task = {
    id,
    environment: "bench",
    split: "train",
    index: group,
    contentHash: "",
    instruction: null,
    agenda: null,
  };
  const reward = sampleIndex % 2;
  const messages = ["system", "user", "assistant", "user", "assistant"].map((role) =>
    role === "assistant"
      ? { role, content: "words", reasoning: null, toolCalls: [] }
      : { role, content: "x".repeat(200) },
  );
  const action = { text: "words", reasoning: null, content: "words", toolCalls: [], problems: [], isTerminated: true };
  const decision = { type: "say", problems: [], content: "words" };
  const events = turns.flatMap((one) => [
    { type: "turn", turn: one, attempts: [], usage: {}, durationMs: 1 },
    { type: "decision", turn: one.index, action, decision },
  ]);
  const episode = {
    id: `${id}#${sampleIndex}`,
    groupId: id,
    sampleIndex,
    task,
    seed: 1,
    reward,
    messages,
    events,
    outcome: "completed",
    stopReason: "user_hung_up",
    failure: null,
    grade: null,
    info: new Map(),
    problems: [],
    trajectory: { turns },
    historyPolicy: "append-only",
  };
  const origin = { episodeId: episode.id, groupId: id, taskId: id, reward };
  const facts = { tokenAccounting: "token-exact", historyPolicy: "append-only" };
  return { episode, result: toSamples(episode.trajectory, { ...origin, ...facts }), index: group * 8 + sampleIndex };
}

const context = { decode: (tokens) => "x".repeat(tokens.length), toolsOf: () => null, where: () => true };
const megabytes = (bytes) => Math.round(bytes / 2 ** 20);
const cpuSeconds = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const rss = () => {
  globalThis.gc?.();
  return megabytes(process.memoryUsage().rss);
};

/** Rows per second of CPU, without the generation of episodes, and memory at every tenth of the run. */
async function measure(name, kind, create) {
  const format = exportFormats[name];
  const folder = await mkdtemp(join(tmpdir(), "trainable-agents-bench-"));
  const file = await create(join(folder, "rows"), format.columns);
  const started = performance.now();
  const memory = [];
  let exporting = 0;
  let written = 0;
  for (let group = 0; written < rows; group++) {
    const episodes = Array.from({ length: 8 }, (_, sampleIndex) => makeEpisode(group, sampleIndex));
    const before = cpuSeconds();
    const whole = { run: null, groupIndex: group, decision: "kept", reason: null, episodes };
    const exported = exportGroup(whole, format, context);
    await file.write(exported.rows);
    exporting += cpuSeconds() - before;
    written += 8;
    if (Math.floor((written * 10) / rows) > memory.length) memory.push(rss());
  }
  const before = cpuSeconds();
  const bytes = await file.close();
  exporting += cpuSeconds() - before;
  await rm(folder, { recursive: true });
  const seconds = (performance.now() - started) / 1000;
  const rate = Math.round(written / exporting).toLocaleString("en-US");
  console.log(
    `${name.padEnd(12)} ${kind.padEnd(8)} ${rate.padStart(8)} samples a second of CPU, ${Math.round(bytes / written)} bytes a sample, ` +
      `RSS after each tenth ${memory.join(" ")} MiB, ${seconds.toFixed(0)} s in all`,
  );
}

console.log(`machine   ${machine()}`);
console.log(`command   npm run bench -- export ${rows} ${names.join(" ")}`);
for (const name of names) {
  await measure(name, "jsonl", createJsonLinesFile);
  await measure(name, "parquet", createParquetFile);
}
