import { describe, expect, test } from "vitest";
import { createTestService } from "./service.test-helper.ts";

type EpisodeAnswer = {
  readonly id: string;
  readonly group_id: string;
  readonly status: string;
  readonly outcome: string | null;
  readonly reward: number | null;
  readonly seed: number;
  readonly turns: number | null;
};
type GroupAnswer = { readonly id: string; readonly status: string; readonly episodes: readonly EpisodeAnswer[] };
type SamplesAnswer = {
  readonly samples: readonly { readonly tokens: readonly number[]; readonly loss_mask: readonly number[] }[];
};
type ErrorAnswer = { readonly error: { readonly code: string; readonly message: string } };

const waiting = { wait_seconds: 60 };

describe("episodes", () => {
  test("an episode is started, waited for, and gives its rows", async () => {
    const { send, sendJson, kept, groups } = createTestService();
    const answer = await send("/v1/episodes", { task_index: 3, ...waiting });
    expect(answer.status).toBe(200);
    const episode = (await answer.json()) as EpisodeAnswer;
    expect(episode).toMatchObject({ status: "ended", outcome: "completed", weight_versions: ["3"], task_index: 3 });
    const { samples } = await sendJson<SamplesAnswer>(`/v1/episodes/${episode.id}/samples?format=slime`);
    expect(samples).toHaveLength(1);
    const trained = samples[0]?.loss_mask.reduce((sum, mask) => sum + mask, 0);
    const sampled = kept.get(episode.id)?.trajectory.turns.reduce((sum, turn) => sum + turn.sampledTokens.length, 0);
    expect(trained).toBe(sampled);
    expect(groups.get(episode.group_id)?.map((line) => JSON.parse(line) as unknown)).toEqual(samples);
  });

  test("a request that need not wait is accepted, and polled", async () => {
    const { send, sendJson } = createTestService();
    const accepted = await send("/v1/episodes", { task_index: 0 });
    expect(accepted.status).toBe(202);
    const { id } = (await accepted.json()) as EpisodeAnswer;
    expect(await sendJson(`/v1/episodes/${id}?wait_seconds=60`)).toMatchObject({ status: "ended" });
  });

  test("the same key is the same episode; with another body it is refused", async () => {
    const { send, sendJson, calls } = createTestService();
    const key = { "idempotency-key": "step 1, task 5" };
    const first = await sendJson<EpisodeAnswer>("/v1/episodes", { task_index: 5, ...waiting }, key);
    const before = calls();
    const again = await send("/v1/episodes", { task_index: 5, ...waiting }, key);
    expect([again.status, await again.json()]).toEqual([200, first]);
    expect(calls()).toBe(before);
    const other = await send("/v1/episodes", { task_index: 6, ...waiting }, key);
    expect([other.status, await other.json()]).toMatchObject([409, { error: { code: "key-reused" } }]);
  });

  test("keys, not order, decide what an episode draws", async () => {
    const request = (key: string) =>
      ["/v1/episodes", { task_index: 1, ...waiting }, { "idempotency-key": key }] as const;
    const [one, two] = [createTestService(), createTestService()];
    await one.sendJson<EpisodeAnswer>(...request("a"));
    const first = await one.sendJson<EpisodeAnswer>(...request("b"));
    const second = await two.sendJson<EpisodeAnswer>(...request("b"));
    expect(second).toEqual(first);
    expect(two.kept.get(second.id)?.trajectory).toEqual(one.kept.get(first.id)?.trajectory);
  });

  test("events stream until the end, and go on where a client lost them", async () => {
    const { send, sendJson } = createTestService();
    const { id } = await sendJson<EpisodeAnswer>("/v1/episodes", { task_index: 2 });
    const all = await (await send(`/v1/episodes/${id}/events`)).text();
    const types = [...all.matchAll(/^event: (\S+)$/gm)].map(([, type]) => type);
    expect(types.slice(0, 3)).toEqual(["episode-start", "user-line", "turn"]);
    expect(types.slice(-3)).toEqual(["grade", "episode-end", "ended"]);
    const rest = await (await send(`/v1/episodes/${id}/events`, undefined, { "last-event-id": "3" })).text();
    expect(all.endsWith(rest)).toBe(true);
    expect(rest.startsWith("id: 4\n")).toBe(true);
  });

  test("a cancelled episode ends as aborted and trains nothing", async () => {
    const { send, sendJson, gate } = createTestService();
    gate.close();
    const { id } = await sendJson<EpisodeAnswer>("/v1/episodes", { task_index: 2 });
    await send(`/v1/episodes/${id}/cancel`, {});
    gate.open();
    const ended = await sendJson<EpisodeAnswer>(`/v1/episodes/${id}?wait_seconds=60`);
    expect(ended).toMatchObject({ status: "ended", outcome: "aborted", reward: null });
    expect((await sendJson<SamplesAnswer>(`/v1/episodes/${id}/samples`)).samples).toEqual([]);
  });
});

describe("groups", () => {
  test("a group runs its episodes apart and returns all rows at once", async () => {
    const { sendJson } = createTestService();
    const group = await sendJson<GroupAnswer>("/v1/groups", { task_index: 4, samples: 5, ...waiting });
    expect(group).toMatchObject({ status: "ended", samples: 5 });
    expect(new Set(group.episodes.map(({ seed }) => seed)).size).toBe(5);
    const { samples } = await sendJson<SamplesAnswer>(`/v1/groups/${group.id}/samples`);
    expect(samples).toHaveLength(5);
  });

  test("the size of a group is group_size, and samples as before; it is required and reported under both names", async () => {
    const { send, sendJson } = createTestService();
    for (const size of [{ group_size: 2 }, { samples: 2 }, { group_size: 2, samples: 2 }]) {
      const group = await sendJson("/v1/groups", { task_index: 0, ...size });
      expect(group).toMatchObject({ group_size: 2, samples: 2 });
    }
    for (const size of [{}, { group_size: 2, samples: 3 }, { group_size: 0 }]) {
      expect([size, (await send("/v1/groups", { task_index: 0, ...size })).status]).toEqual([size, 400]);
    }
    const producer = await sendJson("/v1/producers", { group_size: 2, batch_groups: 1, passes: 1 });
    expect(producer).toMatchObject({ group_size: 2, samples: 2 });
  });

  test("samples of a group in flight are refused with what to do", async () => {
    const { send, sendJson, gate } = createTestService();
    gate.close();
    const { id } = await sendJson<GroupAnswer>("/v1/groups", { task_index: 4, samples: 2 });
    const early = await send(`/v1/groups/${id}/samples`);
    expect([early.status, await early.json()]).toMatchObject([409, { error: { code: "not-ended" } }]);
    gate.open();
    expect(await sendJson(`/v1/groups/${id}?wait_seconds=60`)).toMatchObject({ status: "ended" });
  });
});

describe("a trainer's signals", () => {
  test("pause holds every episode before its next engine call, continue lets them go on", async () => {
    const reported: unknown[] = [];
    const parts = { onMismatch: (report: unknown) => void reported.push(report) };
    const { sendJson, calls, send } = createTestService({ parts });
    expect(await sendJson("/v1/pause", {})).toEqual({ status: "paused" });
    const { id } = await sendJson<GroupAnswer>("/v1/groups", { task_index: 0, samples: 3 });
    expect(await sendJson(`/v1/groups/${id}?wait_seconds=0.05`)).toMatchObject({ status: "waiting" });
    expect(calls()).toBe(0);
    expect(await sendJson("/v1/info")).toMatchObject({ status: "paused", running: 3 });
    expect(await sendJson("/v1/weights", { version: 12 })).toEqual({ weight_version: "12" });
    expect(reported).toEqual([]);
    const mismatch = { mean_kl: 0.0003, largest: 0.5 };
    expect(await sendJson("/v1/weights", { version: 12, mismatch })).toEqual({ weight_version: "12" });
    await sendJson("/v1/weights", { version: 12, mismatch: { largest: 1 } });
    expect(reported).toEqual([
      { version: "12", meanKl: 0.0003, largestDifference: 0.5 },
      { version: "12", meanKl: null, largestDifference: 1 },
    ]);
    for (const wrong of [{ mean_kl: "x" }, { largest: -1 }, { other: 1 }, 3]) {
      expect((await send("/v1/weights", { version: 12, mismatch: wrong })).status).toBe(400);
    }
    await send("/v1/continue", {});
    expect(await sendJson(`/v1/groups/${id}?wait_seconds=60`)).toMatchObject({ status: "ended" });
    expect(await sendJson("/v1/info")).toMatchObject({ status: "open", weight_version: "12", running: 0 });
  });

  test("more than may wait is refused with 429 and when to come again", async () => {
    const { send, gate, service } = createTestService({ limits: { concurrency: 1, maxWaiting: 2 } });
    gate.close();
    expect((await send("/v1/groups", { task_index: 0, samples: 2 })).status).toBe(202);
    expect((await send("/v1/groups", { task_index: 0, samples: 1 })).status).toBe(202);
    const refused = await send("/v1/groups", { task_index: 0, samples: 1 });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    gate.open();
    await service.close({ wait: true });
    const closed = await send("/v1/episodes", { task_index: 0 });
    expect([closed.status, closed.headers.get("retry-after")]).toEqual([503, "5"]);
    for (const path of ["/health", "/healthz", "/ready", "/readyz"]) {
      const answer = await send(path);
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "5"]);
      expect(await answer.json()).toMatchObject({ status: "draining" });
    }
  });
});

describe("hostile requests", () => {
  test.each<[string, unknown, number, string]>([
    ["not JSON", "{", 400, "its body is not JSON"],
    ["an array", [], 400, "see /openapi.json"],
    ["no task", {}, 400, 'field "task_index"'],
    ["a task that is not", { task_index: 10 ** 9 }, 400, "has no task 1000000000"],
    ["a negative task", { task_index: -1 }, 400, 'field "task_index"'],
    ["a split that is not", { task_index: 0, split: "dev" }, 400, 'has no split "dev"'],
    ["a misspelt parameter", { task_index: 0, sampling_params: { temprature: 1 } }, 400, "temprature"],
    ["a stop string", { task_index: 0, sampling_params: { stop: ["x"] } }, 400, "sampling_params.stop"],
    ["an infinite temperature", '{"task_index":0,"sampling_params":{"temperature":1e999}}', 400, "temperature"],
    ["deep nesting", `{"task_index":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, 400, 'field "task_index"'],
    ["a prototype", '{"task_index":0,"__proto__":{"samples":4}}', 400, "see /openapi.json"],
    ["a large body", `{"task_index":"${"x".repeat(2 ** 20)}"}`, 413, "more than 1048576 bytes"],
  ])("%s gets a 4xx that says why", async (_name, body, status, message) => {
    const { send } = createTestService();
    const answer = await send("/v1/episodes", body);
    const { error } = (await answer.json()) as ErrorAnswer;
    expect([answer.status, error.message]).toEqual([status, expect.stringContaining(message)]);
    expect((await send("/health")).status).toBe(200);
  });

  test("a page of another origin cannot start episodes: its body is not application/json", async () => {
    const { send } = createTestService();
    expect((await send("/v1/episodes", '{"task_index":0}', { "content-type": "text/plain" })).status).toBe(415);
  });

  test("paths and methods that are not say so", async () => {
    const { send, sendJson } = createTestService();
    expect((await send("/v2/episodes")).status).toBe(404);
    expect((await send("/v1/episodes")).status).toBe(405);
    expect(await sendJson("/v1/episodes/nothing")).toMatchObject({ error: { code: "not-found" } });
    expect(await sendJson("/v1/episodes/nothing/samples?format=csv")).toMatchObject({ error: { code: "not-found" } });
  });

  test("secrets are taken out of whatever is answered", async () => {
    const { send, sendJson } = createTestService({
      redact: (text) => text.replaceAll("sesame", "***"),
      parts: { runner: () => () => Promise.reject(new Error("the server refuses the key sesame")) },
    });
    const { id } = await sendJson<EpisodeAnswer>("/v1/episodes", { task_index: 0, ...waiting });
    const answers = [`/v1/episodes/${id}`, `/v1/episodes/${id}/samples`, `/v1/episodes/${id}/events`].map(
      async (path) => (await send(path)).text(),
    );
    for (const text of await Promise.all(answers)) expect(text).toContain("the server refuses the key ***");
  });

  test("with a token nothing but health, readiness and the document is open", async () => {
    const { send, service } = createTestService({ token: "sesame" });
    expect((await send("/v1/info")).status).toBe(401);
    expect((await send("/v1/info", undefined, { authorization: "Bearer sesam" })).status).toBe(401);
    expect((await send("/v1/info", undefined, { authorization: "Bearer sesame" })).status).toBe(200);
    expect((await send("/health")).status).toBe(200);
    expect(await (await send("/openapi.json")).json()).toEqual(JSON.parse(JSON.stringify(service.document())));
    await expect(createTestService().service.listen({ host: "0.0.0.0", port: 0 })).rejects.toThrow("without a token");
  });
});
