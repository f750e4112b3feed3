import fc from "fast-check";
import { expect, test } from "vitest";
import { createTestService } from "./service.test-helper.ts";

type Answer = { readonly id: string; readonly rows: readonly unknown[] | null; readonly status: string };

/** Fields about the form of the answer, and different spellings of one request for a group. */
const same = fc.record(
  {
    wait_seconds: fc.constantFrom(0, 0.001, null),
    rows: fc.constantFrom("slime", null),
    split: fc.constantFrom("train", null),
    seed: fc.constant(null),
    sampling_params: fc.constantFrom(
      { temperature: 0.5, top_p: 1 },
      { top_p: 1, temperature: 0.5 },
      { temperature: 0.5, top_p: 1, top_k: null, stop: [], skip_special_tokens: false },
    ),
    size: fc.constantFrom({ group_size: 2 }, { samples: 2 }, { group_size: 2, samples: 2 }),
    order: fc.boolean(),
  },
  { requiredKeys: ["size", "sampling_params", "order"] },
);

const different = fc.constantFrom<object>(
  { seed: 1 },
  { split: "test" },
  { task_index: 6 },
  { group_size: 3 },
  { sampling_params: { temperature: 1, top_p: 1 } },
  { engine: { url: "http://127.0.0.1:9" } },
);

type RequestFields = { readonly size: object; readonly order: boolean; readonly sampling_params?: object };

function bodyOf({ size, order, ...fields }: RequestFields): object {
  const body = { task_index: 5, ...fields, ...size };
  return order ? Object.fromEntries(Object.entries(body).toReversed()) : body;
}

test("a key finds its group however the same request is written, and refuses every other request", async () => {
  const { send } = createTestService();
  const key = { "idempotency-key": "one" };
  const first = (await (await send("/v1/groups", bodyOf({ size: { group_size: 2 }, order: false, sampling_params: { temperature: 0.5, top_p: 1 } }), key)).json()) as Answer; // prettier-ignore
  await fc.assert(
    fc.asyncProperty(same, different, async (fields, change) => {
      const again = await send("/v1/groups", bodyOf(fields), key);
      expect(again.status).toBe(200);
      expect(((await again.json()) as Answer).id).toBe(first.id);
      const other = await send("/v1/groups", { task_index: 5, group_size: 2, sampling_params: { temperature: 0.5, top_p: 1 }, ...change }, key); // prettier-ignore
      expect([other.status, await other.json()]).toMatchObject([409, { error: { code: "key-reused" } }]);
    }),
    { numRuns: 60 },
  );
});

test("a producer's key is compared in the same way, its filters included", async () => {
  const { send } = createTestService();
  const key = { "idempotency-key": "one" };
  const body = { group_size: 2, batch_groups: 1, tasks: [1, 2], filters: ["zero-signal"], passes: 1 };
  const first = (await (await send("/v1/producers", body, key)).json()) as Answer;
  const { group_size: samples, ...rest } = body;
  for (const again of [body, { samples, ...rest }, { ...body, max_staleness: 1, stale: "drop", curriculum: null }]) {
    expect(((await (await send("/v1/producers", again, key)).json()) as Answer).id).toBe(first.id);
  }
  for (const change of [
    { filters: ["reward-range:0-1"] },
    { filters: null },
    { passes: null },
    { tasks: [2, 1] },
    { max_staleness: 2 },
  ]) {
    expect((await send("/v1/producers", { ...body, ...change }, key)).status).toBe(409);
  }
});

test("an answer holds the rows that are asked for, once all has ended, and never before", async () => {
  const { send, sendJson } = createTestService();
  const done = await sendJson<Answer>("/v1/groups", { task_index: 3, group_size: 3, wait_seconds: 60, rows: "slime" });
  const { samples } = await sendJson<{ samples: unknown[] }>(`/v1/groups/${done.id}/samples?format=slime`);
  expect(done.status).toBe("ended");
  expect(done.rows).toEqual(samples);
  expect(samples.length).toBeGreaterThanOrEqual(3);
  expect(await sendJson<Answer>(`/v1/groups/${done.id}`)).not.toHaveProperty("rows");
  expect((await sendJson<Answer>(`/v1/groups/${done.id}?rows=slime`)).rows).toEqual(samples);
  // The episode cannot have ended yet, because this request does not wait.
  const started = await sendJson<Answer>("/v1/episodes", { task_index: 3, rows: "slime" });
  expect(started.rows).toBeNull();
  const episode = await sendJson<Answer>(`/v1/episodes/${started.id}?wait_seconds=60&rows=slime`);
  expect(episode.rows).toHaveLength(1);
  const refused = await send("/v1/groups", { task_index: 3, group_size: 3, rows: "slmie" });
  expect([refused.status, await refused.json()]).toMatchObject([
    400,
    { error: { message: expect.stringContaining('Cannot write rows as "slmie": the formats are slime') as unknown } },
  ]);
});
