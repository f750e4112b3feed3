// The world of an episode as a contract: what it must guarantee so that runs can be replayed and graded; its tasks, and what a
// simulated user may do in it. Not an environment: see `environments/`. It knows no model and no tokens.

import type { JsonObject } from "../python-semantics/json/value.ts";
import type { Agenda } from "./agenda.ts";
import type { Question, Ranking, Rubric } from "./judge.ts";
import type { Message, Tool } from "./message.ts";
import type { UserLine } from "./user-line.ts";

/**
 * The world of one episode: its state, its tools, its reward. Single use.
 *
 * Guarantees: deterministic, so replaying the recorded calls and utterances gives the same state,
 * results and reward (a killed run resumes this way, without any other snapshot). `call` answers
 * every model output with a result: it rejects only for a fault of the environment itself. Owns no
 * model and no user. Calls arrive one at a time. A thrown error, a rejection, or a value of another
 * type than stated here is a failure of the episode at boundary "environment" or "grader", with
 * code "bad-result" for a wrong type; other episodes are not affected.
 */
export interface Environment {
  readonly task: Task;
  /** The policy text of the domain, for the system message. */
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  /** Known at reset; the loop merges later infos over it. */
  readonly info: JsonObject;
  /**
   * The text that the world itself begins with: a prompt, a first observation. User "task" says it; others have their own first
   * line. @default null
   */
  readonly opening?: string | null;
  /**
   * The conversation as it stands when the episode begins, as the policy has seen it: prompt, never trained. It is the user's turn
   * after it. @default nothing was said
   */
  readonly history?: readonly Message[];
  /**
   * The simulated user's access to the environment; every line of the user passes through it.
   * @default users only talk
   */
  readonly userSide?: UserSide | null;
  call(call: EnvironmentCall, options?: AgentCallOptions): ToolResult | Promise<ToolResult>;
  /**
   * The agent's utterance to the user, recorded because rewards may depend on what was said. What it returns says whether the
   * episode ends with it; nothing: it continues.
   */
  hear(utterance: string, options?: EnvironmentCallOptions): Heard | Promise<Heard>;
  /**
   * Question for a judge, asked before `grade`, which receives the answer; `null` if there is none.
   * Called once, in runs that have a judge. A failing judge is a failure of the episode at boundary
   * "grader". @default no question
   */
  question?(ending: Ending): Question<unknown> | null | Promise<Question<unknown> | null>;
  /**
   * Grades the state as it is. Idempotent. Whether a truncated episode can earn a reward is the domain's decision, and whether
   * there is a grade without an answer.
   */
  grade(ending: Ending, options?: GradeOptions): Grade | Promise<Grade>;
  /** Digest of the state (hex), for comparing replays. May be slow. */
  digest(): string;
  /**
   * Gives back what it holds: a connection, a process, a session. Called exactly once, after everything else, however the
   * episode ended. What it throws never changes the outcome.
   */
  close?(): void | Promise<void>;
}

export type EnvironmentCall = { readonly name: string; readonly arguments: JsonObject };

export type ToolResult = {
  /** Text that the policy reads. */
  readonly text: string;
  /** True when the call was refused or raised; a bad call is an observation, not a crash. */
  readonly isError: boolean;
  /** True when the call ends the episode (a transfer to a human, say). */
  readonly endsEpisode: boolean;
  /** Merged over the episode's info. Numbers in it are finite. */
  readonly info: JsonObject;
  /**
   * Reward of this call, for environments that reward each step; finite. The loop adds those of a turn up; what the final grade
   * has beyond their sum belongs to the last turn. @default null
   */
  readonly reward?: number | null;
};

/** Options of a call of an environment. */
export type EnvironmentCallOptions = {
  /**
   * Aborts when the deadline of the call has passed or the episode is cancelled; the answer is
   * ignored from then on.
   */
  readonly signal: AbortSignal;
};

/** Options of a tool call that the agent makes. */
export type AgentCallOptions = EnvironmentCallOptions & {
  /** The action that the call is of. @default it is the action's only one, without a text beside it */
  readonly action?: {
    /** Which of its calls this is, from 0; only those that are carried out count. */
    readonly call: number;
    readonly calls: number;
    /** Text that the policy wrote beside its calls; it gets no reply. */
    readonly text: string;
  };
};

/** An environment's response to an utterance of the agent; nothing means that the episode continues. */
export type Heard = void | { readonly endsEpisode: boolean };

/**
 * Outcome of the episode that is graded: completed by a tool or the user, or truncated by a limit.
 * Aborted and failed episodes are not graded.
 */
export type Ending = { readonly outcome: "completed" | "truncated" };

/**
 * Reward is the scalar for learning, metrics are numbers to aggregate, log is text for people: never mixed. Numbers are
 * finite; a grade with another one is a failure at boundary "grader" of its episode.
 */
export type Grade = {
  readonly reward: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly log: string;
  /**
   * Merged over the episode's info. `termination_reason`: the environment's own name for the end,
   * where its reference has a list of such names; see `endingOf()`. Viewers show two entries of an
   * episode that did not pass: `expected_actions`, a list of `{name, arguments}`, and
   * `state_difference`, a list of `{record, expected, found}` with texts, `null` where the record
   * does not exist.
   */
  readonly info: JsonObject;
  /**
   * Reward of each sampled turn of the trajectory, in order; `null` where it is not known. The
   * rewards sum to `reward`, within a millionth of the added values. An environment returns one for
   * each turn that was not discarded; the record has one for each of `trajectory.turns`, `null` at
   * discarded ones. Absent in environments whose calls carry rewards. @default null
   */
  readonly turnRewards?: readonly (number | null)[] | null;
};

/** Options of grading. */
export type GradeOptions = EnvironmentCallOptions & {
  /**
   * The judge's answer to `question`; `question.read` accepts it. @default the environment asked no
   * question, or the run has no judge
   */
  readonly answer?: string | null;
};

/**
 * Where environments and tasks come from: one value per domain, shared by all episodes. State is never shared between
 * episodes.
 */
export interface EnvironmentSource {
  readonly name: string;
  readonly splits: readonly string[];
  /**
   * Names `<name>` of splits `<name>:<seed>`, one for each whole number, so that results can be
   * checked on tasks that no one has seen. @default none
   */
  readonly seededSplits?: readonly string[];
  /** Names of the user simulators that can run its tasks. */
  readonly users: readonly string[];
  /**
   * The side that answers arguments that violate a tool's schema: the environment (as in its
   * reference) or the loop.
   */
  readonly argumentErrors: "environment" | "loop";
  /**
   * The side that answers a call of an unknown tool: the loop, which names the tools, or the
   * environment, whose reference answers and counts it. @default "loop"
   */
  readonly unknownTools?: "environment" | "loop";
  /**
   * "one": if a turn has several calls, only the first is carried out, for every strategy, as in
   * the reference of a benchmark. @default "several"
   */
  readonly calls?: "one" | "several";
  /**
   * Method of resuming an episode whose process died. "replay": its recorded calls are made again.
   * "restart", for a world that may answer them differently: the episode begins again with its
   * seed, and the tokens sampled before are dropped. @default "replay"
   */
  readonly resume?: "replay" | "restart";
  /**
   * Models that grade beside `grade` of its environments; who they are is the run's. `gradeWeight`: of the environment's own
   * reward, `null` where it has none. @default none
   */
  readonly graders?: { readonly gradeWeight: number | null; readonly use: readonly (Rubric | Ranking)[] };
  /** Tasks whose grade needs an answer of a judge. @default none */
  readonly needsJudge?: (task: Task) => boolean;
  /**
   * True: `open` has deadlines of its own and the loop has none for it. For sources that hold an opening back until there is room for
   * it, which a deadline would take for a fault. @default false
   */
  readonly boundsOpening?: boolean;
  taskset(split: string): Taskset;
  /**
   * Opens an environment: synchronously in this process, with a promise elsewhere. An environment
   * that opens after `signal` has aborted is closed when it arrives.
   */
  open(task: Task, options?: OpenOptions): Environment | Promise<Environment>;
}

/** A source whose environments live in this process and open at once. */
export interface LocalEnvironmentSource extends EnvironmentSource {
  open(task: Task, options?: OpenOptions): Environment;
}

/** Options of opening an environment. */
export type OpenOptions = EnvironmentCallOptions & {
  /** The environment's own randomness derives from it. Equal for equal episodes of a run. */
  readonly seed: number;
};

/** An immutable problem with a stable id. */
export type Task = {
  /** Unique and stable, e.g. `tau-bench/retail:test:17`. */
  readonly id: string;
  /** Name of the environment. */
  readonly environment: string;
  readonly split: string;
  readonly index: number;
  /** SHA-256 (hex) of everything that defines the task. */
  readonly contentHash: string;
  /** Prompt of a user simulated by a model; `null` when the task has no prose. */
  readonly instruction: string | null;
  /** Structured goal that the agenda-based user follows; `null` when the task has none. */
  readonly agenda: Agenda | null;
};

/** A seedable source of tasks. `task(i)` is pure: the same index gives the same task, in every process. */
export interface Taskset {
  readonly environment: string;
  readonly split: string;
  readonly size: number;
  /** Throws a `RangeError` that names the bounds. */
  task(index: number): Task;
}

/** The side of a simulated user that acts in the world itself. */
export interface UserSide {
  /** System message of a user simulated by a model: who it is, what it wants, how it behaves. */
  readonly prompt: string;
  /** Tools of the user; none: it only talks. */
  readonly tools: readonly Tool[];
  /**
   * Messages that the user has seen before its first line, from its own side: the agent is "user"
   * in them.
   */
  readonly history: readonly Message[];
  /** Takes a line: words are noted, calls carried out in order. A bad call is a result, not a rejection. */
  act(line: UserLine, options?: EnvironmentCallOptions): UserOutcome | Promise<UserOutcome>;
}

/** Consequences of a line of the user. */
export type UserOutcome = {
  /** Results of the user's calls, in order. */
  readonly results: readonly ToolResult[];
  /** True when the conversation is over with it. */
  readonly endsEpisode: boolean;
};
