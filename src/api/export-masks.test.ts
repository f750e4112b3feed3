import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";

import { createFunctionSampler, createSglangFront, createVllmFront } from "../testing/index.ts";
import { exportRun } from "./export-run.ts";
import { rollout } from "./rollout.ts";
import { serve } from "./serve.ts";

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

/** Kept ids that depend on the token and its position, so that a misplaced list is noticed; the token comes last. */
const keptAt = (sequence: ArrayLike<number>, at: number): number[] => [
  ...Array.from({ length: (sequence[at]! + at) % 5 }, (_, one) => 200 + ((at * 7 + one) % 900)),
  sequence[at]!,
];

/** Experts of three layers, two for each token. */
const chosenAt = (sequence: ArrayLike<number>, at: number): number[][] =>
  Array.from({ length: 3 }, (_, layer) => [(sequence[at]! + at + layer) % 200, (sequence[at]! * 3 + layer) % 200]);

const sampling = { topK: 40, topP: 0.9, temperature: 1 } as const;

async function served(server: "sglang" | "vllm", { reports = true } = {}) {
  const cwd = await mkdtemp(join(tmpdir(), "masks-"));
  folders.push(cwd);
  // Ids of the shipped model's tokenizer.
  const sampler = createFunctionSampler(({ promptIds }) => ({ ids: [70 + (promptIds.length % 9), 71, 72] }));
  const options = { sampler, ...(reports ? { samplingMask: keptAt } : {}) };
  const front =
    server === "sglang" ? createSglangFront(options) : createVllmFront({ ...options, routedExperts: chosenAt });
  const listener = await front.listen();
  const settings = {
    env: "bookshop",
    engine: server,
    url: listener.url,
    model: "bookshop-1m",
    tasks: "0-1",
    ...(server === "vllm" ? ({ logprobsMode: "processed" } as const) : {}),
  } as const;
  const common = { ...settings, ...sampling, groupSize: 2, maxTurns: 3, maxNewTokens: 8, cwd, variables: {} } as const;
  return { cwd, options: common, close: () => listener.close() };
}

type Place = { readonly file: string; readonly offset: number; readonly tokens: number; readonly ids: number };
type Facts = { readonly sampling_mask?: Place; readonly truncated?: { readonly logprobs: string } };
type Row = {
  readonly tokens?: readonly number[];
  readonly prompt_ids?: readonly number[];
  readonly response_ids?: readonly number[];
  readonly loss_mask?: readonly number[];
  readonly response_mask?: readonly number[];
  readonly metadata?: Facts;
  readonly extra_fields?: Facts;
};

type InlineFacts = {
  readonly sampling_mask: {
    readonly base64: string;
    readonly tokens: number;
    readonly ids: number;
    readonly file: string;
  };
  readonly routed_experts?: { readonly base64: string; readonly dtype: string; readonly shape: readonly number[] };
};

const factsOf = (row: Row): Facts => (row.metadata ?? row.extra_fields)!;
const rowsIn = async (path: string): Promise<Row[]> =>
  (await readFile(path, "utf8"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Row);

/** The lists at a place of the file. */
function listsAt(bytes: Buffer, { offset, tokens, ids }: Place): number[][] {
  const lists: number[][] = [];
  let at = offset;
  const next = (): number => {
    at += 4;
    return bytes.readUInt32LE(at - 4);
  };
  for (let token = 0; token < tokens; token++) lists.push(Array.from({ length: next() }, next));
  expect(at).toBe(offset + (tokens + ids) * 4);
  return lists;
}

describe("kept ids, from a server to the rows of trainers", () => {
  test.each([
    ["sglang", "slime"],
    ["vllm", "verl"],
  ] as const)("%s, %s: the lists of the sampled tokens, beside the rows", async (server, format) => {
    const { cwd, options, close } = await served(server);
    const experts = server === "vllm" ? { routedExperts: "3x2" } : {};
    const { folder, totals } = await rollout({ ...options, ...experts, samplingMask: true });
    expect(totals).toMatchObject({ episodesFinished: 4, outcomes: { failed: 0 } });
    const output = join(cwd, "rows.jsonl");
    const result = await exportRun({ runs: join(cwd, folder), format, output, cwd });
    const bytes = await readFile(`${output}.sampling-masks.bin`);
    expect(result?.maskBytes).toBe(bytes.length);
    const rows = await rowsIn(output);
    let end = 0;
    for (const row of rows) {
      const tokens = row.tokens ?? [...row.prompt_ids!, ...row.response_ids!];
      const mask = row.loss_mask ?? row.response_mask!;
      const { sampling_mask: place, truncated } = factsOf(row);
      expect(truncated).toEqual({ logprobs: "kept" });
      expect(place).toMatchObject({ file: "rows.jsonl.sampling-masks.bin", offset: end });
      const first = tokens.length - mask.length;
      const sampled = [...mask.keys()].filter((at) => mask[at] === 1).map((at) => first + at);
      expect(listsAt(bytes, place!)).toEqual(sampled.map((at) => keptAt(tokens, at)));
      end += (place!.tokens + place!.ids) * 4;
    }
    expect(end).toBe(bytes.length);
    expect((await readFile(`${output}.routed-experts.bin`).catch(() => null))?.length ?? 0).toBe(result?.expertBytes);
    expect(result!.expertBytes > 0).toBe(server === "vllm");
    const notices: string[] = [];
    const onNotice = (message: string): void => void notices.push(message);
    await exportRun({ runs: join(cwd, folder), format: "tinker", output: join(cwd, "t.jsonl"), cwd, onNotice });
    expect(notices).toHaveLength(1);
    await close();
  });

  test.each([
    ["sglang", "slime"],
    ["vllm", "verl"],
  ] as const)("%s, %s: rows of a service have the bytes themselves, after a restart too", async (server, format) => {
    const { options, close } = await served(server);
    const { tasks, groupSize, ...given } = options;
    const experts = server === "vllm" ? { routedExperts: "3x2" } : {};
    const settings = { ...given, ...experts, samplingMask: true, out: "service", listen: "127.0.0.1:0" } as const;
    const ask = async <T>(url: string, body?: object): Promise<T> => {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(
        url,
        body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) },
      );
      return (await answer.json()) as T;
    };
    const first = await serve(settings);
    const body = { task_index: Number(tasks[0]), group_size: groupSize, wait_seconds: 60 };
    const { id } = await ask<{ readonly id: string }>(`${first.url}/v1/groups`, body);
    type SentRow = Omit<Row, "metadata" | "extra_fields"> & Partial<Record<"metadata" | "extra_fields", InlineFacts>>;
    type Rows = { readonly samples: readonly SentRow[] };
    const rowsOf = async (url: string) => (await ask<Rows>(`${url}/v1/groups/${id}/samples?format=${format}`)).samples;
    const rows = await rowsOf(first.url);
    expect(rows).toHaveLength(2);
    for (const row of rows) {
      const tokens = row.tokens ?? [...row.prompt_ids!, ...row.response_ids!];
      const mask = row.loss_mask ?? row.response_mask!;
      const { sampling_mask: place, routed_experts: chosen } = (row.metadata ?? row.extra_fields)!;
      const start = tokens.length - mask.length;
      const sampled = [...mask.keys()].filter((at) => mask[at] === 1).map((at) => start + at);
      const bytes = Buffer.from(place.base64, "base64");
      expect(listsAt(bytes, { ...place, offset: 0 })).toEqual(sampled.map((at) => keptAt(tokens, at)));
      if (server === "sglang") expect(chosen).toBeUndefined();
      else {
        expect(chosen).toMatchObject({ dtype: "uint8", shape: [tokens.length - 1, 3, 2] });
        const all = tokens.slice(0, -1).flatMap((_, at) => chosenAt(tokens, at).flat());
        expect([...Buffer.from(chosen!.base64, "base64")]).toEqual(all);
      }
    }
    await first.close();
    const second = await serve(settings);
    expect(await rowsOf(second.url)).toEqual(rows);
    await second.close();
    await expect(serve({ ...settings, out: "shared", processes: 2 })).rejects.toThrow("without other processes");
    await close();
  });

  test("without the setting, rows say which distribution their logprobs are of, if sampling is truncated at all", async () => {
    const cases = [
      ["sglang", sampling, "whole"],
      ["vllm", sampling, "kept"],
      ["sglang", { topK: -1, topP: 1, minP: 0.1 }, "whole"],
      ["sglang", { topK: -1, topP: 1 }, null],
      ["sglang", { ...sampling, temperature: 0 }, null],
      ["sglang", { topK: -1, topP: 1, samplingExtra: { top_p: 0.5 } }, "whole"],
    ] as const;
    for (const [server, given, expected] of cases) {
      const { cwd, options, close } = await served(server);
      const { folder } = await rollout({ ...options, ...given });
      const output = join(cwd, "rows.jsonl");
      await exportRun({ runs: join(cwd, folder), format: "slime", output, cwd });
      const facts = (await rowsIn(output)).map(factsOf);
      expect(facts.length).toBeGreaterThan(0);
      for (const { truncated = null, sampling_mask: place } of facts) {
        expect(truncated).toEqual(expected === null ? null : { logprobs: expected });
        expect(place).toBeUndefined();
      }
      await expect(readFile(join(cwd, folder, "sampling-masks.bin"))).rejects.toThrow("ENOENT");
      await close();
    }
  });

  test("a server that reports none fails every episode by name; settings that cannot work are refused before", async () => {
    const silent = await served("sglang", { reports: false });
    const { totals, folder } = await rollout({ ...silent.options, samplingMask: true });
    expect(totals).toMatchObject({ episodesFinished: 4, outcomes: { failed: 4 } });
    expect(await readFile(join(silent.cwd, folder, "episodes.jsonl"), "utf8")).toContain(
      "output_token_sampling_mask is missing, and was requested; use SGLang 0.5.23 or newer",
    );
    const refused = (given: Partial<Parameters<typeof rollout>[0]>): Promise<unknown> =>
      rollout({ ...silent.options, samplingMask: true, ...given });
    await expect(refused({ topK: -1 })).rejects.toThrow("set --top-k");
    await silent.close();
    const vllm = await served("vllm");
    await expect(rollout({ ...vllm.options, samplingMask: true, logprobsMode: "raw" })).rejects.toThrow(
      "pass --logprobs-mode processed",
    );
    await vllm.close();
    const { cwd } = silent;
    await expect(
      rollout({ env: "bookshop", cwd, variables: {}, engine: "expert", samplingMask: true }),
    ).rejects.toThrow('engine "expert" does not report them');
  });

  test("runs with and without are not exported together", async () => {
    const { cwd, options, close } = await served("sglang");
    const one = await rollout({ ...options, samplingMask: true, out: "one" });
    const two = await rollout({ ...options, out: "two" });
    const runs = [one, two].map(({ folder }) => join(cwd, folder));
    const output = join(cwd, "rows.jsonl");
    await expect(exportRun({ runs, format: "verl", output, cwd })).rejects.toThrow(
      "renormalizes the logprobs of all or of none",
    );
    await expect(readFile(`${output}.sampling-masks.bin`)).rejects.toThrow("ENOENT");
    await close();
  });
});
