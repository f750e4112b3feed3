// Metrics of a run in Prometheus' format. Names and labels are stable, because dashboards depend on
// them. Labels have only closed vocabularies (phases, stop reasons, codes), never ids or tool
// names, so that the number of series stays small.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";

import { Counter, Gauge, Histogram, Registry } from "prom-client";

import { countUnlikely, outcomeOf, ConfigurationError, terminationReason } from "../core/index.ts";
import { factsOf, type RunObserver } from "./observer.ts";
import { createVersionMetrics, type TrainerMismatch } from "./version-metrics.ts";

/** An observer with the page that Prometheus scrapes. */
export interface RunMetrics extends RunObserver {
  readonly contentType: string;
  /** All metrics as text, in Prometheus' exposition format. */
  page(): Promise<string>;
  /** Takes what a trainer measured. */
  mismatch(report: TrainerMismatch): void;
}

const prefix = "trainable_agents_";
/** Bucket bounds in seconds, from a cache hit to a long generation. */
const seconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const rewards = [-1, -0.5, 0, 0.1, 0.25, 0.5, 0.75, 0.9, 1];
/**
 * Maximum number of external names with their own series: the reference with the most endings has
 * ten.
 */
const mostNames = 20;
const versions = [0, 1, 2, 3, 4, 6, 8, 12, 16];

/** Creates metrics with their own registry, so that two runs of one process never mix. */
export function createRunMetrics(): RunMetrics {
  const registry = new Registry();
  const registers = [registry];
  const counter = <L extends string>(name: string, help: string, labelNames: L[] = []): Counter<L> =>
    new Counter({ name: prefix + name, help, labelNames, registers });
  const gauge = (name: string, help: string): Gauge => new Gauge({ name: prefix + name, help, registers });
  const histogram = <L extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: L[] = [],
  ): Histogram<L> => new Histogram({ name: prefix + name, help, buckets, labelNames, registers });

  const phases = histogram("phase_seconds", "Time of one step of an episode, by phase.", seconds, ["phase"]);
  const tokens = counter(
    "tokens_total",
    "Tokens of engine calls: prompt, cached (prompt tokens that the engine did not compute again), sampled.",
    ["kind"],
  );
  const attempts = counter("retries_total", "Failed attempts of engine and model calls, by code.", ["code"]);
  const problems = counter("action_problems_total", "Format errors of actions, by code.", ["code"]);
  const spelled = counter("spelled_tokens_total", "Control tokens spelled out by users and tools, encoded as text.");
  const unlikely = counter("unlikely_tokens_total", "Sampled tokens with a logprob below -100.");
  const deviations = counter(
    "template_deviations_total",
    "Turns whose prompt deviates from the chat template, by code.",
    ["code"],
  );
  const started = counter("episodes_started_total", "Episodes started.");
  const ended = counter("episodes_total", "Episodes ended, by outcome and stop reason.", ["outcome", "stop_reason"]);
  const failures = counter("failures_total", "Failures of episodes, by boundary and code.", ["boundary", "code"]);
  const reward = histogram("reward", "Rewards of graded episodes.", rewards);
  const passed = counter("episodes_passed_total", "Graded episodes with reward 1.");
  const graded = counter("episodes_graded_total", "Graded episodes.");
  const endings = counter("endings_total", "Graded episodes, by the environment's name for their end.", ["ending"]);
  const ignored = counter("ignored_fields_total", "Fields of programs' requests that had no effect, by name.", [
    "field",
  ]);
  const groups = counter("groups_total", "Groups decided, by decision.", ["decision"]);
  const judgeCost = counter("judge_cost_dollars_total", "Cost of the judges in US dollars, where the price is known.");
  const userCost = counter(
    "user_cost_dollars_total",
    "Cost of the simulated users in US dollars, where the price is known.",
  );
  const stale = histogram(
    "staleness_versions",
    "Weight versions between the trainer and the oldest turn of a group, or of an episode of a service.",
    versions,
  );
  const circuits = counter(
    "circuit_opened_total",
    "Times that the circuit of a failing server opened, so that it got no calls.",
  );
  const openCircuits = gauge("circuits_open", "Servers that get no calls because they failed.");
  const failing = new Set<string>();
  const running = gauge("episodes_running", "Episodes in flight.");
  const waiting = gauge("episodes_waiting", "Planned episodes that are waiting.");
  const limit = gauge("concurrency_limit", "Episodes that may run at once.");
  const lagNow = {
    p50: gauge("loop_lag_p50_seconds", "Median lag of the event loop since the last scrape."),
    p99: gauge("loop_lag_p99_seconds", "99th percentile of the event loop's lag since the last scrape."),
  };
  const memory = gauge("resident_memory_bytes", "Resident memory of the process.");
  const lag = measureLoopLag();
  const byVersion = createVersionMetrics(registry, prefix);

  const [endingName, fieldName] = [boundedNames(), boundedNames()];
  const countEnding = (name: string | null): void => {
    if (name !== null) endings.inc({ ending: endingName(name) });
  };

  return {
    contentType: registry.contentType,
    page() {
      const { p50, p99 } = lag.read();
      lagNow.p50.set(p50 / 1000);
      lagNow.p99.set(p99 / 1000);
      memory.set(process.memoryUsage.rss());
      return registry.metrics();
    },
    mismatch: (report) => byVersion.mismatch(report),
    event(episodeId, event) {
      byVersion.event(episodeId, event);
      const facts = factsOf(event);
      if (facts !== null) {
        const { phase, durationMs, tokens: used } = facts;
        phases.observe({ phase }, durationMs / 1000);
        for (const { failure } of facts.attempts) attempts.inc({ code: failure.code });
        if (used !== null) {
          tokens.inc({ kind: "prompt" }, used.prompt);
          tokens.inc({ kind: "sampled" }, used.sampled);
          if (used.cached !== null) tokens.inc({ kind: "cached" }, used.cached);
        }
      }
      switch (event.type) {
        case "episode-start":
          started.inc();
          return;
        case "turn":
          spelled.inc(event.turn.spelledTokens);
          unlikely.inc(countUnlikely(event.turn));
          if (event.turn.deviation !== null) deviations.inc({ code: event.turn.deviation });
          return;
        case "decision":
          for (const { code } of event.decision.problems) problems.inc({ code });
          return;
        case "user-line":
          if (event.line.usage.cost !== null) userCost.inc(event.line.usage.cost);
          return;
        case "judgement":
          if (event.judgement.usage.cost !== null) judgeCost.inc(event.judgement.usage.cost);
          return;
        case "grade":
          reward.observe(event.grade.reward);
          graded.inc();
          if (event.grade.reward === 1) passed.inc();
          countEnding(terminationReason(event.grade));
          return;
        case "episode-end":
          ended.inc({ outcome: outcomeOf(event.stopReason), stop_reason: event.stopReason });
          if (event.failure !== null) failures.inc({ boundary: event.failure.boundary, code: event.failure.code });
          return;
        case "exchange":
          for (const { code } of event.action.problems) problems.inc({ code });
          for (const field of event.ignored) ignored.inc({ field: fieldName(field) });
          return;
        case "close-failure":
        case "user-outcome":
        case "agent-reply":
        case "restart":
        case "lineages":
        case "session":
        case "program":
        case "delivered":
        case "undelivered":
        case "tool-result":
          return;
        default:
          event satisfies never;
      }
    },
    group(group) {
      groups.inc({ decision: group.decision });
      byVersion.group(group);
    },
    gauges(now) {
      running.set(now.runningEpisodes);
      if (now.waitingEpisodes !== null) waiting.set(now.waitingEpisodes);
      limit.set(now.concurrencyLimit);
    },
    // A scrape shows the work of this process; the earlier process had its own page.
    recorded: () => undefined,
    staleness: (count) => stale.observe(count),
    circuit({ server, state }) {
      // A server that fails its trial was never back.
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

export type MetricsPage = { readonly contentType: string; page(): Promise<string> };

export type MetricsServer = {
  /** Address of the page. */
  readonly url: string;
  close(): Promise<void>;
};

export type MetricsServerOptions = {
  /** Port. Default 9464, the conventional port of metrics exporters; 0 selects a free one. */
  readonly port?: number;
  /** Default "127.0.0.1", because the metrics have no password. */
  readonly host?: string;
};

/**
 * Serves only `/metrics`. Throws a `ConfigurationError` if the port is unavailable. Does not keep
 * the process alive.
 */
export async function serveMetrics(metrics: MetricsPage, options: MetricsServerOptions = {}): Promise<MetricsServer> {
  const { port = 9464, host = "127.0.0.1" } = options;
  const server = createServer((request, response) => {
    const path = request.url?.split("?", 1)[0];
    if (path !== "/metrics" || (request.method !== "GET" && request.method !== "HEAD")) {
      response.writeHead(404, { "content-type": "text/plain" }).end("Metrics are at /metrics.\n");
      return;
    }
    metrics.page().then(
      (page) => response.writeHead(200, { "content-type": metrics.contentType }).end(page),
      () => response.writeHead(500).end(),
    );
  });
  server.requestTimeout = 10_000;
  server.listen(port, host);
  await once(server, "listening").catch((cause: unknown) => {
    const { code, message } = cause as NodeJS.ErrnoException;
    const reason = code === "EADDRINUSE" ? "the port is taken" : message;
    throw new ConfigurationError(
      `Cannot serve metrics at ${host}:${port}: ${reason}; choose another port, like prometheus:9465.`,
      { cause },
    );
  });
  server.unref();
  const { port: taken } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${taken}/metrics`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/**
 * Delay of the event loop: a sign that one episode blocks another. Milliseconds beyond the normal
 * interval, since the last reading.
 */
export type LoopLag = { readonly p50: number; readonly p99: number; readonly max: number };

/** Sampling interval: a shorter delay is not noticed. */
const resolutionMs = 10;

/** Starts measuring; `read` returns the lag since the last `read`. Does not keep the process alive. */
export function measureLoopLag(): { read(): LoopLag; stop(): void } {
  const histogram = monitorEventLoopDelay({ resolution: resolutionMs });
  histogram.enable();
  const overPace = (nanoseconds: number): number =>
    Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds / 1e6 - resolutionMs) : 0;
  return {
    read() {
      const lag = {
        p50: overPace(histogram.percentile(50)),
        p99: overPace(histogram.percentile(99)),
        max: overPace(histogram.max),
      };
      histogram.reset();
      return lag;
    },
    stop: () => void histogram.disable(),
  };
}

/**
 * Limits the label values that environments and programs supply: once there are too many, new ones
 * become "other".
 */
function boundedNames(): (name: string) => string {
  const known = new Set<string>();
  return (name) => {
    if (known.size < mostNames) known.add(name);
    return known.has(name) ? name : "other";
  };
}
