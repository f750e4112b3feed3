import { describe, expect, test } from "vitest";
import type { EpisodeEvent } from "../core/index.ts";
import { failingEpisode, passingEpisode } from "./episode-events.test-helper.ts";
import { createRunMetrics } from "./prometheus.ts";
import { observeWithAll } from "./observer.ts";

/** Lines of the page without comments, as name and value. */
async function read(page: Promise<string>): Promise<Map<string, number>> {
  const lines = (await page).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]),
  );
}

describe("createRunMetrics()", () => {
  test("counts what environments call the end, a few names each, and nothing that is not a name", async () => {
    const metrics = createRunMetrics();
    const end = (reason: string): void => {
      const info = new Map([["termination_reason", reason]]);
      metrics.event("a#0", { type: "grade", grade: { reward: 0, metrics: {}, log: "", info }, durationMs: 1 });
    };
    for (const reason of ["user_stop", "user_stop", 'a"} 1', ...Array.from({ length: 30 }, (_, at) => `end_${at}`)]) {
      end(reason);
    }
    const page = await read(metrics.page());
    const names = [...page.keys()].filter((name) => name.startsWith("trainable_agents_endings_total"));
    expect(names).toHaveLength(21);
    expect(page.get('trainable_agents_endings_total{ending="user_stop"}')).toBe(2);
    expect(page.get('trainable_agents_endings_total{ending="other"}')).toBe(11);
  });

  test("counts what the events of two episodes say", async () => {
    const metrics = createRunMetrics();
    for (const event of passingEpisode) metrics.event("a#0", event);
    for (const event of failingEpisode) metrics.event("b#0", event);
    metrics.gauges({ runningEpisodes: 3, waitingEpisodes: 9, concurrencyLimit: 64 });
    metrics.staleness(2);
    metrics.group({
      groupId: "a",
      taskId: "a",
      groupIndex: 0,
      decision: "dropped",
      reason: "zero-signal",
      episodeIds: [],
      rewards: [],
    });
    const page = await read(metrics.page());
    const value = (name: string): number | undefined => page.get(`trainable_agents_${name}`);
    expect(value('tokens_total{kind="sampled"}')).toBe(4);
    expect(value("unlikely_tokens_total")).toBe(1);
    expect(value('tokens_total{kind="prompt"}')).toBe(200);
    expect(value('tokens_total{kind="cached"}')).toBe(128);
    expect(value('retries_total{code="overloaded"}')).toBe(1);
    expect(value('action_problems_total{code="not-json"}')).toBe(1);
    expect(value("episodes_started_total")).toBe(2);
    expect(value('episodes_total{outcome="completed",stop_reason="tool_ended"}')).toBe(1);
    expect(value('episodes_total{outcome="failed",stop_reason="fault"}')).toBe(1);
    expect(value('failures_total{boundary="user",code="timeout"}')).toBe(1);
    expect(value("episodes_passed_total")).toBe(1);
    expect(value("reward_sum")).toBe(1);
    expect(value('phase_seconds_sum{phase="engine"}')).toBeCloseTo(0.4);
    expect(value('phase_seconds_count{phase="user"}')).toBe(1);
    expect(value('groups_total{decision="dropped"}')).toBe(1);
    expect(value("episodes_running")).toBe(3);
    expect(value("episodes_waiting")).toBe(9);
    expect(value("concurrency_limit")).toBe(64);
    expect(value("staleness_versions_sum")).toBe(2);
    expect(value("resident_memory_bytes")).toBeGreaterThan(1e6);
    expect(value("loop_lag_p99_seconds")).toBeGreaterThanOrEqual(0);
    await metrics.close();
  });

  test("counts the fields that programs' requests set without effect, a bounded number by name", async () => {
    const metrics = createRunMetrics();
    const exchange = (ignored: readonly string[]): EpisodeEvent => ({
      type: "exchange",
      turn: 0,
      call: 0,
      dialect: "chat",
      digest: "",
      basis: null,
      messages: [],
      tools: [],
      action: { text: "", reasoning: null, content: "", toolCalls: [], problems: [], isTerminated: true },
      continues: null,
      ignored,
      response: null,
    });
    metrics.event("a#0", exchange(["temperature", "user"]));
    metrics.event("a#0", exchange(["user"]));
    metrics.event("a#0", exchange(Array.from({ length: 500 }, (_, index) => `made-up-${index}`)));
    const page = await read(metrics.page());
    const ofFields = [...page].filter(([name]) => name.startsWith("trainable_agents_ignored_fields_total"));
    expect(page.get('trainable_agents_ignored_fields_total{field="user"}')).toBe(2);
    expect(ofFields.length).toBeLessThan(30);
    expect(ofFields.reduce((sum, [, count]) => sum + count, 0)).toBe(503);
    await metrics.close();
  });

  test("counts by the weight version that sampled, the newest versions only, and shows what a trainer measured", async () => {
    const metrics = createRunMetrics();
    const sample = (version: string | null, cachedTokens: number | null): void => {
      const turn = passingEpisode.find((event) => event.type === "turn")!;
      const weightSpans = [{ tokenCount: 2, dispatch: version, reply: null }];
      metrics.event("a#0", {
        ...turn,
        turn: { ...turn.turn, weightSpans },
        usage: { promptTokens: 100, completionTokens: 2, cachedTokens },
      });
    };
    const decide = (codes: readonly string[]): void => {
      const event = passingEpisode.find(({ type }) => type === "decision") as Extract<
        EpisodeEvent,
        { type: "decision" }
      >;
      const problems = codes.map(() => ({ code: "not-json", toolName: null, detail: "" }) as const);
      metrics.event("a#0", { ...event, decision: { type: "end", problems } });
    };
    sample("7", 60);
    decide([]);
    sample("7", null);
    decide(["not-json", "not-json"]);
    sample(null, null);
    metrics.mismatch({ version: "8", meanKl: 0.0004, largestDifference: null });
    metrics.mismatch({ version: "8", meanKl: 0.0003, largestDifference: 0.25 });
    const group = { groupId: "a", taskId: "a", groupIndex: 0, decision: "kept", reason: null, episodeIds: [] } as const;
    for (const rewards of [[0, 1], [1, 1], [null, 1], [], [0.5, null, 0]]) metrics.group({ ...group, rewards });
    const page = await read(metrics.page());
    const value = (name: string): number | undefined => page.get(`trainable_agents_${name}`);
    expect(value('version_tokens_total{version="7",kind="prompt"}')).toBe(200);
    expect(value('version_tokens_total{version="7",kind="cached"}')).toBe(60);
    expect(value('version_tokens_total{version="none",kind="sampled"}')).toBe(2);
    expect(value('version_tokens_total{version="none",kind="cached"}')).toBeUndefined();
    expect(value('version_actions_total{version="7"}')).toBe(2);
    expect(value('version_format_errors_total{version="7"}')).toBe(1);
    expect(value('groups_signal_total{signal="yes"}')).toBe(2);
    expect(value('groups_signal_total{signal="no"}')).toBe(3);
    expect(value('trainer_mismatch_kl{version="8"}')).toBe(0.0003);
    expect(value('trainer_mismatch_largest{version="8"}')).toBe(0.25);
    for (let version = 100; version < 140; version++) {
      sample(String(version), 1);
      decide(["not-json"]);
    }
    const later = [...(await read(metrics.page())).keys()].filter((name) => name.includes('version="'));
    expect(new Set(later.map((name) => /version="(.*?)"/.exec(name)?.[1])).size).toBe(16);
    expect(later.some((name) => name.includes('version="7"'))).toBe(false);
    await metrics.close();
  });

  test("two runs of one process do not share numbers", async () => {
    const [first, second] = [createRunMetrics(), createRunMetrics()];
    first.event("a#0", passingEpisode[0]!);
    expect((await read(second.page())).get("trainable_agents_episodes_started_total")).toBe(0);
    await Promise.all([first.close(), second.close()]);
  });
});

test("observeWithAll() tells every observer, and is null without one", async () => {
  const [first, second] = [createRunMetrics(), createRunMetrics()];
  const all = observeWithAll([first, second]);
  for (const event of passingEpisode) all?.event("a#0", event);
  expect(await first.page()).toContain("trainable_agents_episodes_passed_total 1");
  expect(await second.page()).toContain("trainable_agents_episodes_passed_total 1");
  await all?.close();
  expect(observeWithAll([])).toBeNull();
  expect(observeWithAll([first])).toBe(first);
});
