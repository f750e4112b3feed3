import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";

import { createFunctionSampler, createSglangFront } from "../testing/index.ts";
import { exportRun } from "./export-run.ts";
import { rollout } from "./rollout.ts";

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

const [layers, topk] = [4, 2];

/**
 * Experts computed from the token, its position and the token before it, so that rows of another
 * position or sequence are detected.
 */
function chosen(sequence: ArrayLike<number>, at: number): number[] {
  return Array.from(
    { length: layers * topk },
    (_, one) => (sequence[at]! + 3 * at + (sequence[at - 1] ?? 7) + one) % 200,
  );
}

async function served(routes: boolean) {
  const cwd = await mkdtemp(join(tmpdir(), "experts-"));
  folders.push(cwd);
  // Ids of the shipped model's tokenizer; some outputs end with an end token.
  const sampler = createFunctionSampler(({ promptIds }) => ({ ids: [70 + (promptIds.length % 9), 71, 72] }));
  const front = createSglangFront({ sampler, ...(routes ? { routedExperts: chosen } : {}) });
  const listener = await front.listen();
  const settings = {
    env: "bookshop",
    engine: "sglang",
    url: listener.url,
    model: "bookshop-1m",
    tasks: "0-1",
  } as const;
  const options = { ...settings, groupSize: 2, maxTurns: 3, maxNewTokens: 8, cwd, variables: {} } as const;
  return { cwd, options, close: () => listener.close() };
}

describe("routed experts, from a server to the rows of trainers", () => {
  test.each(["slime", "verl"] as const)(
    "%s: an array beside the rows, of each row's tokens but the last",
    async (format) => {
      const { cwd, options, close } = await served(true);
      const { folder, totals } = await rollout({ ...options, routedExperts: `${layers}x${topk}` });
      expect(totals.episodesFinished).toBe(4);
      const output = join(cwd, "rows.jsonl");
      const result = await exportRun({ runs: join(cwd, folder), format, output, cwd });
      const bytes = await readFile(`${output}.routed-experts.bin`);
      expect(result?.expertBytes).toBe(bytes.length);
      const rows = (await readFile(output, "utf8")).trim().split("\n").map((line) => JSON.parse(line) as Row); // prettier-ignore
      expect(rows.length).toBe(result?.rows);
      let end = 0;
      for (const row of rows) {
        const place = (row.metadata ?? row.extra_fields)!.routed_experts;
        const tokens = row.tokens ?? [...row.prompt_ids!, ...row.response_ids!];
        expect(place).toMatchObject({ file: "rows.jsonl.routed-experts.bin", offset: end, dtype: "uint8" });
        expect(place.shape).toEqual([tokens.length - 1, layers, topk]);
        const length = place.shape.reduce((product, one) => product * one, 1);
        const expected = tokens.slice(0, -1).flatMap((_, at) => chosen(tokens, at));
        expect([...bytes.subarray(end, end + length)]).toEqual(expected);
        end += length;
      }
      expect(end).toBe(bytes.length);
      // Formats without a field for experts report that and export the rest.
      const notices: string[] = [];
      const onNotice = (message: string): void => void notices.push(message);
      await exportRun({ runs: join(cwd, folder), format: "tinker", output: join(cwd, "t.jsonl"), cwd, onNotice });
      expect(notices).toEqual(["Note: rows of tinker have no place for routed experts, which the run kept."]);
      await close();
    },
  );

  test("a server that reports none fails every episode by name, and other policies are refused before they begin", async () => {
    const { options, close } = await served(false);
    const { totals } = await rollout({ ...options, routedExperts: "4x2" });
    expect(totals).toMatchObject({ episodesFinished: 4, outcomes: { failed: 4 } });
    await expect(rollout({ ...options, routedExperts: "4" })).rejects.toThrow("like 48x8");
    const embedded = {
      env: "bookshop",
      engine: "embedded",
      cwd: options.cwd,
      variables: {},
      routedExperts: "4x2",
    } as const;
    await expect(rollout(embedded)).rejects.toThrow('engine "embedded" does not report them; only SGLang and vLLM do');
    await close();
  });

  test("runs with and without are not exported together", async () => {
    const { cwd, options, close } = await served(true);
    const one = await rollout({ ...options, routedExperts: `${layers}x${topk}`, out: "one" });
    const two = await rollout({ ...options, out: "two" });
    const runs = [one, two].map(({ folder }) => join(cwd, folder));
    const output = join(cwd, "rows.jsonl");
    await expect(exportRun({ runs, format: "verl", output, cwd })).rejects.toThrow(
      "replays the routing of all or of none",
    );
    await expect(readFile(`${output}.routed-experts.bin`)).rejects.toThrow("ENOENT");
    await close();
  });
});

type Place = { readonly offset: number; readonly shape: readonly number[] };
type Row = {
  readonly tokens?: readonly number[];
  readonly prompt_ids?: readonly number[];
  readonly response_ids?: readonly number[];
  readonly metadata?: { readonly routed_experts: Place };
  readonly extra_fields?: { readonly routed_experts: Place };
};
