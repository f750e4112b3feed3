// Producers over HTTP: what a trainer asks of them, and what it must not.

import { describe, expect, test } from "vitest";
import { createTestService, type TestService } from "./service.test-helper.ts";

type ProducerAnswer = {
  readonly id: string;
  readonly state: string;
  readonly version: number;
  readonly batches: number;
  readonly handed_over: number;
  readonly dropped: Readonly<Record<string, number>>;
};
type BatchAnswer = {
  readonly number: number;
  readonly status: string;
  readonly groups: readonly {
    readonly id: string;
    readonly task_index: number;
    readonly staleness: number;
    readonly status: string;
    readonly episodes: readonly { readonly id: string; readonly seed: number; readonly reward: number | null }[];
  }[];
  readonly producer: ProducerAnswer;
};

const asked = { samples: 2, batch_groups: 2, max_staleness: 0, weight_version: "3" };
const batchOf = ({ askJson }: TestService, id: string, number: number, body: unknown = { wait_seconds: 60 }) =>
  askJson<BatchAnswer>(`/v1/producers/${id}/batches/${number}`, body);
const tasksOf = ({ groups }: BatchAnswer): number[] => groups.map(({ task_index }) => task_index);

describe("a producer", () => {
  test("hands over numbered batches, the same again for the same number, and their rows", async () => {
    const tested = createTestService();
    const { ask, askJson, groups } = tested;
    const answer = await ask("/v1/producers", asked);
    expect(answer.status).toBe(201);
    const { id } = (await answer.json()) as ProducerAnswer;
    const first = await batchOf(tested, id, 0);
    expect(first).toMatchObject({ number: 0, status: "ready", producer: { id, batches: 1, handed_over: 2 } });
    expect(tasksOf(first)).toEqual([0, 1]);
    expect(new Set(first.groups.flatMap(({ episodes }) => episodes.map(({ seed }) => seed))).size).toBe(4);
    expect((await batchOf(tested, id, 0)).groups).toEqual(first.groups);
    for (const group of first.groups) {
      expect(group.id).toMatch(/^[\w-]+$/);
      const { samples } = await askJson<{ samples: unknown[] }>(`/v1/groups/${group.id}/samples`);
      expect(groups.get(group.id)?.map((line) => JSON.parse(line) as unknown)).toEqual(samples);
      expect(samples).toHaveLength(2);
      const { staleness: _, ...rest } = group;
      expect(await askJson(`/v1/groups/${group.id}`)).toEqual(rest);
    }
    // Synchronous: the next batch waits for the weights that the first one makes.
    expect(await batchOf(tested, id, 1, {})).toMatchObject({ status: "waiting", groups: [] });
    tested.weights.version = "4";
    await askJson("/v1/weights", { version: "4" });
    expect(tasksOf(await batchOf(tested, id, 1))).toEqual([2, 3]);
    await tested.service.close({ wait: false });
  });
});
