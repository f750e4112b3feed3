import { expect, test } from "vitest";
import { failingEpisode, passingEpisode } from "./episode-events.test-helper.ts";
import { createRunLog } from "./log.ts";

test("createRunLog() tells what ended, what was tried again and what failed, a JSON object a line", () => {
  const lines: string[] = [];
  const log = createRunLog({ write: (line) => lines.push(line), now: () => 0 });
  for (const event of passingEpisode) log.event("a#0", event);
  for (const event of failingEpisode) log.event("b#0", event);
  const time = "1970-01-01T00:00:00.000Z";
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    {
      time,
      level: "warn",
      event: "retry",
      episode: "a#0",
      turn: 0,
      code: "overloaded",
      message: "Cannot sample: busy.",
      waited_ms: 40,
    },
    {
      time,
      level: "info",
      event: "episode-end",
      episode: "a#0",
      outcome: "completed",
      stop_reason: "tool_ended",
      reward: 1,
    },
    {
      time,
      level: "error",
      event: "episode-end",
      episode: "b#0",
      outcome: "failed",
      stop_reason: "fault",
      reward: null,
      boundary: "user",
      code: "timeout",
      message: "Cannot hear the user.",
      retryable: true,
    },
  ]);
});

test("createRunLog() survives a stream that cannot be written", () => {
  const log = createRunLog({
    write: () => {
      throw new Error("EPIPE");
    },
  });
  for (const event of failingEpisode) expect(() => log.event("b#0", event)).not.toThrow();
});
