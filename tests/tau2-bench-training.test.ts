// Path from τ²-bench to a trainer: telecom with the rule-following customer and the scripted agent,
// from the command's functions to rows of every format, to the service that trainers call, and to
// the learner. The user acts; none of its actions is trained.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exportRun } from "../src/api/export-run.ts";
import { rollout } from "../src/api/rollout.ts";
import { type RunningService, serve, type ServeOptions } from "../src/api/serve.ts";
import { train } from "../src/api/train.ts";
import type { Episode } from "../src/core/index.ts";
import { loadTau2Data } from "../src/environments/tau2-bench/index.ts";
import { type ExportFormatName, exportFormatNames } from "../src/export/index.ts";
import { initializeWeights, writeCheckpoint } from "../src/learner/model/index.ts";
import { dumpJson } from "../src/python-semantics/json/index.ts";
import { readEpisodes } from "../src/store/index.ts";
import { createFunctionSampler, createSglangFront } from "../src/testing/index.ts";
import { createReadableTokenizer, trainChatTokenizer } from "../src/tokenizers/index.ts";
import { sharedFolder } from "./conformance/shared-folder.ts";

const data = sharedFolder("tau2-bench");
const tokenizer = createReadableTokenizer();
const telecom = { env: "tau2-bench/telecom", data: data ?? "", user: "rules", variables: {} } as const;

type Fields = Readonly<Record<string, unknown>>;
const ids = (value: unknown): number[] => value as number[];
const text = (tokens: readonly number[]): string => tokenizer.decode(Uint32Array.from(tokens));
/** Tokens that the mask selects; the mask covers the end of the tokens, or all. */
const masked = (tokens: readonly number[], mask: readonly unknown[], isTrained: (one: unknown) => boolean): number[] =>
  tokens.slice(tokens.length - mask.length).filter((_, at) => isTrained(mask[at]));
const isOne = (one: unknown): boolean => one === 1 || one === true;
const isLabel = (one: unknown): boolean => one !== -100;

/** Formats of viewers: logs of every episode, which are not used for training. */
const logs: readonly ExportFormatName[] = ["inspect", "atif"];
const formats = exportFormatNames.filter((name) => !logs.includes(name));

/** The tokens that a trainer learns from each sequence of a row, as it reads the row. */
const trainedBy: Partial<Record<ExportFormatName, (row: Fields) => number[][]>> = {
  slime: (row) => [masked(ids(row["tokens"]), ids(row["loss_mask"]), isOne)],
  verl: (row) => [masked(ids(row["response_ids"]), ids(row["response_mask"]), isOne)],
  trl: (row) => [masked(ids(row["completion_ids"]), ids(row["env_mask"]), isOne)],
  tinker: (row) => [masked(ids(row["target_tokens"]), ids(row["mask"]), isOne)],
  "sft-tokens": (row) => [masked(ids(row["input_ids"]), ids(row["labels"]), isLabel)],
  atropos: (row) =>
    (row["tokens"] as number[][]).map((tokens, at) => masked(tokens, (row["masks"] as number[][])[at]!, isLabel)),
  verifiers: (row) => {
    const [{ nodes }] = row["traces"] as [{ nodes: readonly { token_ids: number[]; mask: boolean[] }[] }];
    return [nodes.flatMap(({ token_ids: tokens, mask }) => masked(tokens, mask, isOne))];
  },
};

describe.skipIf(data === null)("τ²-bench's telecom (skipped without ../shared/tau2-bench)", () => {
  let cwd = "";
  let episodes: readonly Episode[] = [];
  beforeAll(async () => {
    cwd = await mkdtemp(join(tmpdir(), "tau2-training-"));
    await rollout({
      ...telecom,
      cwd,
      split: "base",
      tasks: "0,19,38,57,76,95",
      groupSize: 2,
      seed: 3,
      out: "run",
      engine: "expert",
      expertNoise: 0.2,
      quiet: true,
    });
    const read: Episode[] = [];
    for await (const episode of readEpisodes(join(cwd, "run"))) read.push(episode);
    episodes = read;
  }, 120_000);
  afterAll(() => rm(cwd, { recursive: true }));

  /** Calls of the user, and their results. */
  const userSide = ({ events }: Episode): string[] =>
    events.flatMap((event) => {
      if (event.type === "user-line") return (event.line.calls ?? []).map(({ id }) => `"${id}"`);
      return [];
    });

  test("the run has what exports must leave out: users who act, and rewards that differ", () => {
    expect(episodes).toHaveLength(12);
    expect(new Set(episodes.map(({ reward }) => reward))).toEqual(new Set([0, 1]));
    expect(episodes.filter((episode) => userSide(episode).length > 0).length).toBeGreaterThan(3);
  });

  test.each(formats)("%s: each sampled token is trained once, and nothing that the user did", async (format) => {
    const result = await exportRun({ runs: "run", format, output: `${format}.jsonl`, cwd });
    const lines = (await readFile(join(cwd, `${format}.jsonl`), "utf8")).split("\n").filter((line) => line !== "");
    const rows = lines.map((line) => JSON.parse(line) as Fields);
    expect(rows).toHaveLength(result!.rows);
    // Calls of users are in no prompt, and therefore in no row.
    const callIds = episodes.flatMap(userSide);
    expect(callIds.length).toBeGreaterThan(20);
    for (const line of lines) expect(callIds.filter((id) => line.includes(id))).toEqual([]);
    const sampled = episodes.map(({ trajectory }) => trajectory.turns.flatMap((turn) => [...turn.sampledTokens]));
    const trained = trainedBy[format];
    if (trained === undefined) {
      expect(result!.trainedTokens).toBeNull();
      for (const row of rows) expectMessages(row);
      return;
    }
    expect(result!.trainedTokens).toBe(sampled.flat().length);
    expect(rows.flatMap(trained).map(text).toSorted()).toEqual(sampled.map(text).toSorted());
  });

  test.each(logs)("%s: every episode, and no tool of the user among the agent's", async (format) => {
    await exportRun({ runs: "run", format, output: format, cwd });
    const written = await readFile(join(cwd, format), "utf8");
    for (const { id } of episodes) expect(written).toContain(dumpJson(id));
    expect(written).not.toContain('"name": "toggle_airplane_mode"');
  });

  /** Expects messages of both sides that any chat template accepts, and only the agent's tools. */
  function expectMessages(row: Fields): void {
    const names = (JSON.parse(row["tools"] as string) as { function: { name: string } }[]).map(
      (tool) => tool.function.name,
    );
    expect(names).toHaveLength(13);
    expect(names).not.toContain("toggle_airplane_mode");
    type Shown = { readonly role: string; readonly content: string; readonly tool_calls: readonly unknown[] | null };
    const opening = (row["prompt"] ?? (row["messages"] as Shown[]).slice(0, 3)) as Shown[];
    expect(opening.map(({ role }) => role)).toEqual(["system", "assistant", "user"]);
    expect(opening[1]!.content).toBe("Hi! How can I help you today?");
    for (const list of [row["chosen"], row["rejected"], row["messages"]] as (Shown[] | undefined)[]) {
      const said = list?.filter(({ role }) => role === "assistant") ?? [];
      expect(said.filter(({ content, tool_calls: calls }) => content === "" && calls === null)).toEqual([]);
    }
  }

  describe("serve", () => {
    const ask = async <T>(url: string, body?: unknown): Promise<T> => {
      const options = { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
      return (await (await fetch(url, body === undefined ? {} : options)).json()) as T;
    };
    const served = async (options: Partial<ServeOptions>, use: (service: RunningService) => Promise<void>) => {
      const out = await mkdtemp(join(cwd, "service-"));
      const service = await serve({ ...telecom, engine: "expert", ...options, listen: "127.0.0.1:0", out, cwd });
      try {
        await use(service);
      } finally {
        await service.close();
      }
    };
    type Group = { readonly id: string; readonly status: string; readonly episodes: readonly Fields[] };

    test.each(["small", "base", "full", "test", "train"])("answers requests for groups of split %s", async (split) => {
      await served({ split, expertNoise: 0 }, async ({ url, split: named }) => {
        expect(named).toBe(split);
        const group = await ask<Group>(`${url}/v1/groups`, { task_index: 7, samples: 2, wait_seconds: 60 });
        expect(group.status).toBe("ended");
        expect(group.episodes.map(({ outcome, reward }) => [outcome, reward])).toEqual([
          ["completed", 1],
          ["completed", 1],
        ]);
        const { samples } = await ask<{ samples: readonly Fields[] }>(
          `${url}/v1/groups/${group.id}/samples?format=slime`,
        );
        expect(samples.map((row) => masked(ids(row["tokens"]), ids(row["loss_mask"]), isOne).length)).not.toContain(0);
      });
    });

    test("hands out batches of groups that teach something, and none twice", async () => {
      await served({ split: "train", expertNoise: 0.2 }, async ({ url }) => {
        const wanted = { samples: 3, batch_groups: 2, max_staleness: 0, filters: ["zero-signal"], seed: 3 };
        const { id } = await ask<Group>(`${url}/v1/producers`, wanted);
        const seen = new Set<string>();
        for (const number of [0, 1, 2]) {
          type Batch = { readonly status: string; readonly groups: readonly Group[] };
          const batch = await ask<Batch>(`${url}/v1/producers/${id}/batches/${number}`, { wait_seconds: 60 });
          expect(batch.status).toBe("ready");
          for (const group of batch.groups) {
            expect(new Set(group.episodes.map(({ reward }) => reward)).size).toBe(2);
            seen.add(group.id);
          }
          await ask(`${url}/v1/weights`, { version: number + 1 });
        }
        expect(seen.size).toBe(6);
      });
    });

    test("without a user: the agent gets the ticket and the tools of both sides", async () => {
      const endTokenIds = [tokenizer.tokenId("<|im_end|>")!];
      const prompts: string[] = [];
      const sampler = createFunctionSampler(({ promptIds }) => {
        prompts.push(tokenizer.decode(promptIds));
        const name = prompts.length === 1 ? "toggle_airplane_mode" : "done";
        return { ids: tokenizer.encode(`<tool_call>\n{"name": "${name}", "arguments": {}}\n</tool_call><|im_end|>`) };
      });
      const front = await createSglangFront({ sampler, tokenizer, endTokenIds }).listen();
      const engine = { engine: "sglang", url: front.url, model: "readable", user: "task", solo: true } as const;
      await served({ ...engine, split: "small" }, async ({ url, environment }) => {
        expect(environment).toBe("tau2-bench/telecom-solo");
        const group = await ask<Group>(`${url}/v1/groups`, { task_index: 0, samples: 1, wait_seconds: 60 });
        expect(group.episodes).toMatchObject([{ outcome: "completed", stop_reason: "tool_ended", reward: 0 }]);
      });
      await front.close();
      expect(prompts[1]).toContain("Airplane Mode is now ON");
    });
  });

  test("train: a model imitates the expert's episodes, and learns from its own", async () => {
    const { policy, tools } = await loadTau2Data({ domain: "telecom", folder: data! });
    const texts = [policy, ...tools.map(({ definition }) => dumpJson(definition))];
    const shape = { vocabularySize: 1024, contextLength: 20_480 };
    const files = trainChatTokenizer(texts, shape);
    const layer = { hiddenSize: 16, layers: 1, heads: 1, keyValueHeads: 1, headSize: 16, feedForwardSize: 24 };
    const config = { ...shape, ...layer, ropeTheta: 10_000, normEpsilon: 1e-6 };
    const model = await mkdtemp(join(cwd, "model-"));
    await writeCheckpoint(model, { config, weights: initializeWeights(config, { seed: 1 }) });
    await writeFile(join(model, "tokenizer.json"), JSON.stringify(files.tokenizerJson));
    await writeFile(join(model, "tokenizer_config.json"), JSON.stringify(files.tokenizerConfig));
    const shared = { ...telecom, cwd, model };
    await expect(train({ ...telecom, cwd, out: "short" })).rejects.toThrow(
      /before anything is said, and the model's context has 2048/,
    );
    const expert = {
      engine: "expert",
      expertNoise: 0,
      split: "small",
      tasks: "0-5",
      out: "expert",
      quiet: true,
    } as const;
    const { totals } = await rollout({ ...shared, ...expert });
    const short = {
      ...shared,
      split: "train",
      evalSplit: "small",
      finalTasks: 2,
      evalTasks: 1,
      threads: 1,
      maxTurns: 2,
    };
    const losses: number[] = [];
    const cloned = await train({
      ...short,
      algorithm: "sft",
      from: "expert",
      batch: 6,
      steps: 6,
      lr: 0.01,
      maxNewTokens: 16,
      out: "sft",
      onEvent: (event) => {
        const loss = event.type === "progress" ? event.progress.metrics?.["loss"] : undefined;
        if (typeof loss === "number" && loss !== losses.at(-1)) losses.push(loss);
      },
    });
    expect(cloned.steps).toBe(6);
    expect(totals.trainedTokens).toBeGreaterThan(1000);
    expect(losses.at(-1)).toBeLessThan(losses[0]! - 0.2);
    const metrics: Fields[] = [];
    const own = { ...short, maxNewTokens: 16, steps: 1, groups: 1, maxGroups: 1, groupSize: 2, out: "grpo" };
    const learnt = await train({
      ...own,
      onEvent: (event) =>
        void (event.type === "progress" && event.progress.metrics && metrics.push(event.progress.metrics)),
    });
    expect(learnt.steps).toBe(1);
    expect(metrics[0]).toMatchObject({ episodes: 2, failed_episodes: 0, truncated_episodes: 2 });
  });
});
