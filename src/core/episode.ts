import type { JsonObject } from "../python-semantics/json/value.ts";
import type { ActionProblem, Decision } from "./agent-strategy.ts";
import type { EngineUsage } from "./engine.ts";
import type { Grade, ToolResult } from "./environment.ts";
import type { Failure } from "./failure.ts";
import type { Message } from "./message.ts";
import type { ModelUsage } from "./model-usage.ts";
import type { ParsedAction } from "./renderer.ts";
import type { DroppedTokens, Sample } from "./sample.ts";
import type { Outcome, StopReason } from "./stop-reason.ts";
import type { Task } from "./task.ts";
import type { Trajectory, Turn } from "./turn.ts";
import type { UserLine } from "./user.ts";

/** A failed try of an engine call, kept in the turn's log. */
export type Attempt = { readonly failure: Failure; readonly waitedMs: number };

/**
 * What happened, in order. An event is handed to the sink before it counts, so a journal of events can be replayed through
 * the deterministic environment. Durations are for people and are the only parts that differ between equal runs.
 */
export type EpisodeEvent =
  | { readonly type: "episode-start"; readonly episodeId: string; readonly taskId: string; readonly seed: number }
  | { readonly type: "user-line"; readonly line: UserLine; readonly durationMs: number }
  | {
      readonly type: "turn";
      readonly turn: Turn;
      readonly attempts: readonly Attempt[];
      readonly usage: EngineUsage;
      readonly durationMs: number;
    }
  /** In place of "turn" where an API model is the agent. */
  | {
      readonly type: "agent-reply";
      readonly turn: number;
      readonly attempts: readonly Attempt[];
      readonly usage: ModelUsage;
      readonly durationMs: number;
    }
  | { readonly type: "decision"; readonly turn: number; readonly action: ParsedAction; readonly decision: Decision }
  | {
      readonly type: "tool-result";
      readonly turn: number;
      /** As the policy reads it. */
      readonly result: ToolResult;
      /** Characters of the whole text, where it was longer than a policy is shown; `null`: it is whole. */
      readonly cutFrom: number | null;
      readonly durationMs: number;
    }
  | { readonly type: "grade"; readonly grade: Grade; readonly durationMs: number }
  | { readonly type: "episode-end"; readonly stopReason: StopReason; readonly failure: Failure | null };

/** One attempt at one task, first observation to stop, with everything that happened. */
export type Episode = {
  readonly id: string;
  readonly groupId: string;
  /** Place in the group. */
  readonly sampleIndex: number;
  readonly task: Task;
  readonly seed: number;
  readonly outcome: Outcome;
  readonly stopReason: StopReason;
  /** Set exactly when the outcome is failed. */
  readonly failure: Failure | null;
  /** The grade's reward; `null` when the episode was not graded (aborted or failed: never a silent zero). */
  readonly reward: number | null;
  readonly grade: Grade | null;
  /** Info of reset and of every step, merged in order. */
  readonly info: JsonObject;
  /** The conversation as the policy's template sees it; actions raw. Those of an API model are in their parts. */
  readonly messages: readonly Message[];
  readonly trajectory: Trajectory;
  /**
   * As in `Renderer`; named in every sample. "no-tokens": an API model was the agent, so the trajectory is empty and nothing
   * can be trained.
   */
  readonly historyPolicy: Sample["historyPolicy"] | "no-tokens";
  readonly events: readonly EpisodeEvent[];
  /** Every problem of every action, in order. */
  readonly problems: readonly ActionProblem[];
};

/** The training rows of an episode and what is in none of them. */
export type EpisodeSamples = { readonly samples: readonly Sample[]; readonly dropped: readonly DroppedTokens[] };
