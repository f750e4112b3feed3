// A trainer's logprobs over a run: the tokens that they belong to, the counts, and the faults of a
// file.

import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import type { Sample } from "../core/index.ts";
import { exportView, view } from "../api/view.ts";
import { rollout } from "../api/rollout.ts";
import { readEpisodes } from "../store/index.ts";
import { episodeSamples } from "../trajectories/index.ts";
import { openFolderStore } from "./episode-store.ts";
import { RunView } from "./run-view.ts";
import { linesOfEpisode, readTrainerLogprobs } from "./trainer-logprobs.ts";
import { overlayOf } from "./wire/index.ts";

let folder = "";
const samples: Sample[] = [];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "trainable-agents-overlay-"));
  const settings = { env: "bookshop", engine: "expert", tasks: "0-1", groupSize: 2, seed: 3 } as const;
  await rollout({ ...settings, out: "run", quiet: true, cwd: folder, variables: {} });
  for await (const episode of readEpisodes(join(folder, "run"))) samples.push(...episodeSamples(episode).samples);
}, 60_000);

let files = 0;
const write = async (...lines: readonly (object | string)[]): Promise<string> => {
  const path = join(folder, `${files++}.jsonl`);
  await writeFile(path, lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join(""));
  return path;
};

const read = async (...lines: readonly (object | string)[]) => readTrainerLogprobs(await write(...lines), "file");

/** The line of a trainer whose logprobs are lower than the sampled ones by `below`. */
const lineOf = ({ episodeId, branch, logprobs }: Sample, below: number, start = 0) => ({
  episode_id: episodeId,
  branch,
  logprobs: Array.from(logprobs!.subarray(start), (logprob) => (Number.isNaN(logprob) ? 0 : logprob - below)),
});

const overlay = async (sample: Sample, ...lines: readonly (object | string)[]) =>
  overlayOf({ samples: [sample] }, linesOfEpisode(await read(...lines), sample.episodeId));

describe("a line", () => {
  it("may begin at the first action, at the second token, or at the first", async () => {
    const [sample] = samples as [Sample];
    const trained = sample.lossMask.reduce((sum, bit) => sum + bit, 0);
    for (const start of [0, 1, sample.sampledMask.indexOf(1)]) {
      const { branches, problems } = await overlay(sample, lineOf(sample, 0.25, start));
      const { logprobs, difference, missing } = branches.get(0)!;
      expect([problems, missing, difference.tokens]).toEqual([[], 0, trained]);
      expect(difference.largest).toBeCloseTo(0.25, 5);
      expect(difference.sum / trained).toBeCloseTo(0.25, 5);
      // Zeros of tokens that are not trained are not logprobs.
      for (const [at, bit] of sample.lossMask.entries()) expect(Number.isNaN(logprobs[at]!)).toBe(bit === 0);
    }
  });

  it("of another length is not shown at all", async () => {
    const [sample] = samples as [Sample];
    const { branches, problems } = await overlay(sample, lineOf(sample, 0, 2));
    expect(branches.size).toBe(0);
    expect(problems[0]).toMatch(/^Line 1 has \d+ logprobs, and branch 0 has \d+ tokens.*nothing of the line is shown/);
    expect(problems[1]).toBe("Branch 0 has no line that can be used.");
  });

  it("has holes where it holds no logprob, and none is shown as zero", async () => {
    const [sample] = samples as [Sample];
    const places = [...sample.lossMask.entries()].filter(([, bit]) => bit === 1).map(([at]) => at);
    const line = lineOf(sample, 0);
    const texts = line.logprobs.map(String);
    for (const [index, text] of ["NaN", "-Infinity", "null", "3.5"].entries()) texts[places[index]!] = text;
    const text = `{"episode_id": ${JSON.stringify(line.episode_id)}, "logprobs": [${texts.join(", ")}]}`;
    const { branches, problems } = await overlay(sample, text);
    const { logprobs, difference, missing } = branches.get(0)!;
    expect([problems, missing, difference.tokens]).toEqual([[], 4, places.length - 4]);
    expect(places.slice(0, 4).map((at) => logprobs[at])).toEqual([NaN, NaN, NaN, NaN]);
    expect(difference.largest).toBeLessThan(1e-6);
  });

  it("is told from others of its row, of no row, and of no episode", async () => {
    const [sample] = samples as [Sample];
    const twice = await overlay(sample, lineOf(sample, 1), lineOf(sample, 0.5), { ...lineOf(sample, 0), branch: 7 });
    expect(twice.branches.get(0)?.difference.largest).toBeCloseTo(0.5, 5);
    expect(twice.problems).toEqual([
      "Line 2 replaces line 1: both are of branch 0.",
      "Line 3 is for branch 7, which is not a training row.",
    ]);
    const other = await overlay(sample, { ...lineOf(sample, 0), episode_id: "nobody" });
    expect(other.problems).toEqual(["No line names this episode."]);
    // Without logprobs to compare with, the difference is unknown, not zero.
    const bare = await overlay({ ...sample, logprobs: null }, lineOf(sample, 0));
    expect(bare.branches.get(0)).toMatchObject({ difference: { tokens: 0 }, largestAt: null, missing: 0 });
  });
});

describe("a file", () => {
  it("is refused with the line that is wrong", async () => {
    const good = { episode_id: "a", logprobs: [-1] };
    const wrong: readonly (readonly [object | string, RegExp])[] = [
      ["{", /line 2: it is not JSON; expected \{"episode_id"/],
      ["[1]", /line 2: it is not an object/],
      [{ ...good, episode_id: 3 }, /line 2: episode_id is not a string/],
      [{ ...good, branch: -1 }, /line 2: branch is not a whole number/],
      [{ ...good, logprobs: "-1" }, /line 2: logprobs is not a list/],
      [{ ...good, logprobs: [-1, "-2"] }, /line 2: logprobs has what is neither a number nor null, at place 1/],
    ];
    for (const [line, message] of wrong) await expect(read(good, line, good)).rejects.toThrow(message);
    await expect(read()).rejects.toThrow(/it has no line/);
    const path = await write(good, { ...good, logprobs: Array.from({ length: 1000 }, () => -1) });
    await expect(readTrainerLogprobs(path, "file", { recordBytes: 1000 })).rejects.toThrow(/line 2": it is longer/);
    // A file that a trainer is still writing.
    await writeFile(path, `${JSON.stringify(good)}\n{"episode_id": "b", "logpr`);
    expect([...(await readTrainerLogprobs(path, "file")).episodes.keys()]).toEqual(["a"]);
  });

  it("is counted over the run, and brought along by an exported page", async () => {
    const [first, second, ...others] = samples as [Sample, Sample, ...Sample[]];
    const lines = [lineOf(first, 0.5), ...others.map((sample) => lineOf(sample, 0.25))];
    const path = await write(...lines, { episode_id: "nobody", logprobs: [] });
    const store = await openFolderStore(join(folder, "run"));
    const run = new RunView(store, "0", { trainer: await readTrainerLogprobs(path, "file") });
    try {
      await run.readAll();
      const { trainer } = await run.summary();
      const numberOf = async ({ episodeId }: Sample): Promise<number> => (await run.episode(episodeId)).row.number;
      expect(trainer).toMatchObject({ file: basename(path), missing: 0, bare: 1, unknown: 1 });
      expect([trainer?.largestIn, trainer?.problems]).toEqual([await numberOf(first), [await numberOf(second)]]);
      expect(trainer?.difference.largest).toBeCloseTo(0.5, 5);
    } finally {
      await run.close();
    }
    const file = join(folder, "page.html");
    await exportView({ sources: ["run"], episode: first.episodeId, logprobs: path, file, cwd: folder });
    const packed = /<script type="text\/plain" id="data">([^<]*)</.exec(await readFile(file, "utf8"))?.[1] ?? "";
    const { answers } = JSON.parse(gunzipSync(Buffer.from(packed, "base64")).toString()) as {
      readonly answers: Readonly<Record<string, string>>;
    };
    const name = Object.keys(answers).find((one) => one.startsWith("api/episode"))!;
    expect(JSON.parse(answers[name]!)).toMatchObject({
      trainer: { file: basename(path), rows: [{ line: 1, branch: 0 }] },
    });
  });

  it("is laid over one run with episodes", async () => {
    const logprobs = await write({ episode_id: "a", logprobs: [] });
    const sources = ["run"];
    await expect(view({ sources: ["run", "run"], logprobs, cwd: folder })).rejects.toThrow(/laid over one/);
    await expect(view({ sources, logprobs: "nowhere", cwd: folder })).rejects.toThrow(/there is no such file/);
    await expect(view({ sources, logprobs: "run", cwd: folder })).rejects.toThrow(/there is no such file/);
  });
});
