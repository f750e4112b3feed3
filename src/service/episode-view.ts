// An episode in the form for clients: its events while it runs, and a summary once it has ended,
// which is then the only part that stays in memory. Names are in snake_case, as on the wire; the
// record with every token is in the samples.

import { z } from "zod";
import type * as core from "../core/index.ts";
import { attribute, type CallDecision, type Episode, type EpisodeEvent } from "../core/index.ts";
import { toPlain } from "../python-semantics/json/plain.ts";

export const count = z.int().min(0);

const failure = z.object({ boundary: z.string(), code: z.string(), message: z.string(), retryable: z.boolean() });

/** Summary of an episode; fields are null or empty until the episode has ended. */
export const episodeSummary = z.object({
  outcome: z.enum(["completed", "truncated", "aborted", "failed"]).nullable(),
  stop_reason: z.string().nullable(),
  reward: z.number().nullable(),
  failure: failure.nullable(),
  metrics: z.record(z.string(), z.number()),
  turns: count.nullable(),
  sampled_tokens: count.nullable(),
  /** Versions in the order in which they first sampled; `null` for an engine that reports none. */
  weight_versions: z.array(z.string().nullable()),
  /** Counts of format errors, by code. */
  problems: z.record(z.string(), count),
});

export type EpisodeSummary = z.infer<typeof episodeSummary>;

/** Summary of an episode that has not ended. */
export const notEnded: EpisodeSummary = Object.freeze({
  outcome: null,
  stop_reason: null,
  reward: null,
  failure: null,
  metrics: {},
  turns: null,
  sampled_tokens: null,
  weight_versions: [],
  problems: {},
});

/** Summary of an episode that was cancelled before it began. */
export const notStarted: EpisodeSummary = Object.freeze({
  ...notEnded,
  outcome: "aborted",
  stop_reason: "cancelled",
  turns: 0,
  sampled_tokens: 0,
});

export function viewSummary(ended: core.EpisodeSummary): EpisodeSummary {
  const { outcome, stopReason, reward, failure: fault, metrics, turns, sampledTokens, weightSpans, problems } = ended;
  return {
    outcome,
    stop_reason: stopReason,
    reward,
    failure: viewFailure(fault),
    metrics,
    turns,
    sampled_tokens: sampledTokens,
    problems,
    weight_versions: [...new Set(weightSpans.map(({ reply }) => reply))],
  };
}

/**
 * Summary for an error of a runner or a store: a configuration mistake, broken accounting, a full
 * disk. It is reported to the client; nothing is trained.
 */
export function notRun(error: unknown): EpisodeSummary {
  const { failure: fault } = attribute(error, "environment", "not-played");
  return { ...notStarted, outcome: "failed", stop_reason: "fault", failure: viewFailure(fault) };
}

/** The failure without its cause. */
function viewFailure(fault: Episode["failure"]): EpisodeSummary["failure"] {
  if (fault === null) return null;
  const { boundary, code, message, retryable } = fault;
  return { boundary, code, message, retryable };
}

/** An event as a JSON object; `type` is the same as in `EpisodeEvent`. */
export type EventView = Readonly<Record<string, unknown>> & { readonly type: string };

function viewCall({ call, arguments: given, feedback, problems }: CallDecision) {
  const name = call?.name ?? problems.find(({ toolName }) => toolName !== null)?.toolName ?? null;
  return { name, arguments: given === null ? null : toPlain(given), feedback };
}

export function viewEvent(event: EpisodeEvent): EventView {
  const { type } = event;
  switch (event.type) {
    case "episode-start":
      return { type, episode_id: event.episodeId, task_id: event.taskId };
    case "user-line":
      return {
        type,
        line: event.line.type,
        text: event.line.text,
        ...(event.line.calls === undefined
          ? {}
          : { calls: event.line.calls.map(({ name, arguments: given }) => ({ name, arguments: toPlain(given) })) }),
        duration_ms: event.durationMs,
      };
    case "user-outcome": {
      const { results, endsEpisode } = event.outcome;
      const shown = results.map(({ text, isError }) => ({ text, is_error: isError }));
      return { type, results: shown, ends_episode: endsEpisode, duration_ms: event.durationMs };
    }
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
      const { turn, decision, action } = event;
      return {
        type,
        turn,
        decision: decision.type,
        reasoning: action.reasoning,
        text: decision.type === "say" ? decision.content : action.content,
        call: decision.type === "call" ? { name: decision.call.name, arguments: toPlain(decision.arguments) } : null,
        ...(decision.type === "calls" ? { calls: decision.calls.map(viewCall) } : {}),
        problems: decision.problems.map(({ code, detail }) => ({ code, detail })),
      };
    }
    case "tool-result": {
      const { turn, call, result, durationMs } = event;
      const place = call === undefined ? { turn } : { turn, call };
      return { type, ...place, text: result.text, is_error: result.isError, duration_ms: durationMs };
    }
    case "session":
    case "delivered":
    case "undelivered":
      return { type };
    case "exchange":
      return { type, turn: event.turn, reasoning: event.action.reasoning, text: event.action.content };
    case "program": {
      const { exitCode, isTimedOut, reward, stdout, stderr, durationMs } = event;
      return { type, exit_code: exitCode, is_timed_out: isTimedOut, reward, stdout, stderr, duration_ms: durationMs };
    }
    case "restart":
      return { type, turns: event.turns };
    case "lineages":
      return { type, credit: event.credit, lineages: event.lineages };
    case "close-failure":
      return { type, failure: viewFailure(event.failure) };
    case "judgement": {
      const { grader, model, answer, failure: fault } = event.judgement;
      return { type, grader, model, answer, failure: fault, duration_ms: event.durationMs };
    }
    case "grade":
      return { type, reward: event.grade.reward, metrics: event.grade.metrics };
    case "episode-end":
      return { type, stop_reason: event.stopReason, failure: event.failure };
    default:
      return event satisfies never;
  }
}
