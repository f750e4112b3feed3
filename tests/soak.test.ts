// Many episodes against a server on which everything goes wrong, over real sockets. Whatever happens, every episode ends in
// exactly one outcome, no token is lost or trained twice, and nothing is left running.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { createToolCalling } from "../src/agents/index.ts";
import type { Episode } from "../src/core/index.ts";
import { createSglangEngine } from "../src/engines/sglang/index.ts";
import { bookshopSource, createExpertSampler } from "../src/environments/bookshop/index.ts";
import { createQwenRenderer } from "../src/renderers/index.ts";
import { runRollout, tokenExactPlayer } from "../src/runs/index.ts";
import { createFaultSampler, createSglangFront, faultNames, type FaultSamplerOptions } from "../src/testing/index.ts";
import { createReadableTokenizer } from "../src/tokenizers/index.ts";
import { alignmentViolations, conservationViolations } from "../src/trajectories/index.ts";
import { agendaUser } from "../src/users/index.ts";

const isFull = process.env["FULL"] === "1";
const tasks = isFull ? 500 : 50;
const samplesPerTask = 4;
const concurrency = isFull ? 256 : 64;

const rates: FaultSamplerOptions["rates"] = Object.fromEntries(faultNames.map((name) => [name, 0.05]));

describe("soak", () => {
  it(`${tasks * samplesPerTask} episodes at concurrency ${concurrency}, each fault at 5 %: one outcome each, every token accounted for`, async () => {
    const tokenizer = createReadableTokenizer();
    const sampler = createFaultSampler(createExpertSampler({ tokenizer, noise: 0.2, seed: 3 }), { seed: 5, rates });
    const front = createSglangFront({ sampler, tokenizer });
    const listener = await front.listen();
    const engine = createSglangEngine({ url: listener.url, connections: concurrency });
    const environment = bookshopSource();
    const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
    const parts = { environment, engine, renderer, user: agendaUser(), strategy: createToolCalling() };
    const play = tokenExactPlayer(parts, {
      seedTurns: true,
      retry: { maxAttempts: 8, maxElapsedMs: 120_000, baseDelayMs: 5, maxDelayMs: 100 },
    });

    const outcomes = new Map<string, number>();
    const seen = new Set<string>();
    const totals = await runRollout(
      {
        taskset: environment.taskset("train"),
        taskIndexes: Array.from({ length: tasks }, (_, index) => index),
        samplesPerTask,
        seed: 11,
      },
      {
        play,
        store: { append: () => Promise.resolve(), appendGroup: () => Promise.resolve() },
        exportSamples: ({ episode, result }) => {
          expect(conservationViolations(episode.trajectory, result)).toEqual([]);
          expect(result.samples.flatMap(alignmentViolations)).toEqual([]);
          return [];
        },
      },
      {
        concurrency,
        onEpisode: (episode) => {
          expect(seen.has(episode.id)).toBe(false);
          seen.add(episode.id);
          outcomes.set(episode.outcome, (outcomes.get(episode.outcome) ?? 0) + 1);
          expectConsistent(episode);
        },
      },
    );
    await engine.close();
    await listener.close();

    expect(seen.size).toBe(tasks * samplesPerTask);
    expect([...outcomes.values()].reduce((sum, count) => sum + count, 0)).toBe(tasks * samplesPerTask);
    expect(front.load()).toEqual({ running: 0, waiting: 0 });
    // Every fault was met, and most episodes went on in spite of them.
    for (const name of faultNames) expect(sampler.counts[name], name).toBeGreaterThan(0);
    expect(outcomes.get("completed") ?? 0).toBeGreaterThan(tasks);
    expect(totals.episodesFinished).toBe(tasks * samplesPerTask);
  });

  // Minutes of work: in the full suite alone. It runs from dist/.
  it.runIf(isFull)("20,000 episodes need no more memory than 2,000 do", { timeout: 1_800_000 }, async () => {
    const script = fileURLToPath(new URL("soak/soak-child.mjs", import.meta.url));
    const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", script, "5000", "256", "2000"]);
    type Memory = { readonly resident: number; readonly heap: number };
    const { marked, last, episodes } = JSON.parse(stdout) as {
      readonly marked: Memory;
      readonly last: Memory;
      readonly episodes: number;
    };
    expect(episodes).toBe(20_000);
    expect(last.heap / marked.heap, "heap").toBeLessThanOrEqual(1.05);
    expect(last.resident / marked.resident, "resident").toBeLessThanOrEqual(1.05);
  });
});

/** Outcome, reward and failure of an episode agree. */
function expectConsistent(episode: Episode): void {
  const { outcome, reward, failure } = episode;
  expect(failure === null).toBe(outcome !== "failed");
  expect(reward !== null).toBe(outcome === "completed" || outcome === "truncated");
  expect(episode.events.at(-1)?.type).toBe("episode-end");
}
