// Traces of episodes through OpenTelemetry's API: a span an episode, and below it one for each engine call, tool call, user
// line and grade. Without an SDK in the process the API does nothing; who starts one (`node --import ./tracing.mjs`) gets
// the spans wherever it exports to. Spans are made from the events' own durations, so the loop knows nothing of them.

import { type Attributes, context, type Span, SpanStatusCode, trace, type Tracer } from "@opentelemetry/api";
import { type EpisodeEvent, outcomeOf } from "../core/index.ts";
import { type EventFacts, factsOf, isDone, observing, type RunObserver } from "./observer.ts";

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

  function step(episodeId: string, { phase, durationMs }: EventFacts, attributes: Attributes): void {
    const parent = episodes.get(episodeId);
    const under = parent === undefined ? context.active() : trace.setSpan(context.active(), parent);
    tracer.startSpan(phase, { startTime: now() - durationMs, attributes }, under).end(now());
  }

  function begin(episodeId: string, taskId: string, isResumed: boolean): void {
    const attributes = { "episode.id": episodeId, "task.id": taskId, ...(isResumed ? { resumed: true } : {}) };
    episodes.set(episodeId, tracer.startSpan("episode", { startTime: now(), attributes }));
  }

  function end(episodeId: string, { stopReason, failure }: Extract<EpisodeEvent, { type: "episode-end" }>): void {
    const span = episodes.get(episodeId);
    episodes.delete(episodeId);
    span?.setAttributes({ outcome: outcomeOf(stopReason), stop_reason: stopReason });
    if (failure !== null) {
      span?.setAttributes({ "failure.boundary": failure.boundary, "failure.code": failure.code });
      span?.setStatus({ code: SpanStatusCode.ERROR, message: failure.message });
    }
    span?.end(now());
  }

  function see(episodeId: string, event: EpisodeEvent): void {
    const facts = factsOf(event);
    if (facts !== null) step(episodeId, facts, attributesOf(event, facts));
    else if (event.type === "episode-start") begin(episodeId, event.taskId, false);
    else if (event.type === "episode-end") end(episodeId, event);
    else if (event.type === "decision") {
      const span = episodes.get(episodeId);
      for (const { code } of event.decision.problems) span?.addEvent("problem", { code, turn: event.turn }, now());
    }
  }

  return observing({
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
        // The process that ran it had its span.
        if (isDone(event)) episodes.delete(episodeId);
      } catch {
        // As above.
      }
    },
    async close() {
      for (const span of episodes.values()) span.end(now());
      episodes.clear();
    },
  });
}

function attributesOf(event: EpisodeEvent, { turn, attempts, tokens }: EventFacts): Attributes {
  return {
    ...(turn === null ? {} : { turn }),
    ...(tokens === null ? {} : { retries: attempts.length }),
    ...(event.type === "grade" ? { reward: event.grade.reward } : {}),
    ...(event.type === "turn" && tokens !== null
      ? {
          "gen_ai.usage.input_tokens": tokens.prompt,
          "gen_ai.usage.output_tokens": tokens.sampled,
          "gen_ai.response.finish_reasons": [event.turn.finish.reason],
        }
      : {}),
  };
}
