// A run as structured log lines: one JSON object a line, for whatever collects logs. What goes wrong and what ends is told;
// the turns that go well are in the run folder. Levels: info, warn (a retry, a server that is left alone), error (a failure).

import { type EpisodeEvent, outcomeOf } from "../core/index.ts";
import type { RunObserver } from "./run-observer.ts";

export type RunLogOptions = {
  /** Takes a line without its end. */
  readonly write: (line: string) => void;
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
};

/** An observer that writes lines. */
export function createRunLog({ write, now = Date.now }: RunLogOptions): RunObserver {
  const rewards = new Map<string, number>();
  const say = (level: "info" | "warn" | "error", event: string, fields: Readonly<Record<string, unknown>>): void => {
    try {
      write(JSON.stringify({ time: new Date(now()).toISOString(), level, event, ...fields }));
    } catch {
      // A log that cannot be written must not stop what it tells of.
    }
  };

  function retries(episodeId: string, event: EpisodeEvent & { readonly type: "turn" | "agent-reply" }): void {
    for (const { failure, waitedMs } of event.attempts) {
      const turn = event.type === "turn" ? event.turn.index : event.turn;
      say("warn", "retry", {
        episode: episodeId,
        turn,
        code: failure.code,
        message: failure.message,
        waited_ms: waitedMs,
      });
    }
  }

  return {
    event(episodeId, event) {
      if (event.type === "turn" || event.type === "agent-reply") retries(episodeId, event);
      else if (event.type === "grade") rewards.set(episodeId, event.grade.reward);
      else if (event.type === "episode-end") {
        const reward = rewards.get(episodeId) ?? null;
        rewards.delete(episodeId);
        const { stopReason, failure } = event;
        say(failure === null ? "info" : "error", "episode-end", {
          episode: episodeId,
          outcome: outcomeOf(stopReason),
          stop_reason: stopReason,
          reward: failure === null ? reward : null,
          ...(failure === null
            ? {}
            : {
                boundary: failure.boundary,
                code: failure.code,
                message: failure.message,
                retryable: failure.retryable,
              }),
        });
      }
    },
    group({ groupId, decision, reason, rewards: of }) {
      say("info", "group", { group: groupId, decision, reason, rewards: of });
    },
    recorded: () => undefined,
    gauges: () => undefined,
    staleness: () => undefined,
    circuit({ server, state, failures }) {
      if (state !== "half-open") say(state === "open" ? "warn" : "info", "circuit", { server, state, failures });
    },
    close: async () => undefined,
  };
}
