import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { expect, test } from "vitest";
import { failingEpisode, passingEpisode } from "./episode-events.test-helper.ts";
import { createRunTraces } from "./traces.ts";

function collect(): { readonly exporter: InMemorySpanExporter; readonly provider: BasicTracerProvider } {
  const exporter = new InMemorySpanExporter();
  return { exporter, provider: new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }) };
}

test("createRunTraces() makes a span an episode with its steps below it, as long as they took", async () => {
  const { exporter, provider } = collect();
  let time = 1_000_000;
  const traces = createRunTraces({ tracer: provider.getTracer("test"), now: () => time });
  for (const event of passingEpisode) {
    time += "durationMs" in event ? event.durationMs : 0;
    traces.event("a#0", event);
  }
  for (const event of failingEpisode) traces.event("b#0", event);
  const spans = exporter.getFinishedSpans();
  expect(spans.map(({ name }) => name)).toEqual(["user", "engine", "engine", "tool", "grade", "episode", "episode"]);
  const [passed, failed] = spans.filter(({ name }) => name === "episode");
  const steps = spans.filter(({ name }) => name !== "episode");
  expect(new Set(steps.map((span) => span.parentSpanContext?.spanId))).toEqual(new Set([passed?.spanContext().spanId]));
  expect(steps.map(({ duration: [seconds, nanos] }) => Math.round(seconds * 1000 + nanos / 1e6))).toEqual([
    30, 200, 200, 5, 1,
  ]);
  expect(passed?.attributes).toMatchObject({ "task.id": "a", outcome: "completed", stop_reason: "tool_ended" });
  expect(passed?.events.map(({ name, attributes }) => [name, attributes?.["code"]])).toEqual([["problem", "not-json"]]);
  expect(failed?.attributes).toMatchObject({ "failure.boundary": "user", "failure.code": "timeout" });
  expect(steps[1]?.attributes).toMatchObject({ turn: 0, retries: 1, "gen_ai.usage.output_tokens": 2 });
  await provider.shutdown();
});

test("createRunTraces() costs nothing that shows without an SDK, and a broken tracer reaches no episode", async () => {
  const silent = createRunTraces();
  for (const event of passingEpisode) silent.event("a#0", event);
  await silent.close();
  const broken = createRunTraces({
    tracer: {
      startSpan: () => {
        throw new Error("exporter down");
      },
      startActiveSpan: () => undefined as never,
    },
  });
  for (const event of passingEpisode) expect(() => broken.event("a#0", event)).not.toThrow();
});
