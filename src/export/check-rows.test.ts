// Random episodes, with branches, dropped turns and missing logprobs: rows of every format pass, and
// a row in which any one number was changed does not.

import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Episode } from "../core/index.ts";
import { createRandom } from "../lib/random.ts";
import { episodeLine } from "../store/index.ts";
import { readRecordedEpisode } from "../store/recorded-episode.ts";
import { turnDigests } from "../store/writing.ts";
import { expectedOf, type ExpectedEpisode, type RowFault } from "./check-rows.ts";
import { episodeSamples } from "../trajectories/index.ts";
import { type AnyRow, exportFormats, exportGroup, type GroupToExport, rowLine } from "./index.ts";
import { randomGroup as randomlyDropped } from "./random-episode.test-helper.ts";
import { readRows } from "./read-rows.ts";
import { kindOfRow } from "./row-kinds.ts";

const seeds = Array.from({ length: process.env["FULL"] === "1" ? 400 : 20 }, (_, seed) => seed);
const context = { decode: (tokens: Uint32Array) => tokens.join(" "), toolsOf: () => null, where: () => true };
const formats = ["slime", "verl", "tinker", "trl", "sft-tokens", "atropos", "verifiers", "sft", "atif"] as const;

let folder = "";
beforeAll(async () => (folder = await mkdtemp(join(tmpdir(), "check-rows-"))));
afterAll(() => rm(folder, { recursive: true }));

/** A group whose turns are dropped as the events of its episodes require. */
function randomGroup(seed: number): GroupToExport {
  const group = randomlyDropped(seed);
  return { ...group, episodes: group.episodes.map((one) => ({ ...one, result: episodeSamples(one.episode) })) };
}

function recordsOf({ episodes }: GroupToExport): ReadonlyMap<string, ExpectedEpisode> {
  return new Map(
    episodes.map(({ episode }) => {
      const record = readRecordedEpisode(Buffer.from(episodeLine(episode)), "a test");
      return [episode.id, expectedOf(record)];
    }),
  );
}

async function faultsOf(lines: readonly string[], records: ReadonlyMap<string, ExpectedEpisode>): Promise<RowFault[]> {
  const path = join(folder, "rows.jsonl");
  await writeFile(path, lines.join("\n"));
  const faults: RowFault[] = [];
  for await (const row of readRows(path)) {
    for (const claim of kindOfRow(row)!.claims(row)) {
      const fault = claim.compare(records.get(claim.episodeId)!, false);
      if (fault !== null) faults.push(fault);
    }
  }
  return faults;
}

const linesOf = (group: GroupToExport, name: (typeof formats)[number]): string[] =>
  exportGroup(group, exportFormats[name], context).rows.map((row: AnyRow) => rowLine(row, exportFormats[name].columns));

describe("rows of random episodes", () => {
  it.each(formats)("of %s pass", async (name) => {
    let rows = 0;
    for (const seed of seeds) {
      const group = randomGroup(seed);
      const lines = linesOf(group, name);
      rows += lines.length;
      expect([seed, await faultsOf(lines, recordsOf(group))]).toEqual([seed, []]);
    }
    expect(rows).toBeGreaterThan(seeds.length / 2);
  });

  it.each(["slime", "verl", "tinker", "trl", "sft-tokens", "atropos"] as const)(
    "of %s do not pass with any one number changed",
    async (name) => {
      const checked = {
        slime: ["tokens", "loss_mask", "rollout_log_probs"],
        verl: ["prompt_ids", "response_ids", "response_mask", "response_logprobs"],
        tinker: ["model_input", "target_tokens", "logprobs", "mask"],
        trl: ["prompt_ids", "completion_ids", "logprobs", "env_mask"],
        "sft-tokens": ["input_ids", "labels"],
        atropos: ["tokens", "masks", "inference_logprobs"],
      }[name];
      let changes = 0;
      for (const seed of seeds) {
        const group = randomGroup(seed);
        const records = recordsOf(group);
        const random = createRandom(seed);
        for (const line of linesOf(group, name)) {
          for (const field of checked) {
            const row = JSON.parse(line) as Record<string, (number | number[])[] | null>;
            const outer = row[field];
            if (!Array.isArray(outer) || outer.length === 0) continue;
            const list = Array.isArray(outer[0])
              ? (outer[random.integer(outer.length)] as number[])
              : (outer as number[]);
            const at = random.integer(list.length);
            const before = list[at]!;
            list[at] = field.includes("mask") && name !== "atropos" ? 1 - before : before + 1;
            changes++;
            expect([seed, field, at, (await faultsOf([JSON.stringify(row)], records)).length]).toEqual([
              seed,
              field,
              at,
              1,
            ]);
          }
        }
      }
      expect(changes).toBeGreaterThan(seeds.length);
    },
  );
});

describe("rows with more than their samples", () => {
  const seed = seeds.find((one) => linesOf(randomGroup(one), "verifiers").length > 0)!;
  type Node = { sampled: boolean; token_ids: number[]; mask: boolean[]; logprobs: number[] };
  type Tree = { traces: { nodes: Node[] }[] };

  async function faultsAfter(name: (typeof formats)[number], change: (row: never) => void): Promise<RowFault[]> {
    const group = randomGroup(seed);
    const row = JSON.parse(linesOf(group, name)[0]!) as object;
    change(row as never);
    return faultsOf([JSON.stringify(row)], recordsOf(group));
  }

  it("of atropos are refused", async () => {
    type Lists = { tokens: number[][]; masks: number[][]; inference_logprobs: number[][] | null; overrides: object[] };
    for (const name of ["tokens", "masks", "overrides"] as const) {
      const change = (row: Lists): void => void (row[name] as unknown[]).push(row[name][0]);
      await expect(faultsAfter("atropos", change), name).rejects.toThrow("differ in length");
    }
    const none = (row: Lists): void => void (row.overrides = []);
    await expect(faultsAfter("atropos", none)).rejects.toThrow("differ in length");
  });

  it("of verifiers are refused: a second trace, and tokens of a node that was not sampled", async () => {
    const second = ({ traces }: Tree): void => void traces.push(traces[0]!);
    await expect(faultsAfter("verifiers", second)).rejects.toThrow("not exactly one trace");
    const trained = ({ traces }: Tree): void => {
      const { nodes } = traces[0]!;
      nodes.push({ ...nodes.find(({ token_ids }) => token_ids.length > 0)!, sampled: false });
    };
    const faults = await faultsAfter("verifiers", trained);
    expect(faults.map(({ message }) => message)).toEqual(["it has tokens in a node that the policy did not sample"]);
  });
});

describe("turnDigests()", () => {
  /** The digests by the words of docs/exporting.md. */
  function documented({ id, trajectory }: Episode): string[] {
    let previous: string | null = null;
    return trajectory.turns.map((turn) => {
      const { index, parent, requestIds = [], weightSpans, observationTokens, sampledTokens, logprobs } = turn;
      const parts = weightSpans.filter(({ tokenCount }) => tokenCount > 0);
      const weights = parts.map(({ tokenCount, dispatch, reply }) => [tokenCount, dispatch, reply]);
      const counts = [observationTokens.length, sampledTokens.length, logprobs?.length ?? 0];
      const head = JSON.stringify([previous, id, index, parent, requestIds, weights, counts]);
      const numbers = Buffer.alloc(4 * counts.reduce((sum, count) => sum + count, 0));
      let at = 0;
      for (const token of [...observationTokens, ...sampledTokens]) at = numbers.writeUInt32LE(token, at);
      for (const logprob of logprobs ?? []) at = numbers.writeFloatLE(logprob, at);
      previous = createHash("sha256").update(head).update("\n").update(numbers).digest("hex");
      return previous;
    });
  }

  it("hashes the documented bytes, and is stored with the episode", () => {
    for (const seed of seeds) {
      for (const { episode } of randomGroup(seed).episodes) {
        const { turns } = episode.trajectory;
        const named = turns.map((turn) => ({ ...turn, requestIds: [`é${turn.index}`, "b"] }));
        const withIds = { ...episode, trajectory: { turns: named } };
        for (const one of [episode, withIds]) {
          expect(turnDigests(one.id, one.trajectory)).toEqual(documented(one));
        }
        const record = readRecordedEpisode(Buffer.from(episodeLine(episode)), "a test");
        expect(record.digests).toEqual(documented(episode));
        expect(expectedOf(record).changedTurn).toBe(null);
      }
    }
  });

  it("changes from a changed turn on, and a record that was changed is found", () => {
    const { episode } = randomGroup(3).episodes.find((one) => one.episode.trajectory.turns.length > 2)!;
    const { turns } = episode.trajectory;
    const before = turnDigests(episode.id, episode.trajectory);
    for (const change of [
      { sampledTokens: Uint32Array.from(turns[1]!.sampledTokens, (id) => id + 1) },
      { observationTokens: Uint32Array.from(turns[1]!.observationTokens, (id) => id + 1) },
      { requestIds: ["another"] },
      { logprobs: Float32Array.from(turns[1]!.sampledTokens, () => -9) },
      { weightSpans: [{ tokenCount: turns[1]!.sampledTokens.length, dispatch: "x", reply: null }] },
    ]) {
      const changed = turns.map((turn) => (turn.index === 1 ? { ...turn, ...change } : turn));
      const after = turnDigests(episode.id, { turns: changed });
      expect(after.map((digest, at) => digest === before[at])).toEqual(turns.map(({ index }) => index < 1));
      const line = JSON.parse(episodeLine({ ...episode, trajectory: { turns: changed } })) as { digests: unknown };
      const record = readRecordedEpisode(Buffer.from(JSON.stringify({ ...line, digests: before })), "a test");
      expect(expectedOf(record).changedTurn).toBe(1);
    }
    expect(turnDigests("another", { turns: [...turns] })[0]).not.toBe(before[0]);
  });

  it("is the same for the logprobs 0 and -0, because rows may have lost the sign", () => {
    const { episode } = randomGroup(3).episodes[0]!;
    const [positive, negative] = [0, -0].map((zero) => {
      const turns = episode.trajectory.turns.map((turn) => ({
        ...turn,
        logprobs: Float32Array.from(turn.sampledTokens, () => zero),
      }));
      return turnDigests(episode.id, { turns });
    });
    expect(negative).toEqual(positive);
  });
});

describe("readRows()", () => {
  it("reads numbers as JSON.parse does, and refuses what is none", async () => {
    const random = createRandom(5);
    const numbers = Array.from({ length: 3000 }, () => {
      const digits = 1 + random.integer(17);
      const whole = Array.from({ length: digits }, () => random.integer(10))
        .join("")
        .replace(/^0+(?=\d)/, "");
      const sign = random.next() < 0.5 ? "-" : "";
      const fraction =
        random.next() < 0.6 ? `.${random.integer(1e9)}${random.integer(1e9)}`.slice(0, 1 + random.integer(17) + 1) : "";
      const exponent = random.next() < 0.2 ? `e${random.next() < 0.5 ? "-" : "+"}${random.integer(30)}` : "";
      return `${sign}${whole}${fraction}${exponent}`;
    });
    const path = join(folder, "numbers.jsonl");
    await writeFile(path, `{"a": [${numbers.join(", ")}], "é\\"": "x]\\\\", "b":[], "c":null}\n`);
    for await (const row of readRows(path)) {
      expect([...(row.numbers("a") as Float64Array)]).toEqual(numbers.map((one) => JSON.parse(one) as number));
      expect([row.value('é"'), [...(row.numbers("b") as Float64Array)], row.numbers("c")]).toEqual(["x]\\", [], null]);
      expect([row.has("d"), row.value("d")]).toEqual([false, undefined]);
    }
    const malformed = [
      "[1,]",
      "[,1]",
      "[1 2]",
      "[1.]",
      "[-]",
      "[1e]",
      "[--1]",
      '[1,"2"]',
      "[[1]]",
      '"x"',
      "[0x1]",
      "[1,,2]",
    ];
    await writeFile(path, malformed.map((list) => `{"a":${list}}`).join("\n"));
    let count = 0;
    for await (const row of readRows(path)) {
      expect(() => row.numbers("a"), malformed[row.line - 1]).toThrow('its field "a" is not a list of numbers');
      count++;
    }
    expect(count).toBe(malformed.length);
  });

  it("splits lines of any length, and reads none as a row that is not an object", async () => {
    const path = join(folder, "lines.jsonl");
    const texts = [1, 3_000_000, 1_048_570, 2_097_140, 5].map((length) => "é".repeat(length / 2 + 1));
    await writeFile(path, `\n${texts.map((text) => JSON.stringify({ text })).join("\n\n")}`);
    const read: unknown[] = [];
    for await (const row of readRows(path)) read.push([row.line, row.value("text") === texts[read.length]]);
    expect(read).toEqual(texts.map((_, at) => [2 + 2 * at, true]));
    const none = ["[]", "1", '{"a":1', '{"a"}', "{a:1}", '{"a":1}x', '{"a":"x}', '{"a":[1}', '{"a":1,,}', '{"a":1,}'];
    await writeFile(path, none.join("\n"));
    for await (const row of readRows(path)) expect(() => row.has("a"), none[row.line - 1]).toThrow("not a JSON object");
  });
});
