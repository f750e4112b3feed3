import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { defineEnvironment } from "../environments/index.ts";
import type { TrainingEvent } from "../learner/index.ts";
import { loadModelFolder } from "../tokenizers/index.ts";
import { planCloning } from "./from-expert.ts";
import { rollout } from "./rollout.ts";
import { train, type TrainOptions } from "./train.ts";

const env = defineEnvironment<{ readonly word: string }>({
  name: "echo",
  guidelines: "Say the word again.",
  tools: { wait: { description: "Waits.", parameters: { type: "object", properties: {} }, run: () => "ok" } },
  tasks: {
    train: ["Salt", "Moon", "Fox", "Owl"].map((word) => ({ state: { word }, info: { kind: word } })),
    validation: ["Key", "Map"].map((word) => ({ state: { word } })),
  },
  grade: ({ said }) => (said.some((line) => line.includes("Hi")) ? 1 : 0),
});

let cwd: string;
beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), "from-expert-"));
  await writeFile(join(cwd, "lines.txt"), "Hi.\nBye.\n");
  await writeFile(join(cwd, "expert.mjs"), `export default ({ random }) => (random() < 2 ? "Hi there." : "");`);
  await writeFile(join(cwd, "silent.mjs"), `export default () => "";`);
  await writeFile(join(cwd, "none.mjs"), `export default 3;`);
  await writeFile(join(cwd, "odd.mjs"), `export default () => ({ call: { name: "wait" } });`);
});
afterAll(() => rm(cwd, { recursive: true }));

const small: TrainOptions = {
  env,
  user: "scripted",
  userLines: "lines.txt",
  maxTurns: 1,
  maxNewTokens: 4,
  threads: 1,
  variables: {},
  steps: 1,
  groups: 1,
  groupSize: 2,
  maxGroups: 1,
  finalTasks: 2,
  evalTasks: 1,
  cloneTokens: 3000,
  minutes: 10,
};

describe("train({ fromExpert })", () => {
  it("makes tokenizer and model of an expert's conversations, learns from rewards, and can be resumed", async () => {
    const notices: string[] = [];
    const onEvent = (event: TrainingEvent): void => void (event.type === "notice" && notices.push(event.message));
    const made = await train({ ...small, cwd, fromExpert: "expert.mjs", out: "made", onEvent });
    expect(made).toMatchObject({ steps: 1, end: { type: "steps" } });
    expect(made.greedy?.[0]).toMatchObject({ kind: "all", tasks: 2 });
    expect(notices.some((line) => line.startsWith("cloning: step"))).toBe(true);
    const { tokenizer } = await loadModelFolder(join(cwd, "made", "model"));
    // The tokenizer is trained on these conversations; those of the shipped models are larger.
    expect(tokenizer.vocabularySize).toBeLessThan(700);
    const facts = JSON.parse(await readFile(join(cwd, "made", "train.json"), "utf8")) as { model: string };
    expect(facts.model).toBe(join("made", "model"));
    const resumed = await train({ cwd, variables: {}, env, resume: "made", steps: 2 });
    expect(resumed).toMatchObject({ steps: 2, end: { type: "steps" } });
  });

  it("continues a cloning that was interrupted, and ends with the same weights", async () => {
    const stop = new AbortController();
    const onEvent = (event: TrainingEvent): void => {
      if (event.type === "notice" && event.message.startsWith("cloning: step")) stop.abort();
    };
    const options = { ...small, cwd, fromExpert: "expert.mjs", out: "again" };
    const stopped = await train({ ...options, onEvent, drain: stop.signal });
    expect(stopped).toMatchObject({ steps: 0, end: { type: "interrupted" }, checkpoint: "", comparison: null });
    await train(options);
    const weights = (out: string): Promise<Buffer> => readFile(join(cwd, out, "model", "model.safetensors"));
    expect((await weights("again")).equals(await weights("made"))).toBe(true);
  });

  it("clones recorded episodes of the same environment", async () => {
    await rollout({
      env,
      user: "scripted",
      userLines: "lines.txt",
      maxTurns: 1,
      maxNewTokens: 4,
      variables: {},
      cwd,
      engine: "embedded",
      model: join(cwd, "made", "model"),
      split: "train",
      tasks: "0-3",
      out: "recorded",
    });
    const made = await train({ ...small, cwd, fromExpert: "recorded", out: "from-record" });
    expect(made).toMatchObject({ steps: 1, end: { type: "steps" } });
    const other = { ...env, name: "other" };
    await expect(train({ ...small, env: other, cwd, fromExpert: "recorded", out: "x" })).rejects.toThrow(
      'it has no finished episode of "other"',
    );
  });

  it.each([
    [{ fromExpert: "nowhere.ts" }, "there is no file"],
    [{ fromExpert: "none.mjs" }, "its default export is not a function"],
    [
      { fromExpert: "silent.mjs" },
      'at task "echo:train:0": the expert failed: it neither says nor calls anything at turn 0',
    ],
    [{ fromExpert: "odd.mjs" }, "the expert failed: what it returns at turn 0 is not an action"],
    [{ fromExpert: "expert.mjs", model: "bookshop-nano" }, "--from-expert with --model"],
    [{ fromExpert: "expert.mjs", algorithm: "sft" as const }, "--from-expert with --algorithm sft"],
  ])("refuses %j", async (options, message) => {
    await expect(train({ ...small, cwd, out: "refused", ...options })).rejects.toThrow(message);
  });

  it("refuses flags of a model that is not made", async () => {
    await expect(train({ ...small, cwd, out: "refused" })).rejects.toThrow("--clone-tokens without --from-expert");
    await expect(train({ env, cwd, variables: {}, size: "small" })).rejects.toThrow("--size without --from-expert");
  });
});

describe("planCloning()", () => {
  const ms = 0.3;

  it("clones as much as half of the time allows, a million tokens at most", () => {
    expect(planCloning({ requested: null, msPerToken: ms, minutes: 60 }).tokens).toBe(1_000_000);
    const { tokens, remark } = planCloning({ requested: null, msPerToken: ms, minutes: 6 });
    expect(tokens).toBe(600_000);
    expect(remark).toBe("cloning 600000 tokens takes about 3.0 of 6.0 minutes on this machine");
  });

  it("says beforehand when the time will not suffice, and what would", () => {
    expect(planCloning({ requested: null, msPerToken: ms, minutes: 2 }).remark).toMatch(
      /^cloning 200000 tokens .* fewer than 400000 tokens .* pass --minutes 4 or more$/,
    );
    const { tokens, remark } = planCloning({ requested: 1_000_000, msPerToken: ms, minutes: 6 });
    expect(tokens).toBe(1_000_000);
    expect(remark).toMatch(/leaves too little for rewards: pass --minutes 10 or more, or --clone-tokens 600000$/);
  });
});
