// The events of an episode as server-sent events: those that were, then those that come, then "ended". A client that lost
// its connection names the last event it has and goes on behind it.

import type { EpisodeJob } from "./episode-job.ts";
import type { EventView } from "./event-view.ts";
import { answerEpisode } from "./wire/answers.ts";

export type EventSource = {
  readonly job: EpisodeJob;
  /** What is played when the job has forgotten its events. */
  readonly forgotten: () => Promise<readonly EventView[]>;
  /** Takes secrets out of what is sent. */
  readonly redact: (text: string) => string;
};

/** `after`: number of events the client has. Nothing is prepared for a client that does not read. */
export function streamEvents({ job, forgotten, redact }: EventSource, after: number): Response {
  const encoder = new TextEncoder();
  const left = new AbortController();
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
          const events = job.events ?? (restored ??= await forgotten());
          const event = events[next];
          if (event !== undefined) return send(event.type, event);
          if (job.status === "ended") send("ended", answerEpisode(job));
          // One that is cut off goes on in the next process, where the client asks for the rest.
          if (job.status === "ended" || job.isCutOff) return controller.close();
          await job.changed(left.signal);
        }
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
