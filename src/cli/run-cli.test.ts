import { readdirSync } from "node:fs";
import { appendFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { readEpisodes, runManifest } from "../store/index.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";
import { createFunctionSampler, createSglangFront, type Sampler } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { createTestCli, readAll } from "./cli.test-helper.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";

const tokenizer = createReadableTokenizer();
const endTokenId = tokenizer.tokenId("<|im_end|>") ?? 0;

/** Serves a sampler while `use` runs. */
async function withServer<T>(sampler: Sampler, use: (url: string) => Promise<T>): Promise<T> {
  const listener = await createSglangFront({ sampler, tokenizer, endTokenIds: [endTokenId] }).listen();
  try {
    return await use(listener.url);
  } finally {
    await listener.close();
  }
}

const expert = createExpertSampler({ tokenizer, noise: 0.1 });

describe("start", () => {
  it("plays with the shipped model, again the same, and shows what was trained", async () => {
    const { run, folder } = await createTestCli();
    const { code, stdout, stderr } = await run("start", "--tasks", "0", "--out", "runs/demo");
    expect(stderr).toContain("engine embedded at this process");
    expect(code).toBe(0);
    expect(stdout).toMatch(/pass rate +\d+\.\d % \(\d of 8 graded\)/);
    // The marks for terminals without colour: "1" marks text that the policy wrote, and no other
    // text.
    expect(stdout).toMatch(/^\. <\|im_start\|>assistant\n1 .+/m);
    expect(stdout).not.toMatch(/^1 .*<\|im_start\|>/m);
    expect(stdout).toContain("npx trainable-agents train\n");

    await run("start", "--tasks", "0", "--out", "runs/again");
    const rows = async (name: string): Promise<string[]> =>
      (await readFile(join(folder, "runs", name, "samples.jsonl"), "utf8"))
        .trim()
        .split("\n")
        .map((line) => String((JSON.parse(line) as { readonly tokens: readonly number[] }).tokens))
        .toSorted();
    expect(await rows("again")).toEqual(await rows("demo"));
  });

  it("shows two episodes, and prints commands that work when pasted", async () => {
    const { run, folder } = await createTestCli({ FORCE_COLOR: "1" });
    const { code, stdout } = await run("start", "--engine", "expert", "--out", "runs/demo");
    expect(code).toBe(0);
    expect(stripVTControlCharacters(stdout)).toMatch(/pass rate +\d+\.\d % \(\d+ of 64 graded\)/);
    expect(stdout).toContain("An episode that passed");
    expect(stdout).toContain("An episode that failed its task");
    expect(stdout).not.toContain("none did");
    expect(stdout).toContain("\u001b[32m1 <tool_call>");
    expect([...(await readAll(join(folder, "runs/demo"))).keys()].toSorted()).toEqual([
      "episodes.jsonl",
      "groups.jsonl",
      "index.jsonl",
      "run.json",
      "samples.jsonl",
    ]);
    const commands = stdout.match(/(?<=npx trainable-agents )inspect .*$/gm) ?? [];
    expect(commands.length).toBeGreaterThanOrEqual(3);
    for (const command of commands) {
      const inspected = await run(...command.trim().split(" "));
      expect(inspected.stderr).toBe("");
      expect(inspected.code).toBe(0);
    }
  });

  it.each([
    [["--engine", "sglang"], "the demonstration needs no server"],
    [["--engine", "embedded", "--expert-noise", "0.5"], "the expert does not run"],
    [["--expert-noise", "2"], "--expert-noise"],
    [["--tasks", "x"], "--tasks"],
  ])("refuses %j", async (flags, wanted) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run("start", ...flags);
    expect(stderr).toContain(wanted);
    expect(code).toBe(2);
  });
});

describe("rollout", () => {
  it("writes what the run is, its episodes and its samples", async () => {
    const { run, folder } = await createTestCli();
    const { code, stdout } = await run(
      "rollout",
      "--tasks",
      "3,1",
      "--group-size",
      "2",
      "--seed",
      "7",
      "--quiet",
      "--write-samples",
    );
    expect(code).toBe(0);
    const [place] = /runs\/\d{8}-\d{6}-bookshop/.exec(stdout) ?? [];
    const files = await readAll(join(folder, place ?? "?"));
    const manifest: unknown = JSON.parse(files.get("run.json") ?? "");
    const documented = runManifest.parts[0]?.fields.map(({ name }) => name);
    expect(Object.keys(manifest as object)).toEqual(documented);
    // A field that deviates from its description would be read as null.
    const stored = parseJson(files.get("run.json") ?? "");
    expect(fromPlain(runManifest.read(stored, "run.json"))).toEqual(stored);
    expect(manifest).toMatchObject({
      format: 4,
      status: "done",
      seed: 7,
      environment: { name: "bookshop", split: "train", tasks: 2 },
      model: { folder: null, tokenizer: "readable", renderer: "qwen2.5-instruct" },
      engine: { name: "expert" },
      user: "agenda",
      configuration: { "group-size": 2, temperature: 1, "top-p": 1, "top-k": -1 },
      totals: { episodesFinished: 4, outcomes: { completed: 4 } },
      error: null,
    });
    const rows = files
      .get("samples.jsonl")!
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(rows.map(({ group_index, index }) => `${String(group_index)} ${String(index)}`).toSorted()).toEqual([
      "0 0",
      "0 1",
      "1 2",
      "1 3",
    ]);
    for (const row of rows) {
      const {
        tokens,
        response_length: length,
        loss_mask: mask,
        rollout_log_probs: logprobs,
      } = row as Record<string, number[]>;
      expect(mask).toHaveLength(Number(length));
      expect(logprobs).toHaveLength(Number(length));
      expect(tokenizer.decode(tokens!)).toBe(`${String(row["prompt"])}${String(row["response"])}`);
    }
    const ids: string[] = [];
    for await (const episode of readEpisodes(join(folder, place ?? "?"))) ids.push(episode.id);
    expect(ids.toSorted()).toEqual([
      "bookshop:train:1#0",
      "bookshop:train:1#1",
      "bookshop:train:3#0",
      "bookshop:train:3#1",
    ]);
  });

  it("gives equal episodes and samples for equal seeds, whatever the concurrency, and others for another seed", async () => {
    const { run, folder } = await createTestCli();
    const play = async (out: string, seed: string, concurrency: string): Promise<unknown> => {
      const rollout = [
        "rollout",
        "--tasks",
        "0-5",
        "--group-size",
        "3",
        "--expert-noise",
        "0.2",
        "--quiet",
        "--write-samples",
      ];
      const { code } = await run(...rollout, "--seed", seed, "--concurrency", concurrency, "--out", out);
      expect(code).toBe(0);
      const files = await readAll(join(folder, out));
      const lines = (name: string): string[] => files.get(name)!.trimEnd().split("\n").toSorted();
      // Only durations, and the checksums over them, may differ.
      return [
        lines("episodes.jsonl")
          .map((line) => line.replaceAll(/"durationMs":[\d.e-]+|"crc32":"\w+"/g, ""))
          .toSorted(),
        lines("samples.jsonl"),
      ];
    };
    const [first, second, other] = [await play("a", "1", "1"), await play("b", "1", "18"), await play("c", "2", "18")];
    expect(second).toEqual(first);
    expect(other).not.toEqual(first);
  });

  it("prints the whole configuration on a dry run, and reads it back", async () => {
    const { run, folder } = await createTestCli();
    const dry = await run(
      "rollout",
      "--tasks",
      "0-2",
      "--temperature",
      "0.5",
      "--sampling-extra",
      '{"ignore_eos": true}',
      "--dry-run",
    );
    expect(dry).toMatchObject({ code: 0, stderr: "" });
    expect(dry.stdout).toContain("temperature: 0.5\n");
    expect(dry.stdout).toContain("engine: expert\n");
    await writeFile(join(folder, "run.yaml"), dry.stdout);
    expect(await run("rollout", "--config", "run.yaml", "--dry-run")).toEqual(dry);
    expect((await readAll(folder)).size).toBe(1);
  });

  it("warns once of sampling that spoils learning", async () => {
    const { run } = await createTestCli();
    const { stderr } = await run("rollout", "--tasks", "0", "--group-size", "2", "--temperature", "0", "--top-p", "1");
    expect(stderr.match(/Warning: Temperature 0 with 2 samples/g)).toHaveLength(1);
    const truncated = await run("rollout", "--tasks", "0", "--top-p", "0.9", "--top-k", "50");
    expect(truncated.stderr.match(/Warning: Truncated sampling \(top-p 0.9, top-k 50\)/g)).toHaveLength(1);
  });

  it("talks to the server that --url names, and tells which weights answered", async () => {
    const { run, folder } = await createTestCli();
    const { code, stdout } = await withServer(expert, (url) =>
      run("rollout", "--url", url, "--model", "readable", "--tasks", "0-3", "--seed-turns", "--out", "r"),
    );
    expect(code).toBe(0);
    expect(stdout).toMatch(/episodes +4 of 4/);
    expect(await readFile(join(folder, "r", "run.json"), "utf8")).toContain('"weightVersion": "default"');
  });

  it("ends an episode that outgrows --max-context-tokens as truncated, before the server has to refuse", async () => {
    const { run } = await createTestCli();
    const unasked = createFunctionSampler(() => {
      throw new Error("The server was asked.");
    });
    const { code, stdout } = await withServer(unasked, (url) =>
      run("rollout", "--url", url, "--model", "readable", "--tasks", "0", "--max-context-tokens", "10"),
    );
    expect(stdout).toContain("context_length 1");
    expect(code).toBe(0);
  });
});

describe("what stands under the table", () => {
  it("is the first failure of each code in one sentence, and no pass rate where nothing was graded", async () => {
    const { run, folder } = await createTestCli();
    await writeFile(
      join(folder, "env.mjs"),
      `import { defineEnvironment } from ${JSON.stringify(new URL("../../dist/environments/index.js", import.meta.url).href)};
       export default defineEnvironment({ name: "broken", guidelines: "Be kind.", tasks: { all: [{ state: {} }, { state: {} }] },
         tools: { wait: { description: "Waits.", parameters: { type: "object", properties: {} }, run: () => "ok" } },
         grade: () => 0 });`,
    );
    await writeFile(join(folder, "lines.txt"), "Hi.\n");
    const bye = createFunctionSampler(() => ({ ids: [...tokenizer.encode("Bye."), endTokenId] }));
    const flags = ["--env", "./env.mjs", "--user", "scripted", "--user-lines", "lines.txt", "--model", "readable"];
    const { stdout, stderr } = await withServer(bye, (url) => run("rollout", ...flags, "--url", url, "--out", "r"));
    expect(stderr).not.toContain("Cannot");
    expect(stdout).toMatch(/pass rate +– \(0 of 0 graded\)/);
    expect(stdout).toContain("Warning: no episode was graded, so there is no pass rate.");
    expect(stdout).toMatch(/^ {2}user\/unexpected \(first of 2\): Cannot answer reply 1 .*; add one more line\.$/m);
    const evaluated = await withServer(bye, (url) => run("eval", ...flags, "--url", url, "--out", "e"));
    expect(evaluated.stdout).toMatch(
      /^ {2}user\/unexpected \(first of 2\): Cannot answer reply 1 .*; add one more line\.$/m,
    );
  });

  it("warns where no episode began, in place of a pass rate of 0.0 %", async () => {
    const { run } = await createTestCli();
    const { stdout } = await run("rollout", "--max-context-tokens", "20", "--tasks", "0-3", "--out", "r");
    expect(stdout).toMatch(/pass rate +– \(0 of 4 graded\)/);
    expect(stdout).toMatch(/mean reward +–/);
    expect(stdout).toContain("Warning: 4 of 4 graded episodes ended before their first turn");
    expect(stdout).toContain(
      "Warning: 4 of 4 episodes ran out of context (context_length); serve the model with a longer one",
    );
  });
});

describe("Ctrl-C", () => {
  /** Runs with an expert that interrupts the run at its 20th and, optionally, 30th answer. */
  async function interrupted(times: 1 | 2) {
    const cli = await createTestCli();
    let answers = 0;
    const sampler: Sampler = {
      sample: async (request) => {
        answers++;
        if (answers === 20) cli.drain.abort();
        if (answers === 30 && times === 2) cli.cancel.abort();
        return expert.sample(request);
      },
    };
    const flags = ["--model", "readable", "--tasks", "0-99", "--concurrency", "16", "--seed-turns", "--out", "r"];
    const result = await withServer(sampler, (url) => cli.run("rollout", "--url", url, ...flags));
    const outcomes: string[] = [];
    for await (const episode of readEpisodes(join(cli.folder, "r"))) outcomes.push(episode.outcome);
    return { ...result, outcomes, manifest: await readFile(join(cli.folder, "r", "run.json"), "utf8") };
  }

  it("once: running episodes end, none is begun, the folder says interrupted", async () => {
    const { code, stderr, stdout, outcomes, manifest } = await interrupted(1);
    expect(code).toBe(130);
    expect(stderr).toMatch(
      /Interrupted: \d+ running episodes are finished and kept, and no further one starts. Press Ctrl-C again/,
    );
    expect(stdout).toContain("bookshop (train), interrupted");
    expect(outcomes.length).toBeGreaterThanOrEqual(16);
    expect(outcomes.length).toBeLessThan(30);
    expect(new Set(outcomes)).toEqual(new Set(["completed"]));
    expect(manifest).toContain('"status": "interrupted"');
  });

  it("twice: running episodes are cancelled, counted as aborted and not kept, since they have not ended", async () => {
    const { code, stderr, outcomes, manifest } = await interrupted(2);
    expect(code).toBe(130);
    expect(stderr).toContain(
      "Stopping: everything so far is in the journal. Resume with: npx trainable-agents rollout --resume",
    );
    // Possibly no episode had ended; cancelled ones are not among them.
    expect(outcomes.filter((outcome) => outcome !== "completed")).toEqual([]);
    expect(outcomes.length).toBeLessThan(30);
    expect(Number(/"aborted": (\d+)/.exec(manifest)?.[1])).toBeGreaterThan(0);
    expect(manifest).toContain('"status": "interrupted"');
  });
});

describe("inspect", () => {
  it("lists, filters and shows a run; a torn last line is told and left out", async () => {
    const { run, folder } = await createTestCli({ FORCE_COLOR: "1" });
    await run("rollout", "--tasks", "0-7", "--group-size", "4", "--expert-noise", "0.3", "--quiet", "--out", "r");
    const all = await run("inspect", "r");
    expect(all.stdout).toContain("32 of 32 episodes");
    const failing = await run("inspect", "r", "--outcome", "failing");
    const passed = await run("inspect", "r", "--outcome", "passed");
    const count = (text: string): number => Number(/(\d+) of 32 episodes/.exec(text)?.[1]);
    expect(count(failing.stdout) + count(passed.stdout)).toBe(32);

    const conversation = await run("inspect", "r", "bookshop:train:2#1");
    expect(conversation.stdout).toContain("bookshop:train:2#1");
    expect(conversation.stdout).toContain("user");
    const tokens = await run("inspect", "r", "bookshop:train:2#1", "--tokens");
    const painted = tokens.stdout.replaceAll("\u001b[32m", "<green>").replaceAll("\u001b[2m", "<dim>");
    expect(painted).toMatch(/^<green> +\d+ +\d+ 1 +-?\d\.\d{4} ".*"/m);
    expect(painted).toMatch(/^<dim> +0 +\d+ \. +"<\|im_start\|>"/m);

    await appendFile(join(folder, "r", "episodes.jsonl"), '{"id": "torn');
    const torn = await run("inspect", "r");
    expect(torn.stderr).toContain("the last line of the run was cut off (12 bytes)");
    expect(torn.stdout).toContain("32 of 32 episodes");
  });

  it("makes escape sequences of a policy visible instead of obeying them", async () => {
    const { run } = await createTestCli();
    const hostile = [...tokenizer.encode("\u001b[2J\u202eforged"), endTokenId];
    await withServer(
      createFunctionSampler(() => ({ ids: hostile })),
      (url) => run("rollout", "--url", url, "--model", "readable", "--tasks", "0", "--max-turns", "2", "--out", "r"),
    );
    const { stdout } = await run("inspect", "r", "1");
    expect(stdout).toContain("agent: \\x1b[2J\\u202eforged");
    expect((await run("inspect", "r", "1", "--tokens")).stdout).not.toContain("\u001b");
  });
});

describe("mistakes", () => {
  it.each([
    [["rollout", "--taks", "1"], 'there is no option "--taks"; did you mean "--tasks"?'],
    [["rolout"], 'there is no command "rolout"; did you mean "rollout"?'],
    [["rollout", "extra"], "takes fewer arguments"],
    [["inspect"], "<run> is missing"],
    [["rollout", "--seed"], 'option "--seed" needs a value'],
    [["rollout", "--seed", "x"], 'Cannot use --seed: it is "x"'],
    [["rollout", "--config", "nope.yaml"], 'Cannot read the configuration "nope.yaml": there is no such file'],
    [["rollout", "--config", "bad.yaml"], "bad.yaml:2:14"],
    [["rollout", "--env", "bookshp"], 'did you mean "bookshop"?'],
    [["rollout", "--env", "./nope.ts"], "there is no file"],
    [["rollout", "--env", "tau-bench/retail"], "pass --data <folder>"],
    [["rollout", "--env", "tau-bench/retail", "--data", "nope"], "prepare tau-bench --to <folder>"],
    [["rollout", "--env", "tau-bench/retail", "--data", "full"], "wiki.md"],
    [["rollout", "--env", "bookshop", "--data", "full"], "has no effect there"],
    [["rollout", "--env", "bookshop", "--solo"], 'Cannot use --solo with environment "bookshop"'],
    [["rollout", "--config", "nope.yaml"], "there is no such file; name a YAML file"],
    [["rollout", "--config", "full"], "it is a folder; name a YAML file"],
    [["rollout", "--metrics", "nope", "--out", "none"], "prometheus, prometheus:<port>, tensorboard, wandb"],
    [["rollout", "--metrics", "prometheus:70000", "--out", "none"], "prometheus, prometheus:<port>"],
    [["eval", "--metrics", "tensorboard,nope", "--out", "none"], "prometheus, prometheus:<port>, tensorboard, wandb"],
    [["rollout", "--split", "dev"], "it has train, validation, test"],
    [["rollout", "--tasks", "999999"], "0 to 50399; correct --tasks"],
    [["rollout", "--user", "lm"], 'Cannot find user "lm"'],
    [["rollout", "--user", "llm"], "pass --user-model"],
    [["rollout", "--user", "scripted"], "--user-lines"],
    [["rollout", "--strategy", "nope"], 'with strategy "nope"'],
    [["rollout", "--preset", "nope"], 'Cannot use preset "nope"'],
    [["rollout", "--url", "http://127.0.0.1:1"], "pass --model <folder>"],
    [["rollout", "--url", "http://127.0.0.1:1", "--model", "./nope"], "there is no such folder"],
    [
      ["rollout", "--url", "http://127.0.0.1:1", "--model", "Acorn/Acorn-7B"],
      'hf download Acorn/Acorn-7B --local-dir ./Acorn-7B --exclude "*.safetensors"',
    ],
    [["tokens", "nope.json", "--model", "Acorn/Acorn-7B"], "and name the folder: ./Acorn-7B"],
    [["doctor", "template", "Acorn/Acorn-7B"], "and name the folder: ./Acorn-7B"],
    [["engine", "--model", "Acorn/Acorn-7B"], "and name the folder: ./Acorn-7B"],
    [
      ["rollout", "--url", "http://127.0.0.1:1", "--model", "readable"],
      "Cannot reach the SGLang server at http://127.0.0.1:1 (the connection was refused",
    ],
    [["rollout", "--url", "127.0.0.1:1", "--model", "readable"], "the scheme is missing"],
    [["rollout", "--url", "http://h", "--port", "1", "--model", "readable"], "pass only one of them"],
    [["rollout", "--engine", "expert", "--url", "http://h"], "it has no effect there"],
    [["rollout", "--tool-instruction", "nope.txt"], "correct --tool-instruction"],
    [["rollout", "--renderer", "nope"], "nope"],
    [["rollout", "--tasks", "0", "--out", "full"], "the folder exists and is not empty"],
    [["prepare"], "<benchmark> is missing"],
    [["prepare", "tau"], 'write "prepare tau-bench"'],
    [["prepare", "tau-bench"], "pass --to <folder>"],
    [["prepare", "tau-bench", "--from", "nope", "--to", "new"], "a checkout of the upstream repository"],
    [["prepare", "tau-bench", "--from", "nope", "--to", "full"], "name another with --to"],
    [["inspect", "nope"], "there is no such folder"],
    [["inspect", "full"], 'it has no "run.json"'],
    [["inspect", "full", "--tokens"], 'it has no "run.json"'],
  ])("%j ends with 2 and one sentence", async (argv, wanted) => {
    const { run, folder } = await createTestCli();
    await writeFile(join(folder, "bad.yaml"), "seed: 1\nconcurrency: many\n");
    await mkdir(join(folder, "full"));
    await writeFile(join(folder, "full", "file"), "");
    const { code, stdout, stderr } = await run(...argv);
    expect(stderr).toContain(wanted);
    expect(
      stderr
        .trimEnd()
        .split("\n")
        .filter((line) => line.startsWith("Cannot")),
    ).toHaveLength(1);
    expect(stderr).not.toMatch(/^ +at /m);
    expect(stdout).toBe("");
    expect(code).toBe(2);
    expect(readdirSync(folder).toSorted()).toEqual(["bad.yaml", "full"]);
  });

  it("shows the stack when DEBUG is set", async () => {
    const { run } = await createTestCli({ DEBUG: "1" });
    expect((await run("rollout", "--env", "bookshp")).stderr).toMatch(/^ +at /m);
  });

  it("prints help and version, and help when nothing is asked", async () => {
    const { run } = await createTestCli();
    expect(await run("--help")).toMatchObject({ code: 0, stdout: expect.stringContaining("rollout") as string });
    expect(await run("rollout", "--help")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("Examples:") as string,
    });
    expect((await run("--version")).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(await run()).toMatchObject({ code: 2, stderr: expect.stringContaining("Usage:") as string });
  });
});
