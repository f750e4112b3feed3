// An episode with one of everything: every event, every kind of decision, a branch, a failed attempt.

import { crc32 } from "node:zlib";
import type { Episode, EpisodeEvent, Failure, Task, Turn } from "../core/index.ts";
import { JsonFloat, type JsonObject } from "../python-semantics/json/value.ts";

const task: Task = {
  id: "desk:train:3",
  environment: "desk",
  split: "train",
  index: 3,
  contentHash: "ab".repeat(32),
  instruction: 'You want your book.\nSay "please".',
  agenda: { greetings: ["Hi"], slots: [], goals: [], farewells: ["Bye"], patience: 3 },
};

const failure: Failure = {
  boundary: "engine",
  code: "overloaded",
  message: "Cannot sample: busy.",
  retryable: true,
  cause: "429",
};

function turn(index: number, parent: number | null, logprobs: readonly number[] | null): Turn {
  return {
    index,
    parent,
    observationTokens: Uint32Array.of(1, 2, 4_294_967_295),
    spelledTokens: index,
    deviation: index === 1 ? "other-end-token" : null,
    sampledTokens: Uint32Array.of(7, 8),
    logprobs: logprobs === null ? null : Float32Array.from(logprobs),
    finish: { reason: "stop", matched: index === 0 ? 8 : "</s>", raw: index === 0 ? '{"type": "stop"}' : null },
    weightSpans: [
      { tokenCount: 1, dispatch: "1", reply: "2" },
      { tokenCount: 1, dispatch: null, reply: null },
    ],
    rewriteReason: parent === null && index > 0 ? "template strips reasoning" : null,
  };
}

export function sampleEpisode(id: string): Episode {
  const turns = [turn(0, null, [-0.1, -Infinity]), turn(1, 0, null), turn(2, null, [-0, -1e-7])];
  const call = { id: "call_0_0", name: "find", argumentsText: '{"id": 1.0}' };
  const problem = { code: "unknown-tool", toolName: "find", detail: "no such tool" } as const;
  const args: JsonObject = new Map([["id", new JsonFloat(1)]]);
  const info: JsonObject = new Map<string, number | JsonFloat>([
    ["10", new JsonFloat(1)],
    ["9", 1],
  ]);
  const grade = { reward: 0.5, metrics: { db: 1, said: 0.25 }, log: "half", info };
  const action = {
    text: "<think>x</think>hello",
    reasoning: "x",
    content: "hello",
    toolCalls: [call],
    problems: [{ code: "no-name", text: "{}", toolName: null, detail: "no name" }],
    isTerminated: true,
  } as const;
  const usage = { promptTokens: 3, completionTokens: 2, cachedTokens: null };
  const events: readonly EpisodeEvent[] = [
    { type: "episode-start", episodeId: id, taskId: task.id, seed: 9 },
    {
      type: "user-line",
      line: { type: "utterance", text: "hi", usage: { modelCalls: 1, inputTokens: 2, outputTokens: 3, cost: 0.001 } },
      durationMs: 0.5,
    },
    { type: "turn", turn: turns[0]!, attempts: [{ failure, waitedMs: 250.5 }], usage, durationMs: 10 },
    { type: "decision", turn: 0, action, decision: { type: "call", problems: [], call, arguments: args } },
    {
      type: "tool-result",
      turn: 0,
      result: { text: "Error", isError: true, endsEpisode: false, info },
      cutFrom: null,
      durationMs: 0,
    },
    { type: "turn", turn: turns[1]!, attempts: [], usage: { ...usage, cachedTokens: 2 }, durationMs: 1 },
    { type: "decision", turn: 1, action, decision: { type: "observe", problems: [problem], feedback: "no", call } },
    { type: "decision", turn: 1, action, decision: { type: "observe", problems: [], feedback: "no", call: null } },
    { type: "turn", turn: turns[2]!, attempts: [], usage, durationMs: 1 },
    { type: "decision", turn: 2, action, decision: { type: "say", problems: [], content: "hello" } },
    { type: "decision", turn: 2, action, decision: { type: "end", problems: [problem] } },
    { type: "decision", turn: 2, action, decision: { type: "abort", problems: [] } },
    { type: "grade", grade, durationMs: 2 },
    { type: "episode-end", stopReason: "fault", failure },
  ];
  return {
    id,
    groupId: task.id,
    sampleIndex: 1,
    task,
    seed: 4_294_967_295,
    outcome: "failed",
    stopReason: "fault",
    failure,
    reward: null,
    grade,
    info,
    messages: [
      { role: "system", content: "Be kind." },
      { role: "user", content: "hi" },
      { role: "assistant", content: "hello", reasoning: null, toolCalls: [call] },
      { role: "tool", content: "found", name: "find", callId: "call_0_0" },
    ],
    trajectory: { turns },
    historyPolicy: "branch",
    events,
    problems: [problem],
  };
}

/** Turns a JSON object without its last brace into a line with checksum and line end. */
export function withChecksum(body: string): string {
  return `${body},"crc32":"${crc32(body).toString(16).padStart(8, "0")}"}\n`;
}

/** A copy with one changed byte; `by` (0 to 254) selects the new value. */
export function flipped(bytes: Buffer, at: number, by = 0): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = (copy.readUInt8(at) + 1 + by) % 256;
  return copy;
}
