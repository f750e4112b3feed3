// Every format, written to a line of JSON and to Parquet, and read back like its trainer reads it:
// the tokens, masks, logprobs and rewards equal those of the samples.

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Sample } from "../core/index.ts";
import {
  type AnyRow,
  createJsonLinesFile,
  createParquetFile,
  exportFormats,
  type ExportFormatName,
  exportFormatNames,
  exportGroup,
  type GroupToExport,
} from "./index.ts";
import { randomGroup } from "./random-episode.test-helper.ts";

const full = process.env["FULL"] === "1";
const context = {
  decode: (tokens: Uint32Array) => tokens.join(" "),
  toolsOf: () => '[{"type": "function"}]',
  where: () => true,
};

/** A row as a trainer reads it. Arrays cover all tokens of a sample. */
type Trained = {
  readonly tokens: readonly number[];
  readonly lossMask: readonly number[];
  /** Zeros if the format has none. */
  readonly logprobs: readonly number[] | null;
  readonly reward: number | null;
};

type Fields = Readonly<Record<string, unknown>>;
const list = (value: unknown): number[] => value as number[];
const maybe = (value: unknown): number[] | null => value as number[] | null;
const zeros = (length: number): number[] => Array<number>(length).fill(0);

function split(names: { prompt: string; response: string; mask: string; logprobs: string; reward: string }) {
  return (row: Fields): Trained[] => {
    const before = list(row[names.prompt]);
    const logprobs = maybe(row[names.logprobs]);
    return [
      {
        tokens: [...before, ...list(row[names.response])],
        lossMask: [...zeros(before.length), ...list(row[names.mask])],
        logprobs: logprobs === null ? null : [...zeros(before.length), ...logprobs],
        reward: row[names.reward] as number,
      },
    ];
  };
}

type ReadNode = { parent: number | null; token_ids: number[]; mask: boolean[]; logprobs: number[] };

/**
 * Reads a trace like prime-rl: a path from root to leaf is a sample, and a sampled node is trained
 * in the first sample that holds it.
 */
function readTrace(row: Fields): Trained[] {
  const [trace] = row["traces"] as [{ nodes: ReadNode[]; rewards: { reward: { score: number } } }];
  const { nodes } = trace;
  const parents = new Set(nodes.map(({ parent }) => parent));
  const claimed = new Set<number>();
  const samples: Trained[] = [];
  for (const leaf of nodes.keys()) {
    if (parents.has(leaf)) continue;
    const path: number[] = [];
    for (let at: number | null = leaf; at !== null; at = nodes[at]!.parent) path.unshift(at);
    const sample = { tokens: [] as number[], lossMask: [] as number[], logprobs: [] as number[] };
    for (const at of path) {
      const { token_ids: tokens, mask, logprobs } = nodes[at]!;
      let next = 0;
      sample.tokens.push(...tokens);
      sample.lossMask.push(...mask.map((isTrained) => (isTrained && !claimed.has(at) ? 1 : 0)));
      sample.logprobs.push(...mask.map((isTrained) => (isTrained ? (logprobs[next++] ?? 0) : 0)));
      if (mask.includes(true)) claimed.add(at);
    }
    if (sample.lossMask.includes(1)) samples.push({ ...sample, reward: trace.rewards.reward.score });
  }
  return samples;
}

const readers: Readonly<
  Record<Exclude<ExportFormatName, "sft" | "preferences" | "atif" | "inspect">, (row: Fields) => Trained[]>
> = {
  slime: (row) => {
    const tokens = list(row["tokens"]);
    const before = zeros(tokens.length - (row["response_length"] as number));
    const logprobs = maybe(row["rollout_log_probs"]);
    return [
      {
        tokens,
        lossMask: [...before, ...list(row["loss_mask"])],
        logprobs: logprobs === null ? null : [...before, ...logprobs],
        reward: row["reward"] as number,
      },
    ];
  },
  verl: split({
    prompt: "prompt_ids",
    response: "response_ids",
    mask: "response_mask",
    logprobs: "response_logprobs",
    reward: "reward_score",
  }),
  trl: split({
    prompt: "prompt_ids",
    response: "completion_ids",
    mask: "env_mask",
    logprobs: "logprobs",
    reward: "reward",
  }),
  tinker: (row) => {
    const mask = list(row["mask"]);
    const logprobs = maybe(row["logprobs"]);
    return [
      {
        tokens: [list(row["model_input"])[0]!, ...list(row["target_tokens"])],
        lossMask: [0, ...mask],
        logprobs: logprobs === null ? null : [0, ...logprobs],
        reward: row["reward"] as number,
      },
    ];
  },
  atropos: (row) => {
    const masks = row["masks"] as number[][];
    const logprobs = row["inference_logprobs"] as number[][] | null;
    return (row["tokens"] as number[][]).map((tokens, at) => ({
      tokens,
      lossMask: masks[at]!.map((label) => (label === -100 ? 0 : 1)),
      logprobs: logprobs === null ? null : logprobs[at]!.map((logprob) => (logprob > 0 ? 0 : logprob)),
      reward: list(row["scores"])[at]!,
    }));
  },
  verifiers: readTrace,
  "sft-tokens": (row) => {
    const labels = list(row["labels"]);
    return [
      {
        tokens: list(row["input_ids"]),
        lossMask: labels.map((label) => (label === -100 ? 0 : 1)),
        logprobs: null,
        reward: row["reward"] as number,
      },
    ];
  },
};

/** Logprobs that a format keeps: those of every sampled token, of trained ones, or none. */
const keptLogprobs: Readonly<Record<keyof typeof readers, "sampled" | "trained" | "group" | "none">> = {
  slime: "sampled",
  verl: "sampled",
  trl: "sampled",
  tinker: "sampled",
  verifiers: "trained",
  atropos: "group",
  "sft-tokens": "none",
};

const tokenFormats = Object.keys(readers) as (keyof typeof readers)[];

function expected(group: GroupToExport, name: keyof typeof readers): Trained[] {
  const samples = group.episodes.flatMap(({ result }) => result.samples);
  const kept = keptLogprobs[name];
  const groupHasAll = samples.every(({ logprobs }) => logprobs !== null);
  return samples.map((sample) => ({
    tokens: [...sample.tokens],
    lossMask: [...sample.lossMask],
    logprobs: kept === "none" || (kept === "group" && !groupHasAll) ? null : logprobsOf(sample, kept),
    reward: sample.reward,
  }));
}

function logprobsOf(sample: Sample, kept: "sampled" | "trained" | "group"): number[] | null {
  const { logprobs, lossMask, sampledMask } = sample;
  // A trace cannot state that logprobs are missing; it has none.
  if (logprobs === null) return kept === "trained" ? zeros(lossMask.length) : null;
  const mask = kept === "sampled" ? sampledMask : lossMask;
  return Array.from(logprobs, (logprob, at) => (mask[at] === 1 ? logprob : 0));
}

/**
 * Samples in a form that can be compared. Branches that share an action may train it in either
 * branch, and a trace omits discarded attempts, so a trace is compared by its trained tokens, each
 * with everything that precedes it.
 */
function comparable(all: readonly Trained[], name: keyof typeof readers): string[] {
  const rounded = all.map((one) => ({ ...one, logprobs: one.logprobs?.map(Math.fround) ?? null }));
  if (name !== "verifiers") return rounded.map((one) => JSON.stringify(one)).toSorted();
  const trained = rounded.flatMap(({ tokens, lossMask, logprobs, reward }) =>
    [...tokens.keys()]
      .filter((at) => lossMask[at] === 1)
      .map((at) => JSON.stringify([tokens.slice(0, at + 1), logprobs?.[at], reward])),
  );
  return trained.toSorted();
}

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "trainable-agents-export-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function readJsonLines(file: string): Promise<Fields[]> {
  const text = await readFile(file, "utf8");
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Fields);
}

async function readParquet(
  file: string,
  columns: (typeof exportFormats)[ExportFormatName]["columns"],
): Promise<Fields[]> {
  const rows = (await parquetReadObjects({ file: await asyncBufferFromFile(file) })) as Record<string, unknown>[];
  for (const row of rows) {
    for (const { name, type } of columns)
      if (type === "json" && typeof row[name] === "string") row[name] = JSON.parse(row[name]);
  }
  // The reader returns `undefined` for a null within a struct.
  return rows.map((row) => nulled(row) as Fields);
}

function nulled(value: unknown): unknown {
  if (value === undefined) return null;
  if (Array.isArray(value)) return value.map(nulled);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, nulled(inner)]));
}

describe("every format", () => {
  const runs = full ? 2_000 : 25;
  it.each(tokenFormats)("%s keeps tokens, masks, logprobs and rewards through JSON lines and Parquet", async (name) => {
    const format = exportFormats[name];
    const groups = Array.from({ length: runs }, (_, seed) => randomGroup(seed));
    const wanted = groups.flatMap((group) => expected(group, name));
    const jsonPath = join(folder, `${name}.jsonl`);
    const parquetPath = join(folder, `${name}.parquet`);
    const files = [
      await createJsonLinesFile(jsonPath, format.columns),
      await createParquetFile(parquetPath, format.columns),
    ];
    for (const group of groups) {
      const { rows, trainedTokens } = exportGroup(group, format, context);
      const masks = group.episodes.flatMap(({ result }) => result.samples.map(({ lossMask }) => lossMask));
      expect(trainedTokens ?? 0).toBe(masks.reduce((sum, mask) => sum + mask.filter((one) => one === 1).length, 0));
      for (const file of files) await file.write(rows);
    }
    for (const file of files) await file.close();
    const read = (rows: readonly Fields[]): string[] => comparable(rows.flatMap(readers[name]), name);
    expect(read(await readJsonLines(jsonPath))).toEqual(comparable(wanted, name));
    expect(read(await readParquet(parquetPath, format.columns))).toEqual(comparable(wanted, name));
  });

  it.each(["sft", "preferences"] as const)("%s keeps its messages through JSON lines and Parquet", async (name) => {
    const format = exportFormats[name];
    const rows = Array.from({ length: 20 }, (_, seed) => exportGroup(randomGroup(seed), format, context).rows).flat();
    expect(rows.length).toBeGreaterThan(10);
    const paths = [join(folder, `${name}.jsonl`), join(folder, `${name}.parquet`)] as const;
    const files = [
      await createJsonLinesFile(paths[0], format.columns),
      await createParquetFile(paths[1], format.columns),
    ];
    for (const file of files) {
      await file.write(rows);
      await file.close();
    }
    const plain = JSON.parse(JSON.stringify(rows)) as AnyRow[];
    expect(await readJsonLines(paths[0])).toEqual(plain);
    expect(await readParquet(paths[1], format.columns)).toEqual(plain);
  });

  it("is read back by a test of its own", () => {
    expect([...tokenFormats, "sft", "preferences", "atif", "inspect"].toSorted()).toEqual(
      [...exportFormatNames].toSorted(),
    );
  });
});
