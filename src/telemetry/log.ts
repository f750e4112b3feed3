// A run as structured log lines, one JSON object per line, for log collectors. Faults and endings
// are logged; successful turns are in the run folder. Levels: info, warn (a retry, a server with an
// open circuit), error (a failure).

import { outcomeOf } from "../core/index.ts";
import { factsOf, observing, type RunObserver } from "./observer.ts";

export type RunLogOptions = {
  /** Receives a line without its line feed. */
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
      // A failure to write the log must not stop the run.
    }
  };

  return observing({
    event(episodeId, event) {
      for (const { failure, waitedMs } of factsOf(event)?.attempts ?? []) {
        const { code, message } = failure;
        say("warn", "retry", { episode: episodeId, turn: factsOf(event)?.turn, code, message, waited_ms: waitedMs });
      }
      if (event.type === "grade") rewards.set(episodeId, event.grade.reward);
      if (event.type !== "episode-end") return;
      const reward = rewards.get(episodeId) ?? null;
      rewards.delete(episodeId);
      const { stopReason, failure } = event;
      const ended = { episode: episodeId, outcome: outcomeOf(stopReason), stop_reason: stopReason };
      if (failure === null) return say("info", "episode-end", { ...ended, reward });
      const { boundary, code, message, retryable } = failure;
      say("error", "episode-end", { ...ended, reward: null, boundary, code, message, retryable });
    },
    group({ groupId, decision, reason, rewards: of }) {
      say("info", "group", { group: groupId, decision, reason, rewards: of });
    },
    circuit({ server, state, failures }) {
      if (state !== "half-open") say(state === "open" ? "warn" : "info", "circuit", { server, state, failures });
    },
  });
}
