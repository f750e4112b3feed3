// Traces of episodes through OpenTelemetry's API: a span an episode, and below it one for each engine call, tool call, user
// line and grade. Without an SDK in the process the API does nothing; who starts one (`node --import ./tracing.mjs`) gets
// the spans wherever it exports to. Spans are made from the events' own durations, so the loop knows nothing of them.

import { context, type Span, SpanStatusCode, trace, type Tracer } from "@opentelemetry/api";
import { type EpisodeEvent, outcomeOf } from "../core/index.ts";
import type { RunObserver } from "./run-observer.ts";

export type RunTracesOptions = {
  /** Default: the one of the SDK that the process has. */
  readonly tracer?: Tracer;
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
};

/** An observer that makes spans. Attributes are named like the fields of events; `gen_ai.*` as OpenTelemetry names them. */
export function createRunTraces(options: RunTracesOptions = {}): RunObserver {
  const { tracer = trace.getTracer("trainable-agents"), now = Date.now } = options;
  const episodes = new Map<string, Span>();

  function child(episodeId: string, name: string, durationMs: number): Span {
    const parent = episodes.get(episodeId);
    const under = parent === undefined ? context.active() : trace.setSpan(context.active(), parent);
    return tracer.startSpan(name, { startTime: now() - durationMs }, under);
  }

  function begin(episodeId: string, taskId: string, isResumed: boolean): void {
    const attributes = { "episode.id": episodeId, "task.id": taskId, ...(isResumed ? { resumed: true } : {}) };
    episodes.set(episodeId, tracer.startSpan("episode", { startTime: now(), attributes }));
  }

  function see(episodeId: string, event: EpisodeEvent): void {
    switch (event.type) {
      case "episode-start":
        begin(episodeId, event.taskId, false);
        return;
      case "turn": {
        const span = child(episodeId, "engine", event.durationMs);
        span.setAttributes({
          turn: event.turn.index,
          "gen_ai.usage.input_tokens": event.usage.promptTokens,
          "gen_ai.usage.output_tokens": event.usage.completionTokens,
          "gen_ai.response.finish_reasons": [event.turn.finish.reason],
          retries: event.attempts.length,
        });
        span.end(now());
        return;
      }
      case "agent-reply": {
        const span = child(episodeId, "agent-model", event.durationMs);
        span.setAttributes({ turn: event.turn, retries: event.attempts.length });
        span.end(now());
        return;
      }
      case "decision": {
        for (const problem of event.decision.problems) {
          episodes.get(episodeId)?.addEvent("problem", { code: problem.code, turn: event.turn }, now());
        }
        return;
      }
      case "tool-result": {
        child(episodeId, "tool", event.durationMs).setAttribute("turn", event.turn).end(now());
        return;
      }
      case "user-line":
        child(episodeId, "user", event.durationMs).end(now());
        return;
      case "grade":
        child(episodeId, "grade", event.durationMs).setAttribute("reward", event.grade.reward).end(now());
        return;
      case "episode-end": {
        const span = episodes.get(episodeId);
        episodes.delete(episodeId);
        span?.setAttributes({ outcome: outcomeOf(event.stopReason), stop_reason: event.stopReason });
        if (event.failure !== null) {
          const { boundary, code, message } = event.failure;
          span?.setAttributes({ "failure.boundary": boundary, "failure.code": code });
          span?.setStatus({ code: SpanStatusCode.ERROR, message });
        }
        span?.end(now());
        return;
      }
      default:
        event satisfies never;
    }
  }

  return {
    event(episodeId, event) {
      try {
        see(episodeId, event);
      } catch {
        // A broken exporter is not the episode's fault.
      }
    },
    recorded(episodeId, event) {
      try {
        if (event.type === "episode-start") begin(episodeId, event.taskId, true);
        // It is over, and the process that played it had its span. Cancelled, it goes on.
        if (event.type === "episode-end" && event.stopReason !== "cancelled") episodes.delete(episodeId);
      } catch {
        // As above.
      }
    },
    group: () => undefined,
    gauges: () => undefined,
    staleness: () => undefined,
    circuit: () => undefined,
    async close() {
      for (const span of episodes.values()) span.end(now());
      episodes.clear();
    },
  };
}
