// The events of an episode as server-sent events: those so far, then new ones, then "ended". A client that lost its connection
// names the last event it has and resumes after it. Events are shown as content, calls and results, without token ids; the
// record with every token is in the samples.

import type { EventView } from "./episode-view.ts";
import type { EpisodeJob } from "./jobs.ts";
import { answerEpisode } from "./responses.ts";

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
