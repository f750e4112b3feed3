// Handwritten events of two small episodes: one that passes after a retried turn and a bad action,
// one that fails.

import type { EpisodeEvent, Failure } from "../core/index.ts";
import { freeUsage } from "../core/index.ts";

const overloaded: Failure = {
  boundary: "engine",
  code: "overloaded",
  message: "Cannot sample: busy.",
  retryable: true,
  cause: null,
};

const turn = (index: number, attempts: readonly Failure[]): EpisodeEvent => ({
  type: "turn",
  turn: {
    index,
    parent: index === 0 ? null : index - 1,
    observationTokens: Uint32Array.of(1, 2, 3),
    sampledTokens: Uint32Array.of(4, 5),
    logprobs: Float32Array.of(-0.5, index === 0 ? -0.25 : -9999),
    finish: { reason: "stop", matched: 5, raw: null },
    weightSpans: [{ tokenCount: 2, dispatch: "1", reply: "1" }],
    spelledTokens: 0,
    deviation: null,
    rewriteReason: null,
  },
  attempts: attempts.map((failure) => ({ failure, waitedMs: 40 })),
  usage: { promptTokens: 100, completionTokens: 2, cachedTokens: 64 },
  durationMs: 200,
});

export const passingEpisode: readonly EpisodeEvent[] = [
  { type: "episode-start", episodeId: "a#0", taskId: "a", seed: 1 },
  { type: "user-line", line: { type: "utterance", text: "Hi", usage: freeUsage }, durationMs: 30 },
  turn(0, [overloaded]),
  {
    type: "decision",
    turn: 0,
    action: { reasoning: null, content: "?", toolCalls: [], problems: [], raw: "?", isRoundTrip: true } as never,
    decision: {
      type: "observe",
      feedback: "Error",
      call: null,
      problems: [{ code: "not-json", toolName: null, detail: "it ends too early" }],
    },
  },
  turn(1, []),
  {
    type: "tool-result",
    turn: 1,
    result: { text: "ok", endsEpisode: true, info: new Map() } as never,
    cutFrom: null,
    durationMs: 5,
  },
  { type: "grade", grade: { reward: 1, info: new Map() } as never, durationMs: 1 },
  { type: "episode-end", stopReason: "tool_ended", failure: null },
];

export const failingEpisode: readonly EpisodeEvent[] = [
  { type: "episode-start", episodeId: "b#0", taskId: "b", seed: 2 },
  {
    type: "episode-end",
    stopReason: "fault",
    failure: { boundary: "user", code: "timeout", message: "Cannot hear the user.", retryable: true, cause: null },
  },
];
