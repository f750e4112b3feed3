// Events as clients of the stream see them: words, calls and results, without token ids. The record with every token is in
// the samples.

import type { EpisodeEvent } from "../core/index.ts";
import { toPlain } from "../python-semantics/json/plain.ts";

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
