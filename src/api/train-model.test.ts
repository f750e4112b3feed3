import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { defineEnvironment } from "../environments/index.ts";
import type { TrainingEvent } from "../learner/index.ts";
import { fakeTorch } from "./fake-torch.test-helper.ts";
import { prepareTinyTraining } from "./tiny-training.test-helper.ts";
import { isRealModel } from "./train-model.ts";
import { readTraining, train } from "./train.ts";

/** A world that pays for what `grade` reads in the one line that the model says. */
const worldOf = (grade: (said: string) => number) =>
  defineEnvironment({
    name: "letters",
    guidelines: "Be kind.",
    tools: { wait: { description: "Waits.", parameters: { type: "object", properties: {} }, run: () => "ok" } },
    tasks: { all: Array.from({ length: 12 }, (_, number) => ({ state: { number } })) },
    grade: ({ said }) => grade(said[0] ?? ""),
  });

/** The tiny world and tokenizer, with the configuration of a model that only torch can train. */
async function prepare(missing: readonly string[] = []) {
  const { cwd, settings } = await prepareTinyTraining();
  const env = worldOf((said) => said.charCodeAt(0) % 2);
  await writeFile(join(cwd, "config.json"), JSON.stringify({ model_type: "llama", hidden_size: 2048 }));
  // The scripted user hangs up after the answer, so that episodes are complete.
  await writeFile(join(cwd, "lines.txt"), "Hi.\nBye. ###STOP###\n");
  const torch = await fakeTorch(join(cwd, "torch"), missing);
  const notices: string[] = [];
  const onEvent = (event: TrainingEvent): void => void (event.type === "notice" && notices.push(event.message));
  const { threads: _, ...others } = settings;
  const shared = { cwd, variables: { HOME: cwd, XDG_CACHE_HOME: join(cwd, "cache") }, env, onEvent };
  const options = { ...shared, ...others, groupSize: 4, python: torch.python, out: "r" };
  return { cwd, torch, notices, options, shared };
}

describe("train() with a real model", () => {
  it("takes folders of other architectures or larger models, and GGUF files, to torch", async () => {
    const { cwd } = await prepare();
    const isReal = async (config: unknown): Promise<boolean> => {
      await writeFile(join(cwd, "config.json"), JSON.stringify(config));
      return isRealModel({ gguf: null, model: "." }, cwd);
    };
    expect(await isReal({ model_type: "qwen3", hidden_size: 128 })).toBe(false);
    expect(await isReal({ model_type: "qwen3", hidden_size: 1024 })).toBe(true);
    expect(await isReal({ model_type: "qwen2", hidden_size: 128 })).toBe(true);
    expect(await isReal([])).toBe(false);
    expect(await isRealModel({ gguf: "x.gguf", model: null }, cwd)).toBe(true);
    expect(await isRealModel({ gguf: null, model: "bookshop-nano" }, cwd)).toBe(false);
  });

  it("has defaults that two cores can pay", async () => {
    const { options } = await prepare();
    const { groups: _, finalTasks: __, evalTasks: ___, ...withoutCounts } = options;
    const { settings } = await readTraining(withoutCounts);
    expect(settings).toMatchObject({ minutes: 40, groups: 4, lr: 1e-4, rank: 16, kl: 0, finalTasks: 60, checkpointEvery: 1 }); // prettier-ignore
  });

  it("steps, measures the mismatch, keeps adapters and the best one, and resumes from the last", async () => {
    const { cwd, torch, notices, options, shared } = await prepare();
    const first = await train({ ...options, steps: 2, evalEvery: 1 });
    expect(first).toMatchObject({ steps: 2, end: { type: "steps" } });
    expect(notices.join("\n")).toContain("500 M parameters on cpu with 2 threads; an adapter of rank 16 (8.0 M)");
    const [start, ...calls] = await torch.calls();
    expect(start?.body["args"]).toEqual(expect.arrayContaining(["--with-parent", "--context", "4096", "step-0"]));
    expect(calls.map(({ path }) => path)).toEqual([
      ...["/learner/accumulate", "/learner/update", "/update_weight_version", "/learner/save"],
      ...["/learner/accumulate", "/learner/update", "/update_weight_version", "/learner/save"],
    ]);
    const [sequence] = calls[0]!.body["sequences"] as readonly Record<string, readonly number[]>[];
    const { tokens = [], targets = [], sampled_logprobs: sampled } = sequence!;
    expect([targets.length, tokens.length - targets[0]!, sampled]).toEqual([2, 2, [-0.5, -0.5]]);
    const csv = (await readFile(join(cwd, "r", "metrics.csv"), "utf8")).trim().split("\n");
    const row = Object.fromEntries(csv[0]!.split(",").map((name, place) => [name, csv[1]!.split(",")[place]]));
    expect(row).toMatchObject({ corrected_tokens: "3", gradient_norm: "0.25", learning_rate: "0.0001" });
    expect(Number(row["logprob_difference_mean"])).toBeCloseTo(0.02, 4);
    expect(Number(row["sampling_kl"])).toBeCloseTo(0.0002, 4);
    expect((await readdir(join(cwd, "r", "checkpoints"))).toSorted()).toEqual(["step-000001", "step-000002"]);

    const second = await train({ ...shared, python: torch.python, resume: "r", steps: 3 });
    expect(second).toMatchObject({ steps: 3, end: { type: "steps" } });
    const again = (await torch.calls()).filter(({ path }) => path === "start")[1];
    expect(again?.body["args"]).toEqual(expect.arrayContaining(["step-2", "--adapter", expect.stringContaining("step-000002")])); // prettier-ignore
    expect((await readdir(join(cwd, "r", "checkpoints"))).toSorted()).toEqual(["step-000002", "step-000003"]);
  });

  it("stops with the reason when three steps have nothing to compare, and keeps what was learnt", async () => {
    const { cwd, options, notices } = await prepare();
    const env = worldOf(() => 0);
    const { end, steps } = await train({ ...options, env, steps: 50 });
    expect([end.type, steps]).toEqual(["no-signal", 3]);
    expect(end.reason).toMatch(/^there is nothing to learn from: in 6 groups of 3 steps .*, and none passes$/);
    expect(notices.join("\n")).toContain("Stopped at step 3");
    expect(await readdir(join(cwd, "r", "checkpoints"))).toContain("step-000003");
  });

  it("says what is missing before anything is written", async () => {
    const { cwd, options, torch } = await prepare(["torch", "peft"]);
    await expect(train(options)).rejects.toThrow(/lacks torch, peft; pass --install to put them into .*about 6 GB/);
    await expect(train({ ...options, python: join(cwd, "nowhere") })).rejects.toThrow("does not start as Python");
    expect(await readdir(cwd)).not.toContain("r");
    expect(await torch.calls()).toEqual([]);
  });

  it("repeats the reason of a process that ends before it serves, and refuses to imitate", async () => {
    const { cwd, options } = await prepare();
    await mkdir(join(cwd, "broken"));
    for (const name of ["config.json", "tokenizer.json", "tokenizer_config.json"]) {
      await writeFile(join(cwd, "broken", name), await readFile(join(cwd, name)));
    }
    await expect(train({ ...options, model: "broken" })).rejects.toThrow(
      "Cannot load the model in broken: it is broken",
    );
    await rm(join(cwd, "r"), { recursive: true, force: true });
    await writeFile(join(cwd, "rows.jsonl"), "");
    await expect(train({ ...options, algorithm: "sft", from: "rows.jsonl" })).rejects.toThrow(
      "learns from rewards only",
    );
  });
});
