// An episode as data: its events in order, the whole record, and the decision about its group. See
// `rollout/` for the loop.

import type { JsonObject } from "../python-semantics/json/value.ts";
import type { ActionProblem, Decision } from "./agent.ts";
import type { EngineUsage } from "./engine.ts";
import type { Grade, ToolResult, Task, UserOutcome } from "./environment.ts";
import type { Attempt, Failure, Outcome, StopReason } from "./failure.ts";
import type { Judgement } from "./judge.ts";
import type { Message } from "./message.ts";
import type { ParsedAction } from "./renderer.ts";
import type { DroppedTokens, Sample, Trajectory, Turn } from "./turn.ts";
import type { ModelUsage, UserLine } from "./user.ts";

/**
 * Everything that happened, in order. An event is handed to the sink before it counts, so a journal
 * of events can be replayed through the deterministic environment. Durations are for people and are
 * the only parts that differ between equal runs.
 */
export type EpisodeEvent =
  | { readonly type: "episode-start"; readonly episodeId: string; readonly taskId: string; readonly seed: number }
  | { readonly type: "user-line"; readonly line: UserLine; readonly durationMs: number }
  /** Consequences of the line before, in a world in which users also act. */
  | { readonly type: "user-outcome"; readonly outcome: UserOutcome; readonly durationMs: number }
  | {
      readonly type: "turn";
      readonly turn: Turn;
      readonly attempts: readonly Attempt[];
      readonly usage: EngineUsage;
      readonly durationMs: number;
    }
  /** Replaces "turn" where an API model is the agent. */
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
      /** Index of the call that it answers, if the turn has several; absent if it has one. */
      readonly call?: number;
      /** The result as the policy reads it. */
      readonly result: ToolResult;
      /**
       * Characters of the text before it was cut to the length that a policy is shown; `null` if it
       * is whole.
       */
      readonly cutFrom: number | null;
      readonly durationMs: number;
    }
  /** The opened session of an episode that an outside program runs through the gateway. */
  | { readonly type: "session"; readonly session: JsonObject }
  /**
   * A call of that program, after its "turn", or its "agent-reply" where an API model answers: the
   * messages that the request added, and the parsed action.
   */
  | {
      readonly type: "exchange";
      readonly turn: number;
      /** Number of the call in its session; part of the ids of tool calls. */
      readonly call: number;
      readonly dialect: "chat" | "messages" | "responses" | "completions" | "google" | "sglang" | "vllm";
      /** SHA-256 (hex) of the request. */
      readonly digest: string;
      /**
       * The turn whose conversation the messages continue; `null` if they are the whole
       * conversation.
       */
      readonly basis: number | null;
      readonly messages: readonly Message[];
      /** OpenAI entries; `null` if they equal those of the basis. */
      readonly tools: readonly JsonObject[] | null;
      readonly action: ParsedAction;
      /**
       * The turn whose text this conversation begins from, such as a summary; `null` if it begins
       * from none.
       */
      readonly continues: number | null;
      /** Fields of the request that had no effect, by name. */
      readonly ignored: readonly string[];
      /** The dialect's own bookkeeping. */
      readonly response: { readonly hasInstructions: boolean; readonly isStored: boolean } | null;
      /** Ids by which the program tells its agents apart, if it sends any. @default null */
      readonly client?: { readonly agent: string; readonly parent: string | null } | null;
    }
  /** The conversations of a program that had several, and which of them are trained. Before "episode-end". */
  | { readonly type: "lineages"; readonly credit: LineageCredit; readonly lineages: readonly Lineage[] }
  /** The outside program has ended. */
  | {
      readonly type: "program";
      /** `null` if it was killed. */
      readonly exitCode: number | null;
      readonly isTimedOut: boolean;
      /** The reward that it printed; `null` if it printed none. */
      readonly reward: number | null;
      /** The end of its output. */
      readonly stdout: string;
      readonly stderr: string;
      /** The program's own time, without that of the model's calls, which is in their events. */
      readonly durationMs: number;
      /** True for an agent over ACP: its output is the conversation, and it is ended after it. @default false */
      readonly isPrompted?: boolean;
    }
  /** The program has received the whole answer of this turn. Only in the journal. */
  | { readonly type: "delivered"; readonly turn: number }
  /**
   * Turns whose answers never fully reached their program, so nothing in the episode can follow
   * from them.
   */
  | { readonly type: "undelivered"; readonly turns: readonly number[] }
  /**
   * The episode began again in a later process, because its world cannot be replayed. `turns` are
   * the turns of the earlier processes; their tokens are dropped, and other events of those
   * processes are not part of the episode. `usage`: cost of the models behind APIs in those
   * processes.
   */
  | {
      readonly type: "restart";
      readonly turns: readonly number[];
      readonly usage: { readonly agent: ModelUsage; readonly user: ModelUsage; readonly judge: ModelUsage };
    }
  /** A judge was called during grading. */
  | {
      readonly type: "judgement";
      readonly judgement: Judgement;
      /**
       * Ids of the ranked episodes in the order in which they were shown; `null` if the judge was
       * shown only this one.
       */
      readonly ranked: readonly string[] | null;
      readonly durationMs: number;
    }
  /**
   * The last grade counts: a ranking of the group adds one to the grade that each episode earned by
   * itself.
   */
  | { readonly type: "grade"; readonly grade: Grade; readonly durationMs: number }
  /**
   * The environment could not be closed and may have left resources open. Not a fault of the
   * episode.
   */
  | { readonly type: "close-failure"; readonly failure: Failure }
  | { readonly type: "episode-end"; readonly stopReason: StopReason; readonly failure: Failure | null };

/** "main": only the turns of the main lineage are trained. "by-tokens": rows are weighted by their trained tokens. */
export type LineageCredit = "all" | "main" | "by-tokens";

/** One agent's conversation in an episode of an outside program; see `gateway/lineages.ts`. */
export type Lineage = {
  /** Number from 1, in the order of the first calls. */
  readonly id: number;
  /** "side": requests beside the work, such as one for a title. Exactly one lineage is "main". */
  readonly kind: "main" | "sub-agent" | "side";
  /** The lineage that started it; `null` for the main one, or if it is not known. */
  readonly parent: number | null;
  /** The program's own id of the agent; `null` if it sent none. */
  readonly agent: string | null;
  /** Ascending; no turn is in two lineages. */
  readonly turns: readonly number[];
};

/** One attempt at one task, first observation to stop, with everything that happened. */
export type Episode = {
  readonly id: string;
  readonly groupId: string;
  /**
   * The episode's place in its group. The name is that of the file format; it does not mean a
   * training sample.
   */
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
  /**
   * The conversation as the policy's template renders it, with raw actions. Actions of an API model
   * are split into their parts.
   */
  readonly messages: readonly Message[];
  readonly trajectory: Trajectory;
  /**
   * The history policy of `Renderer`, named in every sample. "no-tokens": an API model was the
   * agent, or a program that calls none of our models, so the trajectory is empty and nothing can
   * be trained.
   */
  readonly historyPolicy: Sample["historyPolicy"] | "no-tokens";
  readonly events: readonly EpisodeEvent[];
  /** Every problem of every action, in order. */
  readonly problems: readonly ActionProblem[];
};

/**
 * The environment's own name for the end of an episode that it ended, such as "too_many_errors";
 * `null` if it has no name for it, or the episode ended otherwise. See `Grade.info`.
 */
export function endingOf({ stopReason, grade }: Pick<Episode, "stopReason" | "grade">): string | null {
  const isItsOwn = stopReason === "tool_ended" || stopReason === "user_hung_up";
  return isItsOwn && grade !== null ? terminationReason(grade) : null;
}

/**
 * The `termination_reason` of a grade's info if it is a valid name: at most 40 lowercase letters,
 * digits and underscores.
 */
export function terminationReason({ info }: Grade): string | null {
  const named = info.get("termination_reason");
  return typeof named === "string" && /^[a-z][a-z0-9_]{0,39}$/.test(named) ? named : null;
}

/**
 * Sampling from the model's own distribution does not reach this bound; grammars, biases and a
 * bound such as vLLM's -9999 do.
 */
const leastLikelyLogprob = -100;

/** Number of sampled tokens with a logprob below -100: the policy all but excluded them, so training on them is noise. */
export function countUnlikely({ logprobs }: Pick<Turn, "logprobs">): number {
  let count = 0;
  for (const logprob of logprobs ?? []) if (logprob < leastLikelyLogprob) count++;
  return count;
}

/** The training rows of an episode, and the sampled tokens that are in none of them. */
export type EpisodeSamples = { readonly samples: readonly Sample[]; readonly dropped: readonly DroppedTokens[] };

/**
 * Decision about a group: made once, when its last episode has ended, and recorded with its
 * training rows.
 */
export type GroupRecord = {
  readonly groupId: string;
  readonly taskId: string;
  /** Number of the task in the run. */
  readonly groupIndex: number;
  /** The rows of a dropped group are not written. */
  readonly decision: "kept" | "dropped";
  /** The reason for dropping it; `null` when it was kept. */
  readonly reason: string | null;
  /** Ids in the order of the episodes' places in the group. */
  readonly episodeIds: readonly string[];
  /** Aligned with `episodeIds`; `null` where an episode was not graded. */
  readonly rewards: readonly (number | null)[];
};
