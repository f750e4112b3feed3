// Metrics of a run in the form that Prometheus reads. Names and labels are stable: dashboards hang on them. Labels take
// closed vocabularies only (phases, stop reasons, codes), never ids or tool names, so that the series stay few.

import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { countUnlikely, type EpisodeEvent, outcomeOf } from "../core/index.ts";
import { measureLoopLag } from "./loop-lag.ts";
import type { RunObserver } from "./run-observer.ts";

/** An observer with the page that Prometheus reads. */
export interface RunMetrics extends RunObserver {
  readonly contentType: string;
  /** All metrics as text, in Prometheus' exposition format. */
  page(): Promise<string>;
}

const prefix = "trainable_agents_";
/** Seconds. From a cache hit to a long generation. */
const seconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const rewards = [-1, -0.5, 0, 0.1, 0.25, 0.5, 0.75, 0.9, 1];
const versions = [0, 1, 2, 3, 4, 6, 8, 12, 16];

/** Fresh metrics with a registry of their own: two runs of one process never mix. */
export function createRunMetrics(): RunMetrics {
  const registry = new Registry();
  const registers = [registry];
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[] = []): Counter<L> =>
    new Counter({ name: prefix + name, help, labelNames: [...labelNames], registers });
  const gauge = (name: string, help: string): Gauge => new Gauge({ name: prefix + name, help, registers });
  const histogram = <L extends string>(
    name: string,
    help: string,
    { buckets, labelNames = [] }: { readonly buckets: readonly number[]; readonly labelNames?: readonly L[] },
  ): Histogram<L> =>
    new Histogram({ name: prefix + name, help, buckets: [...buckets], labelNames: [...labelNames], registers });

  const phases = histogram("phase_seconds", "Time of one step of an episode, by phase.", {
    buckets: seconds,
    labelNames: ["phase"],
  });
  const tokens = counter(
    "tokens_total",
    "Tokens of engine calls: prompt, cached (prompt tokens the engine did not read again), sampled.",
    ["kind"],
  );
  const attempts = counter("retries_total", "Failed tries of engine and model calls, by code.", ["code"]);
  const problems = counter("action_problems_total", "Problems of actions, by code.", ["code"]);
  const spelled = counter("spelled_tokens_total", "Control tokens spelled out by users and tools, which were text.");
  const unlikely = counter("unlikely_tokens_total", "Sampled tokens with a logprob below -100.");
  const deviations = counter("template_deviations_total", "Turns shown what the chat template does not write.", [
    "code",
  ]);
  const started = counter("episodes_started_total", "Episodes begun.");
  const ended = counter("episodes_total", "Episodes ended, by outcome and stop reason.", ["outcome", "stop_reason"]);
  const failures = counter("failures_total", "Failures of episodes, by boundary and code.", ["boundary", "code"]);
  const reward = histogram("reward", "Rewards of graded episodes.", { buckets: rewards });
  const passed = counter("episodes_passed_total", "Graded episodes with reward 1.");
  const graded = counter("episodes_graded_total", "Graded episodes.");
  const groups = counter("groups_total", "Groups decided, by decision.", ["decision"]);
  const userCost = counter("user_cost_dollars_total", "What the simulated users cost, where the price is known.");
  const stale = histogram(
    "staleness_versions",
    "Weight versions between the trainer and the oldest turn of a group, or of an episode of a service.",
    { buckets: versions },
  );
  const circuits = counter("circuit_opened_total", "Times that a server was left alone because it failed.");
  const openCircuits = gauge("circuits_open", "Servers that are left alone because they failed.");
  const failing = new Set<string>();
  const running = gauge("episodes_running", "Episodes under way.");
  const waiting = gauge("episodes_waiting", "Planned episodes that wait for a place.");
  const limit = gauge("concurrency_limit", "Episodes that may run at once.");
  const lagNow = {
    p50: gauge("loop_lag_p50_seconds", "Median lag of the event loop since the last reading."),
    p99: gauge("loop_lag_p99_seconds", "Lag of the event loop since the last reading, 99th percentile."),
  };
  const memory = gauge("resident_memory_bytes", "Resident memory of the process.");
  const lag = measureLoopLag();

  function onTurn(event: EpisodeEvent & { readonly type: "turn" }): void {
    phases.observe({ phase: "engine" }, event.durationMs / 1000);
    tokens.inc({ kind: "prompt" }, event.usage.promptTokens);
    tokens.inc({ kind: "sampled" }, event.usage.completionTokens);
    if (event.usage.cachedTokens !== null) tokens.inc({ kind: "cached" }, event.usage.cachedTokens);
    for (const { failure } of event.attempts) attempts.inc({ code: failure.code });
    spelled.inc(event.turn.spelledTokens);
    unlikely.inc(countUnlikely(event.turn));
    if (event.turn.deviation !== null) deviations.inc({ code: event.turn.deviation });
  }

  return {
    contentType: registry.contentType,
    page() {
      const { p50, p99 } = lag.read();
      lagNow.p50.set(p50 / 1000);
      lagNow.p99.set(p99 / 1000);
      memory.set(process.memoryUsage.rss());
      return registry.metrics();
    },
    event(_episodeId, event) {
      switch (event.type) {
        case "episode-start":
          started.inc();
          return;
        case "turn":
          onTurn(event);
          return;
        case "agent-reply":
          phases.observe({ phase: "agent-model" }, event.durationMs / 1000);
          tokens.inc({ kind: "prompt" }, event.usage.inputTokens);
          tokens.inc({ kind: "sampled" }, event.usage.outputTokens);
          for (const { failure } of event.attempts) attempts.inc({ code: failure.code });
          return;
        case "decision":
          for (const { code } of event.decision.problems) problems.inc({ code });
          return;
        case "tool-result":
          phases.observe({ phase: "tool" }, event.durationMs / 1000);
          return;
        case "user-line":
          phases.observe({ phase: "user" }, event.durationMs / 1000);
          if (event.line.usage.cost !== null) userCost.inc(event.line.usage.cost);
          return;
        case "grade":
          phases.observe({ phase: "grade" }, event.durationMs / 1000);
          reward.observe(event.grade.reward);
          graded.inc();
          if (event.grade.reward === 1) passed.inc();
          return;
        case "episode-end":
          ended.inc({ outcome: outcomeOf(event.stopReason), stop_reason: event.stopReason });
          if (event.failure !== null) failures.inc({ boundary: event.failure.boundary, code: event.failure.code });
          return;
        default:
          event satisfies never;
      }
    },
    group: ({ decision }) => groups.inc({ decision }),
    gauges(now) {
      running.set(now.runningEpisodes);
      if (now.waitingEpisodes !== null) waiting.set(now.waitingEpisodes);
      limit.set(now.concurrencyLimit);
    },
    // A scrape shows what this process does; the one before had a page of its own.
    recorded: () => undefined,
    staleness: (count) => stale.observe(count),
    circuit({ server, state }) {
      // One that fails its trial was never back.
      if (state === "open" && !failing.has(server)) circuits.inc();
      if (state === "closed") failing.delete(server);
      else failing.add(server);
      openCircuits.set(failing.size);
    },
    async close() {
      lag.stop();
    },
  };
}
