// Groups that are compared before they are handed over: requested ones, and those of a producer;
// and a service that closes while a judge is answering.

import { expect, test } from "vitest";
import type { Grading } from "../core/index.ts";
import { fakeJudge } from "../graders/fake-judge.test-helper.ts";
import { defineRanking, groupRanker } from "../graders/index.ts";
import { groupRanking, type RankGroup } from "../rollout/index.ts";
import type { LoggedRequest } from "./request-log.ts";
import { createTestService } from "./service.test-helper.ts";

type EpisodeAnswer = { readonly id: string; readonly status: string; readonly reward: number | null };
type GroupAnswer = { readonly id: string; readonly status: string; readonly episodes: readonly EpisodeAnswer[] };

const waiting = { wait_seconds: 60 };

function ranking() {
  const judge = fakeJudge((name) => 1 / (1 + Number(name)));
  const grading: Grading = { judge, environmentWeight: 0, graders: [], ranker: groupRanker(defineRanking(), judge) };
  return { judge, rank: groupRanking(grading)! };
}

const scores = [1 / 4, 1 / 3, 1 / 2];
const sorted = (rewards: readonly (number | null)[]) => rewards.map(Number).toSorted((a, b) => a - b);

test("a requested group ends with its ranking: in answers, in the archive, in the record and in rows", async () => {
  const { judge, rank } = ranking();
  const { sendJson, kept, records, groups } = createTestService({ parts: { rank } });
  const { id, episodes } = await sendJson<GroupAnswer>("/v1/groups", { task_index: 1, group_size: 3, ...waiting });
  expect(sorted(episodes.map(({ reward }) => reward))).toEqual(scores);
  for (const episode of episodes) expect(kept.get(episode.id)?.reward).toBe(episode.reward);
  await expect.poll(() => sorted(records.get(id)?.rewards ?? [])).toEqual(scores);
  const rows = groups.get(id)!.map((row) => (JSON.parse(row) as { reward: number }).reward);
  expect(new Set(rows)).toEqual(new Set(scores));
  expect(judge.asked).toHaveLength(1);
});

test("a producer hands over groups that are ranked", async () => {
  const { judge, rank } = ranking();
  const { sendJson, kept } = createTestService({ parts: { rank } });
  const producer = { samples: 3, batch_groups: 2, max_staleness: 0, weight_version: "3" };
  const { id } = await sendJson<{ id: string }>("/v1/producers", producer);
  const { groups } = await sendJson<{ groups: GroupAnswer[] }>(`/v1/producers/${id}/batches/0`, waiting);
  expect(groups).toHaveLength(2);
  for (const { episodes } of groups) {
    expect(sorted(episodes.map(({ reward }) => reward))).toEqual(scores);
    for (const episode of episodes) expect(kept.get(episode.id)?.reward).toBe(episode.reward);
  }
  expect(judge.asked).toHaveLength(2);
});

test("a service that closes while a judge thinks leaves the group to the next process", async () => {
  const entries: LoggedRequest[] = [];
  const requests = { append: async (entry: LoggedRequest) => void entries.push(entry), close: async () => undefined };
  const kept = new Map<string, never>();
  let isAsked = false;
  const thinks: RankGroup = (_group, { signal }) => {
    isAsked = true;
    return new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error));
    });
  };
  const first = createTestService({ requests, kept, parts: { rank: thinks } });
  const { id } = await first.sendJson<GroupAnswer>("/v1/groups", { task_index: 1, group_size: 3 });
  await expect.poll(() => isAsked).toBe(true);
  await first.service.close({ wait: false });
  expect([kept.size, first.records.size]).toEqual([0, 0]);

  const { rank } = ranking();
  const second = createTestService({ requests, kept, parts: { rank } });
  await second.service.restore(entries, { decided: new Map() });
  await expect.poll(() => sorted(second.records.get(id)?.rewards ?? [])).toEqual(scores);
});
