import { describe, expect, it } from "vitest";
import type { Episode, EpisodeEvent } from "../core/index.ts";
import { createManualClock } from "../lib/clock.test-helper.ts";
import type { EpisodeJournal } from "../store/index.ts";
import { type EpisodeRequest, ratesOf, resumableRunner, runRollout, type RunTotals } from "./index.ts";
import { openedStore, passing, plan, runnerOf, rows, task } from "./scripted-run.test-helper.ts";

/** A journal in memory, with the state that the earlier process left in it. */
function journalOf(ended: readonly Episode[], underWay: ReadonlyMap<string, readonly EpisodeEvent[]>) {
  const added: [string, EpisodeEvent][] = [];
  const journal: EpisodeJournal = {
    record: async (id, event) => void added.push([id, event]),
    kept: async (expected) => ended.find(({ id }) => id === expected) ?? null,
    recorded: async (id) => underWay.get(id) ?? [],
  };
  return { journal, added };
}

/** Three episodes of two turns of 500 ms each. Each turn reports one attempt that timed out. */
const behave = () => ({ ...passing(), ms: 1000, turns: 2 });

/** One of them has ended, and one has had its first turn. */
async function earlier() {
  const { runEpisode, clock } = runnerOf(behave);
  const episodes: Episode[] = [];
  const running = runRollout(
    plan(3, 1),
    { runEpisode, store: await openedStore(), exportSamples: rows },
    { clock, onEpisode: ({ open }) => void open().then(({ episode }) => episodes.push(episode)) },
  );
  await clock.drain();
  await running;
  const [first, second] = episodes.toSorted((a, b) => a.task.index - b.task.index);
  return journalOf([first!], new Map([[second!.id, second!.events.slice(0, 1)]]));
}

describe("resumableRunner()", () => {
  it("counts recorded turns among the run's, and leaves them out of what is a second of this process", async () => {
    const { journal, added } = await earlier();
    const { runEpisode, clock, log } = runnerOf(behave);
    const running = runRollout(
      plan(3, 1),
      { runEpisode: resumableRunner(runEpisode, journal), store: await openedStore(), exportSamples: rows },
      { clock },
    );
    await clock.drain();
    const totals = await running;
    expect(log.started).toEqual(["desk:train:1#0", "desk:train:2#0"]);
    expect(added).toHaveLength(3);
    expect(totals).toMatchObject({ episodesFinished: 3, recordedEpisodes: 1, turns: 6, recordedTurns: 3 });
    expect(totals).toMatchObject({ sampledTokens: 12, recordedSampledTokens: 6, elapsedMs: 1000 });
    expect(ratesOf(totals)).toEqual({ turnsPerSecond: 3, sampledTokensPerSecond: 6 });
  });

  it.each([
    ["not by recorded tries", 900, 40],
    ["by tries of its own", 300, 19],
  ])("adapts the number of episodes %s", async (_whose, firstTurnMs, limit) => {
    const { journal } = await earlier();
    const clock = createManualClock();
    const { runEpisode } = runnerOf(() => ({ ...passing(), turns: 2, ms: 2 * firstTurnMs }), clock);
    let totals: (() => RunTotals) | null = null;
    const concurrency = { floor: 2, ceiling: 64, start: 40, load: null, intervalMs: 500 };
    const running = runRollout(
      plan(30, 1),
      { runEpisode: resumableRunner(runEpisode, journal), store: await openedStore(), exportSamples: rows },
      { clock, concurrency, onProgress: (now) => (totals = now) },
    );
    await clock.advance(500);
    expect(totals!().concurrency).toBe(limit);
    await clock.drain();
    expect(await running).toMatchObject({ episodesFinished: 30, recordedTurns: 3 });
  });

  it("gives the calls of an episode that resumes a tag of this process, and those that begin none", async () => {
    const { journal } = await earlier();
    const { runEpisode } = runnerOf(behave, createManualClock());
    const tags: (string | undefined)[] = [];
    const seeds: number[] = [];
    const place = (episodeId: string): EpisodeRequest => ({
      episodeId,
      groupId: episodeId,
      sampleIndex: 0,
      seed: 7,
      signal: AbortSignal.abort(),
      onEvent: () => undefined,
    });
    for (let process = 0; process < 2; process++) {
      const player = resumableRunner((one, at) => {
        tags.push(at.requestTag);
        seeds.push(at.seed);
        return runEpisode(one, at);
      }, journal);
      await player(task(1), place("desk:train:1#0"));
      await player(task(2), place("desk:train:2#0"));
    }
    expect(tags).toEqual([expect.stringMatching(/^[0-9a-f]{8}$/), undefined, expect.any(String), undefined]);
    expect(tags[2]).not.toBe(tags[0]);
    expect(seeds).toEqual([7, 7, 7, 7]);
  });
});
