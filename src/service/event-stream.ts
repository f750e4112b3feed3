// The events of an episode as server-sent events: those so far, then new ones, then "ended". A client that lost its connection
// names the last event it has and resumes after it. Events are shown as content, calls and results, without token ids; the
// record with every token is in the samples.

import type { EpisodeEvent } from "../core/index.ts";
import { toPlain } from "../python-semantics/json/plain.ts";
import type { EpisodeJob } from "./jobs.ts";
import { answerEpisode } from "./responses.ts";

/** A JSON object; `type` as in `EpisodeEvent`, names in snake_case. */
export type EventView = Readonly<Record<string, unknown>> & { readonly type: string };

export function viewEvent(event: EpisodeEvent): EventView {
  const { type } = event;
  switch (event.type) {
    case "episode-start":
      return { type, episode_id: event.episodeId, task_id: event.taskId };
    case "user-line":
      return { type, line: event.line.type, text: event.line.text, duration_ms: event.durationMs };
    case "turn":
      return {
        type,
        turn: event.turn.index,
        prompt_tokens: event.usage.promptTokens,
        sampled_tokens: event.turn.sampledTokens.length,
        finish_reason: event.turn.finish.reason,
        weight_versions: event.turn.weightSpans.map(({ reply }) => reply),
        retries: event.attempts.length,
        duration_ms: event.durationMs,
      };
    case "agent-reply":
      return { type, turn: event.turn, retries: event.attempts.length, duration_ms: event.durationMs };
    case "decision": {
      const { decision, action } = event;
      return {
        type,
        turn: event.turn,
        decision: decision.type,
        reasoning: action.reasoning,
        text: decision.type === "say" ? decision.words : action.content,
        call: decision.type === "call" ? { name: decision.call.name, arguments: toPlain(decision.arguments) } : null,
        problems: decision.problems.map(({ code, detail }) => ({ code, detail })),
      };
    }
    case "tool-result":
      return {
        type,
        turn: event.turn,
        text: event.result.text,
        is_error: event.result.isError,
        duration_ms: event.durationMs,
      };
    case "grade":
      return { type, reward: event.grade.reward, metrics: event.grade.metrics };
    case "episode-end":
      return { type, stop_reason: event.stopReason, failure: event.failure };
    default:
      return event satisfies never;
  }
}

export type EventSource = {
  readonly job: EpisodeJob;
  /** Read when the job has forgotten its events. */
  readonly stored: () => Promise<readonly EventView[]>;
  /** Takes secrets out of the stream. */
  readonly redact: (text: string) => string;
};

/** `after`: number of events the client has. Nothing is buffered for a client that does not read. */
export function streamEvents({ job, stored, redact }: EventSource, after: number): Response {
  const encoder = new TextEncoder();
  const disconnected = new AbortController();
  let next = after;
  let restored: readonly EventView[] | null = null;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const send = (type: string, data: unknown): void => {
        next++;
        const text = redact(JSON.stringify(data));
        controller.enqueue(encoder.encode(`id: ${next}\nevent: ${type}\ndata: ${text}\n\n`));
      };
      try {
        for (;;) {
          const events = job.events ?? (restored ??= await stored());
          const event = events[next];
          if (event !== undefined) return send(event.type, event);
          if (job.status === "ended") send("ended", answerEpisode(job));
          // A suspended one resumes in the next process, where the client requests the rest.
          if (job.status === "ended" || job.isSuspended) return controller.close();
          await job.changed(disconnected.signal);
        }
      } catch (error) {
        if (!disconnected.signal.aborted) controller.error(error);
      }
    },
    cancel: () => disconnected.abort(new Error("The client disconnected.")),
  });
  return new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no" },
  });
}
