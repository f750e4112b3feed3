// The world of an episode as a contract: its guarantees, so that runs can be replayed and graded;
// its tasks; and the actions of simulated users in it. Not an environment: see `environments/`. It
// knows no model and no tokens.

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
   * Text that the world itself begins with: a prompt, a first observation. User "task" says it;
   * other users have their own first line. @default null
   */
  readonly opening?: string | null;
  /**
   * Conversation before the episode begins, as the policy has seen it: prompt, never trained. The
   * user speaks next. @default empty
   */
  readonly history?: readonly Message[];
  /**
   * The simulated user's access to the environment; every line of the user passes through it.
   * @default users only talk
   */
  readonly userSide?: UserSide | null;
  call(call: EnvironmentCall, options?: AgentCallOptions): ToolResult | Promise<ToolResult>;
  /**
   * Receives the agent's utterance to the user, which is recorded because rewards may depend on it.
   * The result reports if it ends the episode; without a result the episode continues.
   */
  receiveUtterance(utterance: string, options?: EnvironmentCallOptions): UtteranceResult | Promise<UtteranceResult>;
  /**
   * Question for a judge, sent before `grade`, which receives the answer; `null` if there is none.
   * Called once, in runs that have a judge. A failing judge is a failure of the episode at boundary
   * "grader". @default no question
   */
  question?(ending: Ending): Question<unknown> | null | Promise<Question<unknown> | null>;
  /**
   * Grades the current state. Idempotent. The domain decides whether a truncated episode can earn a
   * reward, and whether there is a grade without a judge's answer.
   */
  grade(ending: Ending, options?: GradeOptions): Grade | Promise<Grade>;
  /** Digest of the state (hex), for comparing replays. May be slow. */
  digest(): string;
  /**
   * Releases its resources: a connection, a process, a session. Called exactly once, after
   * everything else, for every outcome of the episode. Errors that it throws never change the
   * outcome.
   */
  close?(): void | Promise<void>;
}

export type EnvironmentCall = { readonly name: string; readonly arguments: JsonObject };

export type ToolResult = {
  /** Text that the policy reads. */
  readonly text: string;
  /** True when the call was refused or raised; a bad call is an observation, not a crash. */
  readonly isError: boolean;
  /** True when the call ends the episode (for example, a transfer to a human). */
  readonly endsEpisode: boolean;
  /** Merged over the episode's info. Numbers in it are finite. */
  readonly info: JsonObject;
  /**
   * Reward of this call, for environments that reward each step; finite. The loop sums those of a
   * turn; the part of the final grade beyond their total belongs to the last turn. @default null
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
  /**
   * The action that contains the call. @default the call is the action's only one, without text
   * beside it
   */
  readonly action?: {
    /** Index of this call among those of the action that are carried out, from 0. */
    readonly call: number;
    readonly calls: number;
    /** Text that the policy wrote beside its calls; it gets no reply. */
    readonly text: string;
  };
};

/** An environment's response to an utterance of the agent; nothing means that the episode continues. */
export type UtteranceResult = void | { readonly endsEpisode: boolean };

/**
 * Outcome of the episode that is graded: completed by a tool or the user, or truncated by a limit.
 * Aborted and failed episodes are not graded.
 */
export type Ending = { readonly outcome: "completed" | "truncated" };

/**
 * Reward is the scalar for learning, metrics are numbers to aggregate, log is text for people:
 * never mixed. All numbers are finite; any other value is a failure of the episode at boundary
 * "grader".
 */
export type Grade = {
  readonly reward: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly log: string;
  /**
   * Merged over the episode's info. `termination_reason`: the environment's own name for the end,
   * where its reference has a list of such names; see `endingOf()`. Viewers show two entries of an
   * episode that did not pass: `expected_actions`, a list of `{name, arguments}`, and
   * `state_difference`, a list of `{record, expected, found}` with strings, `null` where the record
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
 * Source of environments and tasks: one value per domain, shared by all episodes. State is never
 * shared between episodes.
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
   * Models that grade in addition to the environments' `grade`; the run chooses the models.
   * `gradeWeight` is the weight of the environment's own reward, `null` if it has none.
   * @default none
   */
  readonly graders?: { readonly gradeWeight: number | null; readonly use: readonly (Rubric | Ranking)[] };
  /** True for tasks whose grade needs a judge's answer. @default none */
  readonly needsJudge?: (task: Task) => boolean;
  /**
   * True: `open` has its own deadlines, and the loop sets none for it. For sources that delay an
   * opening until they have capacity, which a deadline would mistake for a fault. @default false
   */
  readonly boundsOpening?: boolean;
  taskset(split: string): Taskset;
  /**
   * Opens an environment: synchronously in this process, with a promise elsewhere. An environment
   * that opens after `signal` has aborted is closed when it arrives.
   */
  open(task: Task, options?: OpenOptions): Environment | Promise<Environment>;
}

/** A source whose environments run in this process and open synchronously. */
export interface LocalEnvironmentSource extends EnvironmentSource {
  open(task: Task, options?: OpenOptions): Environment;
}

/** Options of opening an environment. */
export type OpenOptions = EnvironmentCallOptions & {
  /** Seed of the environment's own randomness. Equal for equal episodes of a run. */
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
  /** Prompt of a user simulated by a model; `null` when the task has no such text. */
  readonly instruction: string | null;
  /** Structured goal that the agenda-based user follows; `null` when the task has none. */
  readonly agenda: Agenda | null;
};

/** A seedable source of tasks. `task(i)` is pure: the same index gives the same task, in every process. */
export interface Taskset {
  readonly environment: string;
  readonly split: string;
  readonly size: number;
  /**
   * SHA-256 (hex) of all tasks and their order, for sources that know it without creating the tasks.
   * `run.json` records it, and a run resumes only with the same. @default not known
   */
  readonly hash?: string;
  /** Throws a `RangeError` that names the bounds. */
  task(index: number): Task;
}

/** Access to the world for a simulated user that acts in it. */
export interface UserSide {
  /** System message of a user simulated by a model: its identity, its goal and its behaviour. */
  readonly prompt: string;
  /** Tools of the user; empty for a user that only talks. */
  readonly tools: readonly Tool[];
  /**
   * Messages that the user has seen before its first line, from its own side: the agent is "user"
   * in them.
   */
  readonly history: readonly Message[];
  /**
   * Takes a line: text is recorded, calls are carried out in order. A bad call is a result, not a
   * rejection.
   */
  act(line: UserLine, options?: EnvironmentCallOptions): UserOutcome | Promise<UserOutcome>;
}

/** Consequences of a line of the user. */
export type UserOutcome = {
  /** Results of the user's calls, in order. */
  readonly results: readonly ToolResult[];
  /** True when the line ends the conversation. */
  readonly endsEpisode: boolean;
};
