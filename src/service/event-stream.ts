// The events of an episode as server-sent events: those that were, then those that come, then "ended". A client that lost
// its connection names the last event it has and goes on behind it.

import type { EpisodeJob } from "./episode-job.ts";
import type { EventView } from "./event-view.ts";
import { answerEpisode } from "./wire/answers.ts";

export type EventSource = {
  readonly job: EpisodeJob;
  /** What is played when the job has forgotten its events. */
  readonly forgotten: () => Promise<readonly EventView[]>;
};

/** `after`: number of events the client has. */
export function streamEvents({ job, forgotten }: EventSource, after: number): Response {
  const encoder = new TextEncoder();
  const left = new AbortController();
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      const send = (id: number, type: string, data: unknown): void =>
        controller.enqueue(encoder.encode(`id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`));
      try {
        let next = after;
        for (;;) {
          const events = job.events ?? (await forgotten());
          for (; next < events.length; next++) send(next + 1, events[next]?.type ?? "event", events[next]);
          if (job.status === "ended") break;
          await job.changed(left.signal);
        }
        send(next + 1, "ended", answerEpisode(job));
        controller.close();
      } catch (error) {
        if (!left.signal.aborted) controller.error(error);
      }
    },
    cancel: () => left.abort(new Error("The client left.")),
  });
  return new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no" },
  });
}
