// Parts of the viewer's page that are functions: calls to copy, time, cost. Their records are real.

import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { rollout } from "../src/api/rollout.ts";
import { decodeEpisode, type ShownEpisode, type ShownEvent, type StoredEpisode } from "../src/viewer/wire/index.ts";
import { callRecord, hideSecrets } from "../viewer/src/call-record.ts";
import { costOf, segmentsOf, turnTitles } from "../viewer/src/timeline.ts";

let episode: ShownEpisode;
beforeAll(async () => {
  const cwd = await mkdtemp(join(tmpdir(), "trainable-agents-page-"));
  await rollout({
    env: "bookshop",
    engine: "expert",
    tasks: "0",
    groupSize: 1,
    seed: 3,
    out: "run",
    quiet: true,
    cwd,
    variables: {},
  });
  const [line = ""] = (await readFile(join(cwd, "run", "episodes.jsonl"), "utf8")).split("\n");
  episode = decodeEpisode(JSON.parse(line) as StoredEpisode);
}, 60_000);

const calls = {
  engine: "sglang",
  address: "http://127.0.0.1:30000/",
  sampling: { temperature: 0.5, max_new_tokens: 9 },
};
const facts = { key: "0", model: "m", calls };

describe("a call", () => {
  it("of an engine has its ids, and is repeated by curl", () => {
    const { turns } = episode.trajectory;
    const call = callRecord(episode, 1, facts)!;
    const [first, second] = [turns[0]!, turns[1]!];
    const prompt = [...first.observationTokens, ...first.sampledTokens, ...second.observationTokens];
    expect(call.request).toEqual({ input_ids: prompt, sampling_params: calls.sampling });
    expect(call.reply).toMatchObject({ output_ids: [...second.sampledTokens] });
    expect(call.curl).toMatch(/^curl 'http:\/\/127\.0\.0\.1:30000\/generate' \\\n.*content-type: application\/json/);
    const body = JSON.parse(/--data-binary '(.*)'$/s.exec(call.curl!)![1]!) as object;
    expect(body).toEqual({ ...call.request, return_logprob: true });
    expect(callRecord(episode, 1, { ...facts, calls: { ...calls, engine: "vllm" } })?.curl).toMatch(
      /\/v1\/completions'/,
    );
    expect(callRecord(episode, 1, { ...facts, calls: { ...calls, address: "this process" } })?.curl).toBeNull();
    expect(callRecord(episode, 99, facts)).toBeNull();
  });

  it("is a test case with the conversation so far and what the agent did", () => {
    const messages = episode.messages.filter(({ role }) => role !== "system");
    for (const { index } of episode.trajectory.turns) {
      const task = JSON.parse(callRecord(episode, index, facts)!.testCase) as {
        messages: { role: string }[];
        id: string;
      };
      expect(task.id).toBe(`${episode.id}@${index}`);
      expect(task.messages.filter(({ role }) => role === "assistant")).toHaveLength(index);
      expect(task.messages.at(-1)?.role).not.toBe("assistant");
    }
    expect(messages.length).toBeGreaterThan(3);
  });

  it("of a program at the gateway has the messages and tools of its conversation", () => {
    const action = { text: "a", content: "Hello.", reasoning: null, toolCalls: [], problems: [] };
    const exchange = (turn: number, basis: number | null, content: string): ShownEvent =>
      ({
        type: "exchange",
        turn,
        call: turn,
        dialect: "chat",
        digest: "d",
        basis,
        messages: [{ role: "user", content }],
        tools: basis === null ? [{ type: "function" }] : null,
        action,
        continues: null,
        ignored: ["user"],
        response: null,
      }) as unknown as ShownEvent;
    const usage = { modelCalls: 1, inputTokens: 7, outputTokens: 3, cost: 0.25 };
    const reply = { type: "agent-reply", turn: 1, attempts: [{ waitedMs: 100 }], usage, durationMs: 400 };
    const shown = {
      ...episode,
      events: [exchange(0, null, "it's one"), exchange(1, 0, "two"), reply as unknown as ShownEvent],
    };
    const call = callRecord(shown, 1, {
      ...facts,
      calls: { ...calls, engine: null, address: "https://api.example/v1" },
    })!;
    expect(call.request).toEqual({
      model: "m",
      messages: [
        { role: "user", content: "it's one" },
        { role: "assistant", content: "Hello." },
        { role: "user", content: "two" },
      ],
      tools: [{ type: "function" }],
      temperature: 0.5,
      max_tokens: 9,
    });
    expect(call.reply).toMatchObject({ content: "Hello.", usage, dialect: "chat", ignored_fields: ["user"] });
    expect(call.curl).toContain(`-H "authorization: Bearer $API_KEY"`);
    expect(call.curl).toContain(`it'\\''s one`);
    expect(segmentsOf(shown)).toMatchObject([
      { kind: "waiting", turn: 1, startMs: 0, ms: 100 },
      { kind: "sampling", turn: 1, startMs: 100, ms: 300 },
    ]);
    expect(costOf(shown)).toMatchObject({
      promptTokens: 7,
      sampledTokens: 3,
      cachedTokens: null,
      seconds: 0.4,
      dollars: 0.25,
    });
  });
});

it("shows the whole time of an episode, turn by turn", () => {
  const segments = segmentsOf(episode);
  const whole = episode.events.reduce((sum, event) => sum + ("durationMs" in event ? event.durationMs : 0), 0);
  expect(segments.reduce((sum, { ms }) => sum + ms, 0)).toBeCloseTo(whole, 6);
  expect([...turnTitles(episode).keys()]).toEqual(episode.trajectory.turns.map(({ index }) => index));
  expect(costOf(episode)).toMatchObject({
    sampledTokens: episode.trajectory.turns.reduce((sum, turn) => sum + turn.sampledTokens.length, 0),
    dollars: 0,
  });
  expect(costOf({ events: [] })).toBeNull();
});

it("hides what looks like a key, and nothing else", () => {
  const plain = 'The token was "sky-high"; sk-1 and risk-free. {"max_tokens": 5, "secretary": "Ada", "ids": [1, 2]}';
  expect(hideSecrets(plain)).toBe(plain);
  const key = "abcdefghijklmnopqrstuvwx";
  for (const secret of [
    `sk-${key}`,
    `sk-proj-${key}`,
    `ghp_${key}`,
    `hf_${key}`,
    "AKIAABCDEFGHIJKLMNOP",
    `eyJ${key}.${key}.${key}`,
    `Bearer ${key}`,
    `https://user:${key}@host/`,
    `{"api_key": "${key}"}`,
    JSON.stringify({ text: `{"password":"${key}"}` }),
    // Escapes before a key, and inside of a password.
    ...["\n", "\t", "\u001b"].flatMap((before) =>
      [`sk-${key}`, "AKIAABCDEFGHIJKLMNOP", `eyJ${key}.${key}.${key}`, `Bearer ${key}`].map((one) =>
        JSON.stringify({ text: before + one }),
      ),
    ),
    JSON.stringify({ password: `a"b\\${key}` }),
    JSON.stringify({ text: JSON.stringify({ password: `a"b\\${key}\\`, next: "c" }) }),
    JSON.stringify({ "x-api-key": key, DB_PASSWORD: key }),
  ]) {
    const shown = hideSecrets(`before ${secret} after`);
    expect(shown).toMatch(/^before .*\[hidden\].* after$/);
    expect(shown).not.toContain(key);
    expect(shown).not.toContain("AKIAABCD");
    if (secret.startsWith("{")) expect(() => JSON.parse(shown.slice(7, -6)) as unknown).not.toThrow();
  }
});
