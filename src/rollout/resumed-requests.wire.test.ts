// A process dies while the server executes its call, and the next process requests the same turn at
// once: the server is still executing the first call, and refuses ids that are in use.

import { expect, it } from "vitest";
import { createToolCalling } from "../agents/index.ts";
import type { EpisodeEvent } from "../core/index.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { bookshopSource } from "../environments/bookshop/index.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import type { EpisodeJournal } from "../store/index.ts";
import { createFunctionSampler, createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { agendaUser } from "../users/index.ts";
import { resumableRunner, episodeRunner } from "./index.ts";

it("a turn that an orphaned call still samples is asked for again, with the same seed", async () => {
  const tokenizer = createReadableTokenizer();
  const asked: { readonly requestId: string; readonly seed: unknown }[] = [];
  let orphaned: () => void = () => undefined;
  const isOrphaned = new Promise<void>((resolve) => (orphaned = resolve));
  let release: () => void = () => undefined;
  const isReleased = new Promise<void>((resolve) => (release = resolve));
  const sampler = createFunctionSampler(async ({ requestId, params }) => {
    asked.push({ requestId, seed: params.seed });
    if (asked.length === 2) {
      orphaned();
      await isReleased;
    }
    return { ids: tokenizer.encode("Which book?<|im_end|>") };
  });
  const front = createSglangFront({ sampler });
  const listener = await front.listen();
  const environment = bookshopSource();
  const task = environment.taskset("train").task(0);
  const place = {
    episodeId: "ep",
    groupId: "ep",
    sampleIndex: 0,
    seed: 3,
    signal: new AbortController().signal,
    onEvent: () => undefined,
  };
  const journalOf = (events: EpisodeEvent[]): EpisodeJournal => ({
    record: async (_id, event) => void events.push(event),
    kept: async () => null,
    recorded: async () => [...events],
  });
  const start = (events: EpisodeEvent[]) => {
    const engine = createSglangEngine({ url: listener.url });
    const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
    const parts = { environment, engine, renderer, user: agendaUser(), strategy: createToolCalling() };
    const runEpisode = episodeRunner(parts, { seedTurns: true, limits: { maxTurns: 2 } });
    return { engine, played: resumableRunner(runEpisode, journalOf(events))(task, place) };
  };

  const events: EpisodeEvent[] = [];
  const dead = start(events);
  await isOrphaned;
  // The first process counts as killed: its later events are never read.
  const next = start([...events]);
  const { episode, origin } = await next.played;
  expect(front.load().running).toBe(1);
  expect([origin, episode.stopReason, episode.trajectory.turns.length]).toEqual(["resumed", "max_turns", 2]);
  expect(episode.events.flatMap((event) => (event.type === "turn" ? event.attempts : []))).toEqual([]);
  const [first, orphan, again] = asked;
  expect(asked).toHaveLength(3);
  expect([first!.requestId, orphan!.requestId]).toEqual([
    "f69f122302f69e0b_t0000_r0001",
    "f69f122302f69e0b_t0001_r0001",
  ]);
  // The resumed call has another id, because the server still executes the earlier one.
  expect(again!.requestId).toMatch(/^(?!f69f122302f69e0b)[0-9a-f]{16}_t0001_r0001$/);
  expect(again!.seed).toBe(orphan!.seed);
  // The record has the ids that an episode without a kill would have, so that its digests are the same.
  expect(episode.trajectory.turns.map(({ requestIds }) => requestIds)).toEqual([
    ["f69f122302f69e0b_t0000_r0001"],
    ["f69f122302f69e0b_t0001_r0001"],
  ]);

  release();
  await dead.played;
  await Promise.all([dead.engine.close(), next.engine.close()]);
  await listener.close();
});
