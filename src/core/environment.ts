// The world of an episode as a contract: what it must keep so that runs can be replayed and graded. Not an environment: see
// `environments/`. It knows no model, no user and no tokens.

import type { JsonObject } from "../python-semantics/json/value.ts";
import type { Task, Taskset } from "./task.ts";
import type { Tool } from "./tool.ts";

export type EnvironmentCall = { readonly name: string; readonly arguments: JsonObject };

export type ToolResult = {
  /** What the policy reads. */
  readonly text: string;
  /** True when the call was refused or raised; a bad call is an observation, not a crash. */
  readonly isError: boolean;
  /** True when the call ends the episode (a transfer to a human, say). */
  readonly endsEpisode: boolean;
  /** Merged over the episode's info. Numbers in it are finite. */
  readonly info: JsonObject;
};

/** How the episode that is graded ended: by a tool or the user, or by a limit. Aborted and failed episodes are not graded. */
export type Ending = { readonly outcome: "completed" | "truncated" };

/**
 * Reward is the scalar for learning, metrics are numbers to aggregate, log is text for people: never mixed. Numbers are
 * finite; a grade with another one is a failure at boundary "grader" of its episode.
 */
export type Grade = {
  readonly reward: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly log: string;
  /** Merged over the episode's info. */
  readonly info: JsonObject;
};

/**
 * The world of one episode: its state, its tools, its reward. Single use.
 *
 * Guarantees: deterministic, so replaying the recorded calls and words gives the same state, results and reward (this is
 * how a killed run goes on; there is no other snapshot). `call` answers every model output with a result: it rejects only
 * for a fault of the environment itself. Owns no model and no user. Calls arrive one at a time. What is thrown, rejected or of
 * another type than stated here is a failure of the episode at boundary "environment" or "grader", with code "bad-result" for
 * a wrong type; other episodes go on.
 */
export interface Environment {
  readonly task: Task;
  /** The policy text of the domain, for the system message. */
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  /** Known at reset; the loop merges later infos over it. */
  readonly info: JsonObject;
  call(call: EnvironmentCall): ToolResult | Promise<ToolResult>;
  /** The agent's words to the user, recorded because rewards may depend on what was said. */
  hear(words: string): void;
  /** Grades the state as it is. Idempotent. Whether a truncated episode can earn a reward is the domain's decision. */
  grade(ending: Ending): Grade | Promise<Grade>;
  /** Digest of the state (hex), for comparing replays. May be slow. */
  digest(): string;
}

/**
 * Where environments and tasks come from: one value per domain, shared by all episodes.
 *
 * `open` is cheap (kilobytes, microseconds) and synchronous state is never shared between episodes.
 */
export interface EnvironmentSource {
  readonly name: string;
  readonly splits: readonly string[];
  /** Names of the user simulators that can play its tasks. */
  readonly users: readonly string[];
  /** Who words the answer to arguments that violate a tool's schema: the environment (as its reference does) or the loop. */
  readonly argumentErrors: "environment" | "loop";
  taskset(split: string): Taskset;
  open(task: Task): Environment;
}
