import { expect, test } from "vitest";

import type { FinishedEpisode, RunEpisode } from "../rollout/index.ts";
import { routingKeyOf } from "../rollout/loop.ts";
import { holdEpisodes } from "./hold-episodes.ts";

type Request = Parameters<RunEpisode>[1];
const task = {} as Parameters<RunEpisode>[0];
const requestOf = (episodeId: string, signal = new AbortController().signal) => ({ episodeId, signal }) as Request;
const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
};

test("runs as many episodes as the engine holds, and tells it which have ended", async () => {
  const begun: string[] = [];
  const ended: string[] = [];
  const finish = new Map<string, () => void>();
  const run = holdEpisodes(
    (_, { episodeId }) => {
      begun.push(episodeId);
      return new Promise((resolve) => finish.set(episodeId, () => resolve({} as FinishedEpisode)));
    },
    { mostEpisodes: 2, endEpisode: (key) => ended.push(key) },
  );
  const cancel = new AbortController();
  const calls = ["a", "b", "c"].map((id) => run(task, requestOf(id)));
  const cancelled = run(task, requestOf("d", cancel.signal));
  await turns();
  expect(begun).toEqual(["a", "b"]);
  // A cancelled episode does not wait, because it only reports that it was cancelled.
  cancel.abort();
  await turns();
  expect(begun).toEqual(["a", "b", "d"]);
  finish.get("d")!();
  await cancelled;
  finish.get("b")!();
  await turns();
  expect(begun).toEqual(["a", "b", "d", "c"]);
  finish.get("a")!();
  finish.get("c")!();
  await Promise.all(calls);
  expect(ended.toSorted()).toEqual(["a", "b", "c", "d"].map(routingKeyOf).toSorted());
});

test("gives the place of an episode that rejects to the next", async () => {
  const run = holdEpisodes((_, { episodeId }) => (episodeId === "a" ? Promise.reject(new Error("broken")) : Promise.resolve({} as FinishedEpisode)), { mostEpisodes: 1, endEpisode: () => undefined }); // prettier-ignore
  await expect(run(task, requestOf("a"))).rejects.toThrow("broken");
  await run(task, requestOf("b"));
});
