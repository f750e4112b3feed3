import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { SpanKind } from "@opentelemetry/api";
import { expect, test } from "vitest";
import type { EpisodeEvent } from "../core/index.ts";
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
  expect(spans.map(({ name }) => name)).toEqual([
    ...["user", "chat", "chat", "execute_tool", "grade"],
    ...["invoke_agent trainable-agents", "invoke_agent trainable-agents"],
  ]);
  const [passed, failed] = spans.filter(({ name }) => name.startsWith("invoke_agent"));
  const steps = spans.filter(({ name }) => !name.startsWith("invoke_agent"));
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

// The parts of the v1.41 conventions that Langfuse and Phoenix read: kinds, operations, models,
// usage, tools, messages, evaluations.
test("createRunTraces() names spans as the GenAI conventions do, and holds what was said only when asked", () => {
  const call = { id: "call_0_0", name: "find", argumentsText: '{"title": "Emma"}' };
  const episode: EpisodeEvent[] = [
    ...passingEpisode.slice(0, 3),
    {
      type: "decision",
      turn: 0,
      action: {
        text: "",
        reasoning: "hm",
        content: "One moment.",
        toolCalls: [call],
        problems: [],
        isTerminated: true,
      },
      decision: { type: "call", call, arguments: new Map(), problems: [] },
    },
    {
      type: "tool-result",
      turn: 0,
      result: { text: "found", isError: false, endsEpisode: false, info: new Map() },
      cutFrom: null,
      durationMs: 5,
    },
    { type: "grade", grade: { reward: 0.5, log: "half" } as never, durationMs: 1 },
    { type: "episode-end", stopReason: "user_hung_up", failure: null },
  ];
  const policy = { model: "Qwen3-4B", provider: "sglang", sampling: { temperature: 1, topP: 1, maxNewTokens: 1024 } };
  for (const holdsMessages of [false, true]) {
    const { exporter, provider } = collect();
    const traces = createRunTraces({ tracer: provider.getTracer("test"), policy, holdsMessages });
    for (const event of episode) traces.event("a#0", event);
    const [, chat, tool, grade, agent] = exporter.getFinishedSpans();
    expect([chat!.name, tool!.name, agent!.name]).toEqual([
      "chat Qwen3-4B",
      "execute_tool find",
      "invoke_agent trainable-agents",
    ]);
    expect([chat!.kind, tool!.kind, agent!.kind]).toEqual([SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.INTERNAL]);
    expect(chat!.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "sglang",
      "gen_ai.request.model": "Qwen3-4B",
      "gen_ai.usage.input_tokens": 100,
      "gen_ai.usage.output_tokens": 2,
      "gen_ai.usage.cache_read.input_tokens": 64,
      "gen_ai.request.max_tokens": 1024,
      "gen_ai.conversation.id": "a#0",
      "gen_ai.response.finish_reasons": ["stop"],
    });
    // Phoenix would show a span with any of these attributes as a tool.
    expect(Object.keys(chat!.attributes).filter((name) => name.startsWith("gen_ai.tool."))).toEqual([]);
    expect(tool!.attributes).toMatchObject({ "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "call_0_0" });
    expect(grade!.events[0]).toMatchObject({
      name: "gen_ai.evaluation.result",
      attributes: { "gen_ai.evaluation.score.value": 0.5 },
    });
    const said = exporter
      .getFinishedSpans()
      .map(({ attributes, events }) => JSON.stringify([attributes, events]))
      .join("");
    for (const text of ["Hi", "Emma", "found", "One moment.", "half"])
      expect([text, said.includes(text)]).toEqual([text, holdsMessages]);
    if (!holdsMessages) continue;
    expect(JSON.parse(String(chat!.attributes["gen_ai.input.messages"]))).toEqual([
      { role: "user", parts: [{ type: "text", content: "Hi" }] },
    ]);
    expect(JSON.parse(String(chat!.attributes["gen_ai.output.messages"]))).toMatchObject([
      {
        role: "assistant",
        finish_reason: "stop",
        parts: [{ type: "reasoning" }, { type: "text" }, { type: "tool_call", name: "find" }],
      },
    ]);
  }
});
