import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, describe, expect, test, vi } from "vitest";
import type { EnvironmentSource } from "../core/index.ts";
import { createScriptedEngine } from "../engines/scripted/index.ts";
import { defineEnvironment } from "../environments/index.ts";
import { readEpisodes } from "../store/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { rollout } from "./rollout.ts";
import { loadEnvironment } from "./load-environment.ts";

const folder = mkdtempSync(join(tmpdir(), "module-tasks-"));
vi.stubEnv("TRAINABLE_AGENTS_CACHE", join(folder, "cache"));
afterAll(() => rmSync(folder, { recursive: true }));

const write = (name: string, content: string | Uint8Array): string => {
  writeFileSync(join(folder, name), content);
  return name;
};
const lines = (...rows: readonly object[]): string => rows.map((row) => JSON.stringify(row)).join("\n");

type Sum = { readonly answer: number; said?: number };
const answer = {
  description: "Gives the answer.",
  parameters: { type: "object", properties: { value: { type: "number" } }, required: ["value"] },
  endsEpisode: true,
  run: ({ value }: Readonly<Record<string, unknown>>, state: Sum) => {
    state.said = Number(value);
  },
};
const base = {
  name: "sums",
  guidelines: "Answer.",
  tools: { answer },
  grade: ({ state }: { readonly state: Sum }) => (state.said === state.answer ? 1 : 0),
};
const plain = defineEnvironment<Sum>({ ...base, tasks: { own: [{ state: { answer: 1 } }] } });
const mapped = defineEnvironment<Sum>({
  ...base,
  fromRow: ({ question, answer: right }) => {
    if (typeof question !== "string" || typeof right !== "string") throw new Error("question and answer are no texts");
    return { instruction: question, state: { answer: Number(right.split("#### ")[1]) }, info: { kind: "sum" } };
  },
});

const load = async (env: unknown, envTasks: string | null): Promise<EnvironmentSource> => {
  const parts = { env: env as EnvironmentSource };
  return (await loadEnvironment("sums.ts", { cwd: folder, parts, settings: { envTasks } })).source;
};
const tasksOf = (source: EnvironmentSource, split: string) => {
  const taskset = source.taskset(split);
  return Array.from({ length: taskset.size }, (_, index) => taskset.task(index));
};

describe("tasks of a file, for an environment that defineEnvironment made,", () => {
  test("are those of the file in every form, and equal rows have equal hashes", async () => {
    const rows = [
      { id: "a", instruction: "One?", state: { answer: 1 } },
      { id: "b", instruction: "Two?", state: { answer: 2 } },
    ];
    const states = rows.map(({ state }) => JSON.stringify(state));
    const table = {
      columnData: [
        { name: "id", data: ["a", "b"] },
        { name: "instruction", data: ["One?", "Two?"] },
        { name: "state", data: states },
      ],
    };
    const files = [
      write("sums.jsonl", lines(...rows)),
      write(
        "sums.csv",
        `id,instruction,state\n${rows.map(({ id, instruction }, at) => `${id},${instruction},"${states[at]!.replaceAll('"', '""')}"`).join("\n")}\n`,
      ),
      write("sums.parquet", new Uint8Array(parquetWriteBuffer(table))),
    ];
    const loaded = await Promise.all(files.map((file) => load(plain, file)));
    for (const source of loaded) {
      expect(source.splits).toEqual(["train"]);
      expect(tasksOf(source, "train")).toEqual(tasksOf(loaded[0]!, "train"));
      expect(source.taskset("train").hash).toMatch(/^[0-9a-f]{64}$/);
      expect(source.taskset("train").hash).toBe(loaded[0]!.taskset("train").hash);
    }
    expect(tasksOf(loaded[0]!, "train")).toMatchObject([
      { id: "a", instruction: "One?", environment: "sums" },
      { id: "b", instruction: "Two?" },
    ]);
    expect((await load(plain, null)).splits).toEqual(["own"]);
  });

  test("are made by fromRow, or of the fields of rows without a state, by split", async () => {
    const file = write(
      "gsm.jsonl",
      lines({ question: "3 and 4?", answer: "Add. #### 7" }, { split: "test", question: "1?", answer: "#### 1" }),
    );
    const source = await load(mapped, file);
    expect(source.splits).toEqual(["train", "test"]);
    expect(tasksOf(source, "train")).toMatchObject([{ id: "sums:train:0", instruction: "3 and 4?", agenda: null }]);
    const odd = await load(plain, write("odd.jsonl", '{"answer": 5, "__proto__": {"x": 1}}'));
    expect(tasksOf(odd, "train")[0]!.contentHash).not.toBe(
      tasksOf(await load(plain, write("even.jsonl", '{"answer": 5}')), "train")[0]!.contentHash,
    );
    const bare = await load(plain, write("bare.jsonl", lines({ answer: 5, instruction: "Five?" })));
    const world = await bare.open(bare.taskset("train").task(0), { seed: 0, signal: AbortSignal.timeout(1000) });
    await world.call({ name: "answer", arguments: new Map([["value", 5]]) });
    expect(await world.grade({ outcome: "completed" })).toMatchObject({ reward: 1 });
  });

  test("run as others do, and their run has the hash of each split", async () => {
    const asked = defineEnvironment<Sum>({
      ...base,
      fromRow: ({ question, answer: right }) => {
        const goal = { name: "sum", requests: [String(question)], slots: [], confirmation: null, secondThought: null };
        const goals = [{ ...goal, settledBy: ["answer"], objections: [] }];
        const agenda = { greetings: ["Hello."], slots: [], goals, farewells: ["Thanks."], patience: 3 };
        return { agenda, state: { answer: Number(right) } };
      },
    });
    const rows = [1, 2, 3].map((one) => ({ id: `n${one}`, question: `What is ${one}?`, answer: one }));
    const file = write("run.jsonl", lines(...rows));
    const tokenizer = createReadableTokenizer();
    const engine = createScriptedEngine({
      tokenizer,
      script: ({ prompt }) => {
        const [, value = "0"] = /What is (\d)\?/.exec(tokenizer.decode(prompt.view())) ?? [];
        return `<tool_call>\n{"name": "answer", "arguments": {"value": ${value}}}\n</tool_call><|im_end|>`;
      },
    });
    const out = join(folder, "out");
    const common = { engine, model: "readable", env: asked, cwd: folder, out, groupSize: 1 } as const;
    await rollout({ ...common, envTasks: file });
    const rewards: unknown[] = [];
    for await (const { task, reward } of readEpisodes(out)) rewards.push([task.id, reward]);
    expect(rewards.toSorted((one, other) => (String(one) < String(other) ? -1 : 1))).toEqual([
      ["n1", 1],
      ["n2", 1],
      ["n3", 1],
    ]);
    const manifest = JSON.parse(readFileSync(join(out, "run.json"), "utf8")) as {
      readonly environment: { readonly taskHashes: unknown };
    };
    const { source } = await loadEnvironment("x.ts", {
      cwd: folder,
      parts: { env: asked },
      settings: { envTasks: file },
    });
    expect(manifest.environment.taskHashes).toEqual({ train: source.taskset("train").hash });
  });

  test.each<readonly [string, () => unknown, string, RegExp]>([
    [
      "an exception of fromRow",
      () => mapped,
      lines({ question: 1, answer: "x" }),
      /Cannot make a task of line 1 of "bad.jsonl": question and answer are no texts; correct the row/,
    ],
    [
      "an unknown field",
      () => plain,
      lines({ state: { answer: 1 }, instrution: "x" }),
      /line 1 of "bad.jsonl": task.instrution is unknown; expected one of state, instruction, agenda, info/,
    ],
    [
      "a field of another type",
      () => plain,
      lines({ state: { answer: 1 }, instruction: 5 }),
      /task.instruction is 5, expected a string/,
    ],
    [
      "a row that is no object",
      () => plain,
      "[1]",
      /Cannot read line 1 of "bad.jsonl": expected a JSON object; correct --env-tasks/,
    ],
    [
      "an id that is a list",
      () => plain,
      lines({ id: [1], answer: 1 }),
      /Cannot read line 1 of "bad.jsonl": expected another "id"/,
    ],
    [
      "an environment of another kind",
      () => ({ ...plain, withTasks: undefined }),
      lines({ answer: 1 }),
      /only what defineEnvironment returns takes tasks of a file/,
    ],
  ])("are refused with their place: %s", async (_name, env, content, message) => {
    await expect(load(env(), write("bad.jsonl", content))).rejects.toThrow(message);
  });

  test("are needed by an environment that has none", async () => {
    await expect(load(mapped, null)).rejects.toThrow(
      /it has no tasks of its own; name a file of them with --env-tasks/,
    );
  });
});
