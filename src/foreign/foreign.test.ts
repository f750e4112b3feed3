import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";
import { describe, expect, it, test } from "vitest";
import { type ForeignEpisode, openForeignFile } from "./index.ts";
import { openZip } from "./zip.ts";
import { type Member, zipOf } from "./zip-file.test-helper.ts";

const folder = await mkdtemp(join(tmpdir(), "trainable-agents-foreign-"));

async function fileOf(name: string, content: string | Buffer): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

async function readAll(path: string, limits = {}): Promise<ForeignEpisode[]> {
  const file = await openForeignFile(path, "x", limits);
  const episodes: ForeignEpisode[] = [];
  for await (const episode of file!.episodes()) episodes.push(episode);
  return episodes;
}

const lines = (...rows: object[]): string => rows.map((row) => `${JSON.stringify(row)}\r\n`).join("");

describe("openForeignFile()", () => {
  it("reads slime's rows; branches of one episode are one episode", async () => {
    const row = {
      index: 7,
      group_index: 2,
      prompt: "Hi",
      response: " yo",
      tokens: [5, 6, 7, 8],
      response_length: 3,
      reward: 1,
    };
    const sampled = {
      loss_mask: [1, 0, 1],
      rollout_log_probs: [-0.5, 0, -0.25],
      status: "completed",
      metadata: { task_id: "t" },
    };
    const path = await fileOf(
      "slime.jsonl",
      lines({ ...row, ...sampled }, { ...row, ...sampled }, { ...row, index: 8, reward: null }),
    );
    const [first, second] = await readAll(path);
    expect(first).toMatchObject({
      id: "7",
      taskId: "t",
      groupId: "2",
      reward: 1,
      messages: null,
      text: { prompt: "Hi", response: " yo" },
    });
    expect(first!.branches).toHaveLength(2);
    expect([...first!.branches![0]!.lossMask!]).toEqual([0, 1, 0, 1]);
    expect([...first!.branches![0]!.logprobs!]).toEqual([NaN, -0.5, NaN, -0.25]);
    expect(second).toMatchObject({ id: "8", reward: null, agentCost: null, durationMs: null });
    expect(second!.branches![0]).toMatchObject({ lossMask: null, logprobs: null });
  });

  it("reads both shapes of verifiers", async () => {
    const call = JSON.stringify({ id: "c1", type: "function", function: { name: "add", arguments: '{"x":1}' } });
    const result = {
      example_id: 3,
      prompt: [{ role: "user", content: "Sum?" }],
      answer: "2",
      reward: 0.5,
      is_truncated: false,
      completion: [
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", content: "2", tool_call_id: "c1" },
        { role: "assistant", content: [{ type: "text", text: "2" }] },
      ],
      metrics: { steps: 2 },
      timing: { total_ms: 90 },
      error: null,
    };
    const [episode] = await readAll(await fileOf("results.jsonl", lines(result)));
    expect(episode).toMatchObject({
      taskId: "3",
      reward: 0.5,
      scores: { steps: 2 },
      durationMs: 90,
      branches: null,
      error: null,
    });
    expect(episode!.messages!.map(({ role, content, name }) => [role, content, name])).toEqual([
      ["user", "Sum?", null],
      ["assistant", "", null],
      ["tool", "2", "add"],
      ["assistant", "2", null],
    ]);
    const nodes = [
      {
        parent: null,
        message: { role: "user", content: "a" },
        sampled: false,
        token_ids: [1, 2],
        mask: [false, false],
        logprobs: [],
      },
      {
        parent: 0,
        message: { role: "assistant", content: "b" },
        sampled: true,
        token_ids: [3, 4],
        mask: [false, true],
        logprobs: [-1],
      },
      {
        parent: 0,
        message: { role: "assistant", content: "c" },
        sampled: true,
        token_ids: [9],
        mask: [true],
        logprobs: [-2],
      },
    ];
    const trace = {
      nodes,
      rewards: { a: { score: 1, weight: 1 }, b: { score: 3, weight: 0.5 } },
      agent: { trainable: true },
    };
    const line = { id: "e", task: { key: "k", hash: "h", data: {} }, group: { id: "g" }, traces: [trace], errors: [] };
    const [traced] = await readAll(await fileOf("traces.jsonl", lines(line)));
    expect(traced).toMatchObject({
      id: "e",
      taskId: "k",
      contentHash: "h",
      groupId: "g",
      reward: 2.5,
      sampledTokens: 2,
    });
    expect(traced!.branches!.map(({ tokens, lossMask }) => [[...tokens], [...lossMask!]])).toEqual([
      [[1, 2, 3, 4], [0, 0, 0, 1]],
      [[1, 2, 9], [0, 0, 1]],
    ]); // prettier-ignore
  });

  // Written by verifiers itself from one environment and equal replies: `npm run verify -- verifiers --write`.
  test.each(["0.1.9.post3", "0.3.1", "0.4.0"])("reads what verifiers %s wrote", async (release) => {
    const path = fileURLToPath(new URL(`../../tests/goldens/foreign/verifiers-${release}`, import.meta.url));
    const isTrace = release === "0.4.0";
    expect((await openForeignFile(path, "x"))!.title).toBe(isTrace ? "sums_v1" : "sums");
    const episodes = await readAll(path);
    const said = (text: string): ForeignEpisode[] => episodes.filter(({ messages }) => messages![0]?.content === text);
    expect(said("What is 2 + 3?").map(({ reward }) => reward)).toEqual([1, 1]);
    expect(said("What is 2 + 4?").map(({ reward }) => reward)).toEqual([0, 0]);
    const [episode] = said("What is 2 + 3?");
    expect(episode).toMatchObject({
      model: "tiny",
      error: null,
      scores: { says_sum: 1 },
      branches: null,
      isTruncated: release === "0.1.9.post3" ? null : false,
      sampledTokens: release === "0.1.9.post3" ? null : 14,
    });
    expect(episode!.durationMs).toBeGreaterThan(1);
    expect(episode!.messages!.map(({ role, name, content }) => [role, name, content])).toEqual([
      ["user", null, "What is 2 + 3?"],
      ["assistant", null, ""],
      ["tool", isTrace ? "sums_add" : "add", "5"],
      ["assistant", null, "It is 5."],
    ]);
    const broken = episodes.filter(({ error }) => error !== null);
    expect(broken.map(({ reward }) => reward)).toEqual([null, null]);
    const causes = {
      "0.1.9.post3": "ModelError()",
      "0.3.1": "BadRequestError",
      "0.4.0": "ProviderError: upstream 400",
    };
    for (const { error } of broken) expect(error).toContain(causes[release as keyof typeof causes]);
  });

  it("reads ATIF: a prompt that extends the sequence is one branch", async () => {
    const metrics = (prompt: number[], sampled: number[]) => ({
      prompt_token_ids: prompt,
      completion_token_ids: sampled,
      logprobs: sampled.map(() => -1),
    });
    const trajectory = {
      schema_version: "ATIF-v1.8",
      session_id: "s",
      agent: { name: "a", version: "1", model_name: "m" },
      steps: [
        // Audio came with 1.8.
        {
          step_id: 1,
          source: "user",
          message: [
            { type: "text", text: "Hi" },
            { type: "audio", source: { media_type: "audio/wav", path: "hi.wav" } },
          ],
        },
        {
          step_id: 2,
          source: "agent",
          message: "",
          tool_calls: [{ tool_call_id: "c", function_name: "f", arguments: { a: 1 } }],
          observation: { results: [{ source_call_id: "c", content: "ok" }] },
          metrics: metrics([1, 2], [3]),
        },
        { step_id: 3, source: "agent", message: "bye", reasoning_content: "hm", metrics: metrics([1, 2, 3, 4], [5]) },
      ],
    };
    const [episode] = await readAll(await fileOf("trajectory.json", JSON.stringify(trajectory, null, 2)));
    expect(episode).toMatchObject({ id: "s", model: "m", reward: null, agentCost: null });
    expect(episode!.messages!.map(({ role, content, name }) => `${role} ${name} ${content}`)).toEqual([
      "user null Hi\n[audio]", "assistant null ", "tool f ok", "assistant null bye",
    ]); // prettier-ignore
    expect(episode!.branches!.map(({ tokens, lossMask }) => [[...tokens], [...lossMask!]])).toEqual([[[1, 2, 3, 4, 5], [0, 0, 1, 0, 1]]]); // prettier-ignore
  });

  it("reads τ-bench and τ²-bench, and says what broke instead of a reward", async () => {
    const run = {
      task_id: 4,
      trial: 1,
      reward: 1,
      info: { task: { instruction: "x" }, user_cost: 0.25 },
      traj: [{ role: "user", content: "Hi" }],
    };
    const crash = { task_id: 5, trial: 0, reward: 0, info: { error: "boom", traceback: "" }, traj: [] };
    const [good, broken] = await readAll(await fileOf("tau.json", JSON.stringify([run, crash])));
    expect(good).toMatchObject({ taskId: "4", trial: 1, reward: 1, userCost: 0.25, stopReason: null, agentCost: null });
    expect(broken).toMatchObject({ reward: null, error: "boom" });
    const task = { id: "a", description: { purpose: "p" } };
    const simulation = {
      id: "s",
      task_id: "a",
      trial: 0,
      termination_reason: "user_stop",
      reward_info: { reward: 0 },
      duration: 2,
      messages: [
        { role: "assistant", content: null, tool_calls: [{ id: "1", name: "f", arguments: { b: 2 } }] },
        { role: "tool", id: "1", content: "r" },
      ],
    };
    const info = { environment_info: { domain_name: "retail" }, agent_info: { llm: "m" } };
    const whole = await fileOf("tau2.json", JSON.stringify({ info, tasks: [task], simulations: [simulation] }));
    const [read] = await readAll(whole);
    expect(read).toMatchObject({ reward: 0, isTruncated: false, durationMs: 2000, model: "m" });
    expect(read!.messages![1]).toMatchObject({ role: "tool", name: "f", callId: "1" });
    await mkdir(join(folder, "dir", "simulations"), { recursive: true });
    await writeFile(join(folder, "dir", "results.json"), JSON.stringify({ info, tasks: [task], simulation_index: [] }));
    await writeFile(join(folder, "dir", "simulations", "s.json"), JSON.stringify(simulation));
    expect(await readAll(join(folder, "dir"))).toEqual([read]);
    expect(read!.contentHash).toMatch(/^[0-9a-f]{64}$/);
  });

  it("leaves out a last line that is being written, and names any other that cannot be read", async () => {
    const row = '{"prompt":"a","completion":"b","reward":1}\n';
    expect(await readAll(await fileOf("torn.jsonl", `${row}{"prompt":`))).toHaveLength(1);
    await expect(readAll(await fileOf("broken.jsonl", `${row}{"prompt":\n${row}`))).rejects.toThrow(
      'Cannot read "x, line 2": it is not JSON',
    );
    await expect(
      readAll(await fileOf("long.jsonl", row + row.repeat(99).replaceAll("\n", " ")), { recordBytes: 500 }),
    ).rejects.toThrow("it is longer than 500 bytes");
    await expect(readAll(await fileOf("large.json", `[${" ".repeat(999)}]`), { fileBytes: 500 })).rejects.toThrow(
      "a JSON file is read up to 500",
    );
  });

  test.each(["", "hello", "{}", "[]", "[1]", '{"a":', "null", "{}\n{}"])(
    "knows no format that holds %j",
    async (text) => {
      const path = await fileOf("none", text);
      const opened = await openForeignFile(path, "x").catch((error: unknown) => String(error));
      expect(opened === null || (typeof opened === "string" && opened.includes("it is not JSON"))).toBe(true);
    },
  );

  it("bounds the nodes of a trace", async () => {
    const nodes = Array.from({ length: 100_001 }, () => ({}));
    await expect(readAll(await fileOf("many.jsonl", lines({ traces: [{ nodes }] })))).rejects.toThrow(
      "a trace has 100001 nodes",
    );
  });
});

describe("inspect", () => {
  const header = { version: 2, eval: { task: "sums", model: "m" } };
  const sample = {
    id: "a",
    epoch: 1,
    input: "1+1",
    target: "2",
    scores: { match: { value: "C", explanation: "right" } },
    messages: [
      { role: "user", content: "attachment://abc" },
      { role: "assistant", content: "2" },
    ],
    attachments: { abc: "a long question" },
    output: { choices: [{ stop_reason: "stop" }] },
    total_time: 1.5,
  };
  const json = (value: object): Buffer => Buffer.from(JSON.stringify(value));

  it("is read from .json and from .eval alike", async () => {
    const members = [
      { name: "header.json", text: json(header) },
      { name: "samples/a_epoch_1.json", text: json(sample) },
    ];
    const packed = await readAll(await fileOf("a.eval", zipOf(members)));
    expect(await readAll(await fileOf("a.json", JSON.stringify({ ...header, samples: [sample] })))).toEqual(packed);
    expect(packed).toMatchObject([
      {
        taskId: "a",
        trial: 0,
        reward: 1,
        explanation: "right",
        stopReason: "stop",
        durationMs: 1500,
        model: "m",
        branches: null,
      },
    ]);
    expect(packed[0]!.messages![0]!.content).toBe("a long question");
  });

  it("unpacks zstd", async () => {
    // Made by Python's zstandard 0.25 of {"id":"z","epoch":2,"scores":{"s":{"value":0.25}},"messages":[]}.
    const packed = Buffer.from(
      "KLUv/SBAAQIAeyJpZCI6InoiLCJlcG9jaCI6Miwic2NvcmVzIjp7InMiOnsidmFsdWUiOjAuMjV9fSwibWVzc2FnZXMiOltdfQ==",
      "base64",
    );
    const text = Buffer.from('{"id":"z","epoch":2,"scores":{"s":{"value":0.25}},"messages":[]}');
    const members = [
      { name: "header.json", text: json(header) },
      { name: "samples/z_epoch_2.json", text, packed, method: 93 },
    ];
    expect(await readAll(await fileOf("z.eval", zipOf(members)))).toMatchObject([
      { taskId: "z", trial: 1, reward: 0.25, messages: [] },
    ]);
  });

  it("unpacks several members in zstd at once", async () => {
    const packed = (text: string): Buffer => {
      // A frame of one raw block.
      const head = Buffer.from("28b52ffd0058000000", "hex");
      head.writeUIntLE((text.length << 3) | 1, 6, 3);
      return Buffer.concat([head, Buffer.from(text)]);
    };
    const texts = Array.from({ length: 6 }, (_, at) => `text ${at}`);
    const members = texts.map((text, at) => ({ name: `m${at}`, text: Buffer.from(text), packed: packed(text), method: 93 })); // prettier-ignore
    const zip = await openZip(await fileOf("several.zip", zipOf(members)), { memberBytes: 1000, members: 10 });
    const read = await Promise.all(zip.members.map((member) => zip.read(member)));
    expect(read.map(String)).toEqual(texts);
    await zip.close();
  });

  it(
    "refuses zstd that holds a decoder for ever, or was cut short, and reads what follows",
    { timeout: 60_000 },
    async () => {
      const head = { name: "header.json", text: json(header) };
      const endless = Buffer.from("28b52ffd20366d000028616263646502143b6ba1ed0c", "hex");
      const cut = Buffer.from("KLUv/SBAAQIAeyJpZCI6InoiLCJlcG9jaCI6Miwic2NvcmVzIjp7InMiOnsidmFs", "base64");
      for (const packed of [endless, cut]) {
        const members = [head, { name: "samples/z_epoch_2.json", text: json(sample), packed, method: 93 }];
        const reading = readAll(await fileOf("endless.eval", zipOf(members)));
        await expect(reading).rejects.toThrow(/^Cannot read "x".*samples\/z_epoch_2\.json" /);
      }
    },
  );

  it("refuses bombs, lies and damage in a sentence", async () => {
    const name = "samples/a_epoch_1.json";
    const head = { name: "header.json", text: json(header) };
    const refused = async (members: Member[], change: (zip: Buffer) => Buffer = (zip) => zip): Promise<string> => {
      const path = await fileOf("bad.eval", change(zipOf(members)));
      return readAll(path, { recordBytes: 1 << 20 }).then(
        () => "read",
        (error: unknown) => (error as Error).message,
      );
    };
    const zeros = Buffer.alloc(64 << 20);
    expect(await refused([head, { name, text: zeros }])).toContain(
      "has 67108864 bytes unpacked, expected at most 1048576",
    );
    expect(await refused([head, { name, text: zeros, size: 1000 }])).toContain('Cannot read "x"');
    expect(await refused([head, { name, text: json(sample), method: 93 }])).toContain('Cannot read "x"');
    expect(await refused([head, { name, text: json(sample), method: 14 }])).toContain("packed by method 14");
    const many = Array.from({ length: 200 }, () => ({
      name,
      text: zeros.subarray(0, 1 << 20),
      packed: deflateRawSync(zeros.subarray(0, 1 << 20)).subarray(0, 9),
      size: 1 << 20,
    }));
    expect(await refused([head, ...many])).toMatch(/^Cannot read "x"/);
    expect(await refused([head], (zip) => zip.subarray(0, zip.length - 5))).toContain("no directory of a zip file");
    expect(await refused([head, { name, text: json(sample) }], (zip) => { zip[160]! ^= 255; return zip; })).toMatch(/^Cannot read "x/); // prettier-ignore
    expect(await refused([head, { name: "samples/a/messages/0.json", text: json(sample) }])).toContain(
      "stored in chunks",
    );
  });
});
