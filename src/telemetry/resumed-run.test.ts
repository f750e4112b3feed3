// Events recorded by an earlier process, as observers handle them: their durations and counts
// belong to that process.

import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { passingEpisode } from "./episode-events.test-helper.ts";
import { createRunLog } from "./log.ts";
import { createRunMetrics } from "./prometheus.ts";
import { observeWithAll, type RunObserver } from "./observer.ts";
import { createRunTraces } from "./traces.ts";
import { observeCurves } from "./curves.ts";
import { createTensorboard } from "./tensorboard.ts";

/** "a#0" has ended before; "b#0" resumes before its last two events. */
function resume(observer: RunObserver): void {
  for (const event of passingEpisode) observer.recorded("a#0", event);
  for (const event of passingEpisode.slice(0, -2)) observer.recorded("b#0", event);
  for (const event of passingEpisode.slice(-2)) observer.event("b#0", event);
}

test("metrics, spans, curves and log lines hold what happened in this process", async () => {
  const folder = await mkdtemp(join(tmpdir(), "resumed-"));
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const metrics = createRunMetrics();
  const lines: string[] = [];
  const all = observeWithAll([
    metrics,
    createRunTraces({ tracer: provider.getTracer("test") }),
    observeCurves(await createTensorboard(folder), { everyEpisodes: 1 }),
    createRunLog({ write: (line) => lines.push(line) }),
  ]);
  resume(all!);
  const page = await metrics.page();
  await all!.close();

  expect(page).toContain('phase_seconds_count{phase="grade"} 1');
  expect(page).not.toContain('phase="engine"');
  expect(page).toContain("trainable_agents_episodes_graded_total 1");
  expect(page).toContain("trainable_agents_episodes_started_total 0");
  expect(lines).toHaveLength(1);
  // One span per episode that this process ran, with its new steps below it.
  const spans = exporter.getFinishedSpans();
  expect(spans.map(({ name }) => name)).toEqual(["grade", "invoke_agent trainable-agents"]);
  expect(spans[1]!.attributes).toMatchObject({ "episode.id": "b#0", resumed: true, outcome: "completed" });
  expect(spans[0]!.parentSpanContext?.spanId).toBe(spans[1]!.spanContext().spanId);
  // The curve continues at episode 2.
  const [name] = await readdir(folder);
  const bytes = await readFile(join(folder, name!));
  const second = 16 + Number(bytes.readBigUInt64LE(0));
  const payload = bytes.subarray(second + 12);
  expect([payload[9], payload[10]]).toEqual([0x10, 2]);
  await rm(folder, { recursive: true });
  await provider.shutdown();
});

test("an episode that was cancelled with its run has not ended", async () => {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const traces = createRunTraces({ tracer: provider.getTracer("test") });
  traces.recorded("a#0", passingEpisode[0]!);
  traces.recorded("a#0", { type: "episode-end", stopReason: "cancelled", failure: null });
  traces.event("a#0", passingEpisode.at(-1)!);
  expect(exporter.getFinishedSpans().map(({ name }) => name)).toEqual(["invoke_agent trainable-agents"]);
  await provider.shutdown();
});

test("servers that are left alone are counted once, and until they are back", async () => {
  const metrics = createRunMetrics();
  const lines: unknown[] = [];
  const all = observeWithAll([metrics, createRunLog({ write: (line) => lines.push(JSON.parse(line)), now: () => 0 })])!;
  const read = async (): Promise<string[]> =>
    (await metrics.page()).split("\n").filter((line) => /^\w+_circuits?_\w+ /.test(line));
  all.circuit({ server: "one", state: "open", failures: 5 });
  all.circuit({ server: "two", state: "open", failures: 5 });
  all.circuit({ server: "one", state: "half-open", failures: 5 });
  all.circuit({ server: "one", state: "open", failures: 6 });
  expect(await read()).toEqual(["trainable_agents_circuit_opened_total 2", "trainable_agents_circuits_open 2"]);
  all.circuit({ server: "one", state: "half-open", failures: 6 });
  all.circuit({ server: "one", state: "closed", failures: 0 });
  expect(await read()).toEqual(["trainable_agents_circuit_opened_total 2", "trainable_agents_circuits_open 1"]);
  all.circuit({ server: "one", state: "open", failures: 5 });
  expect(await read()).toEqual(["trainable_agents_circuit_opened_total 3", "trainable_agents_circuits_open 2"]);
  const time = "1970-01-01T00:00:00.000Z";
  expect(lines[0]).toEqual({ time, level: "warn", event: "circuit", server: "one", state: "open", failures: 5 });
  expect(lines).toHaveLength(5);
  expect(lines[3]).toMatchObject({ level: "info", state: "closed" });
  await all.close();
});
