import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { initializeWeights, writeCheckpoint } from "../learner/model/index.ts";
import { trainChatTokenizer } from "../tokenizers/index.ts";
import { createTestCli, readAll, type TestCli } from "./cli.test-helper.ts";

const config = {
  vocabularySize: 272,
  hiddenSize: 32,
  layers: 2,
  heads: 2,
  keyValueHeads: 1,
  headSize: 16,
  feedForwardSize: 40,
  ropeTheta: 10_000,
  normEpsilon: 1e-6,
  contextLength: 1024,
};

const environment = `
import { defineEnvironment } from "${pathToFileURL(join(import.meta.dirname, "../../dist/environments/index.js")).href}";
export default defineEnvironment({
  name: "hello",
  guidelines: "Be kind.",
  tools: { wait: { description: "Waits.", parameters: { type: "object", properties: {} }, run: () => "ok" } },
  tasks: { all: Array.from({ length: 12 }, (_, number) => ({ state: { number } })) },
  grade: () => 0,
});`;

/** A folder with an untrained model, an environment, and rows to imitate. */
async function prepare(onStderr: (text: string) => void = () => undefined): Promise<TestCli> {
  const cli = await createTestCli({}, { onStderr });
  const model = join(cli.folder, "model");
  await mkdir(model);
  await writeCheckpoint(model, { config, weights: initializeWeights(config, { seed: 1 }) });
  const files = trainChatTokenizer(["Hi. Bye."], { vocabularySize: 272, contextLength: 1024 });
  await writeFile(join(model, "tokenizer.json"), JSON.stringify(files.tokenizerJson));
  await writeFile(join(model, "tokenizer_config.json"), JSON.stringify(files.tokenizerConfig));
  await writeFile(join(cli.folder, "hello.mjs"), environment);
  await writeFile(join(cli.folder, "run.yaml"), "user: scripted\nuser-lines: lines.txt\n");
  await writeFile(join(cli.folder, "lines.txt"), "Hi.\n");
  const rows = Array.from({ length: 20 }, (_, index) => ({
    tokens: [10, 11, 12 + index, 40, 41, 42, 43],
    loss_mask: [0, 1, 1, 1],
    reward: index % 2,
  }));
  await writeFile(join(cli.folder, "rows.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return cli;
}

const sft = [
  ...["train", "--env", "./hello.mjs", "--config", "run.yaml", "--model", "model", "--algorithm", "sft"],
  ...["--from", "rows.jsonl", "--batch", "4", "--threads", "2", "--lr", "0.01", "--max-new-tokens", "4"],
  ...["--max-turns", "1", "--final-tasks", "3", "--eval-tasks", "2", "--eval-every", "2", "--checkpoint-every", "2"],
];

describe("train", () => {
  it("says what to correct, before anything is made", async () => {
    const { run, folder } = await prepare();
    const wrong = async (...argv: readonly string[]): Promise<string> => {
      const { code, stderr } = await run("train", ...argv);
      expect(code).toBe(2);
      return stderr;
    };
    expect(await wrong("--lr", "0")).toContain('Cannot use --lr: it is "0", expected a number above 0.');
    expect(await wrong("--group-size", "1")).toContain("expected a whole number of at least 2");
    expect(await wrong("--samples", "1")).toContain("Cannot use --group-size");
    expect(await wrong("--model", "nowhere")).toContain("Cannot read model file");
    expect(await wrong("--model", "Acorn/Acorn-7B")).toContain("hf download Acorn/Acorn-7B");
    expect(await wrong("--resume", "nowhere")).toContain('Cannot read "');
    const model = ["--model", "model", "--env", "./hello.mjs", "--config", "run.yaml"];
    expect(await wrong(...model, "--algorithm", "sft")).toContain("pass --from <file|folder>");
    expect(await wrong(...model, "--from", "rows.jsonl")).toContain("use --algorithm sft");
    expect(await wrong(...model, "--algorithm", "sft", "--from", "no.jsonl")).toContain("no such file or folder");
    expect(await wrong(...model, "--split", "dev")).toContain("correct --split");
    expect(await wrong(...model, "--final-from", "5000")).toContain("lower --final-from");
    await writeFile(join(folder, "bad.jsonl"), '{"tokens": [1, 2], "loss_mask": [1, 1]}\n');
    expect(await wrong(...model, "--algorithm", "sft", "--from", "bad.jsonl")).toContain("at line 1: 2 entries");
    expect(await wrong(...model, "--algorithm", "sft", "--from", "rows.jsonl", "--min-reward", "2")).toContain(
      "none of its 20 samples has a reward of 2",
    );
  });

  it("says at once that it was interrupted, and leaves an evaluation where it is", async () => {
    const { run, drain, folder } = await prepare();
    drain.abort();
    const late = await run(...sft, "--steps", "2", "--out", "late");
    expect([late.code, late.stdout]).toEqual([130, expect.stringContaining("train --resume late")]);
    expect([...(await readAll(join(folder, "late"))).keys()]).not.toContain("result.json");
  });

  it("says once that Ctrl-C was heard, while the step it finishes runs", async () => {
    const { run, drain } = await prepare((text) => {
      if (text.includes("step 1,")) drain.abort();
    });
    const { code, stderr } = await run(...sft, "--steps", "100000", "--out", "r");
    expect([code, stderr]).toEqual([130, expect.stringContaining("step 1,")]);
    expect(stderr.match(/Interrupted: the running step is finished and saved/g)).toHaveLength(1);
  });

  it("imitates, keeps checkpoints, and goes on from them bit by bit", async () => {
    const { run, folder } = await prepare();
    const whole = await run(...sft, "--steps", "6", "--out", "whole");
    expect(whole.stderr).toContain("step 6, loss");
    expect(whole.code).toBe(0);
    expect(whole.stdout).toMatch(/6 steps in .*: 6 steps are done/);
    expect(whole.stdout).toMatch(/all +3 +0\.0/);
    const files = [...(await readAll(join(folder, "whole"))).keys()];
    expect(files).toContain("pass-rate.svg");
    expect(files.filter((file) => file.endsWith("training.json")).toSorted()).toEqual([
      "checkpoints/step-000004/training.json",
      "checkpoints/step-000006/training.json",
    ]);
    expect(files).toContain("checkpoints/step-000006/tokenizer.json");

    expect((await run(...sft, "--steps", "3", "--out", "parts")).code).toBe(0);
    const refused = await run("train", "--resume", "parts", "--lr", "1");
    expect(refused.stderr).toContain("a run continues as it began");
    const progress = join(folder, "parts/checkpoints/step-000003/training.json");
    const saved = await readFile(progress, "utf8");
    await writeFile(progress, saved.replace('"format": 1', '"format": 2'));
    const newer = await run("train", "--resume", "parts", "--steps", "6");
    expect([newer.code, newer.stderr]).toEqual([
      2,
      expect.stringContaining("has format 2, but this version writes format 1"),
    ]);
    await writeFile(progress, saved);
    expect((await run("train", "--resume", "parts", "--steps", "6")).code).toBe(0);
    for (const file of ["model.safetensors", "optimizer.safetensors"]) {
      const [one, other] = await Promise.all(
        ["whole", "parts"].map((name) => readFile(join(folder, name, "checkpoints/step-000006", file))),
      );
      expect(one!.equals(other!), file).toBe(true);
    }
    const losses = async (name: string): Promise<number[]> => {
      const [header = "", ...lines] = (await readFile(join(folder, name, "metrics.csv"), "utf8")).trim().split("\n");
      const place = header.split(",").indexOf("loss");
      return lines.map((line) => Number(line.split(",")[place]));
    };
    expect(await losses("parts")).toEqual(await losses("whole"));
    const [first, ...rest] = await losses("whole");
    expect(rest.at(-1)).toBeLessThan(first!);
    expect((await run(...sft, "--out", "whole")).stderr).toContain("it holds a training");
  });
});
