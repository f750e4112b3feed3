// The contract of environments that run elsewhere, in another process or at an address: one service
// has sessions, and one session is the world of one episode. A protocol implements this and nothing
// more; `remote-source.ts` turns it into an `EnvironmentSource`, and is the only place for
// deadlines, bounds, capacity and the guarantee that a session is closed once.

import type {
  Ending,
  EnvironmentCall,
  EnvironmentSource,
  Grade,
  Task,
  Taskset,
  ToolResult,
} from "../../core/environment.ts";
import { type AttributedError, faultAt } from "../../core/failure.ts";
import type { Tool } from "../../core/message.ts";
import type { JsonObject } from "../../python-semantics/json/value.ts";

/**
 * A service that opens sessions.
 *
 * Guarantees: tasks are known before the first session. `open`, and every method of a session,
 * rejects with a {@link remoteFault} if the service or the connection to it is at fault, and stops
 * waiting when its signal aborts; a refused or failed tool call is a `ToolResult` with `isError`,
 * never a rejection. A rejected opening leaves nothing open. Not promised: well-formed values or
 * bounded sizes beyond those that a protocol checks, timely answers, or a correct `capacity`.
 */
export interface RemoteService {
  /** Name of the environment, as in the ids of its tasks. */
  readonly name: string;
  readonly splits: readonly string[];
  /** Names of the user simulators that can run its tasks, the default one first. */
  readonly users: readonly string[];
  readonly argumentErrors: EnvironmentSource["argumentErrors"];
  /** Same as the field of `EnvironmentSource`. */
  readonly unknownTools: NonNullable<EnvironmentSource["unknownTools"]>;
  /**
   * Maximum number of concurrent sessions; further openings wait. `null` if the service does not
   * say: an opening beyond its limit is refused with "remote-capacity", and then waits as well.
   */
  readonly capacity: number | null;
  /**
   * True if the same calls under the same seed give the same results; a killed episode then resumes
   * by replay.
   */
  readonly isDeterministic: boolean;
  taskset(split: string): Taskset;
  open(task: Task, options: { readonly signal: AbortSignal; readonly seed: number }): Promise<RemoteSession>;
  /**
   * Releases everything that the service keeps in addition to its sessions (a pool of processes, a
   * connection). Idempotent.
   */
  close(): Promise<void>;
}

/** The world of one episode. Calls arrive one at a time; after a rejection only `close` is called. */
export interface RemoteSession {
  readonly guidelines: string;
  /** Tools that the policy is shown from the first turn to the last. */
  readonly tools: readonly Tool[];
  readonly info: JsonObject;
  /** Same as `opening` of an environment: the text with which the world itself begins. @default null */
  readonly opening?: string | null;
  call(call: EnvironmentCall, options: RemoteCallOptions): Promise<ToolResult>;
  /** Receives an utterance of the agent to the user. A service without a use for it resolves. */
  receiveUtterance(utterance: string, options: RemoteCallOptions): Promise<void>;
  grade(ending: Ending, options: RemoteCallOptions): Promise<Grade>;
  /** Called exactly once for every opened session, even during a call. */
  close(): Promise<void>;
}

export type RemoteCallOptions = { readonly signal: AbortSignal };

/**
 * Faults of a remote environment. Each fails its episode, which then has no reward and is not
 * trained: "remote-unreachable" (no connection could be made), "remote-lost" (the connection or the
 * process ended), "remote-timeout" (no answer in time), "remote-capacity" (no further session is
 * accepted), "remote-expired" (the session is not known any more), "remote-invalid" (the answer
 * violates the protocol, or is too large), "remote-error" (the server itself reports a fault),
 * "remote-unrewarded" (the world has never given a reward, so there is none to train on).
 */
export const remoteFaultCodes = [
  "remote-unreachable",
  "remote-lost",
  "remote-timeout",
  "remote-capacity",
  "remote-expired",
  "remote-invalid",
  "remote-error",
  "remote-unrewarded",
] as const;

export type RemoteFaultCode = (typeof remoteFaultCodes)[number];

/** Faults after which another session may succeed; invalid answers and server errors would repeat. */
const retryable: ReadonlySet<RemoteFaultCode> = new Set([
  "remote-unreachable",
  "remote-lost",
  "remote-timeout",
  "remote-capacity",
  "remote-expired",
]);

/** A fault of a remote environment. `message` says which action failed, and the remedy. */
export function remoteFault(
  code: RemoteFaultCode,
  message: string,
  options: { readonly cause?: unknown } = {},
): AttributedError {
  return faultAt("environment", code, message, { retryable: retryable.has(code), ...options });
}

// The reward of worlds that reward each step: the reward that a call reports, and the grade that
// follows from all of them. Not a grader: it judges nothing, because the world has done so.

/**
 * Rule for the reward of an episode. "sum": the sum of the rewards of its steps, the undiscounted
 * return. "last": the reward of the last step that had one, for worlds that report the total score
 * at each step.
 */
export type RewardRule = "sum" | "last";

export const rewardRules: readonly RewardRule[] = ["sum", "last"];

/**
 * Treatment of an episode without any reward. "fault": a fault as long as the world has rewarded no
 * step of any episode, 0 afterwards. "zero": always 0, for worlds that reward only success.
 */
export type UnrewardedRule = "fault" | "zero";

export const unrewardedRules: readonly UnrewardedRule[] = ["fault", "zero"];

/** The reward rules for the sessions of one service, and whether any session was rewarded. */
export class WorldRewards {
  readonly rule: RewardRule;
  readonly unrewarded: UnrewardedRule;
  /** True once a step of any session had a reward. */
  isRewarding = false;

  constructor({
    rule = "sum",
    unrewarded = "fault",
  }: { readonly rule?: RewardRule | undefined; readonly unrewarded?: UnrewardedRule | undefined } = {}) {
    this.rule = rule;
    this.unrewarded = unrewarded;
  }
}

export class StepRewards {
  readonly #world: WorldRewards;
  #sum = 0;
  #last = 0;
  #steps = 0;
  #rewarded = 0;

  constructor(world: WorldRewards) {
    this.#world = world;
  }

  /**
   * Counts a step and returns the reward that its result reports. Under "last" that is `null`,
   * because one step does not earn the total score.
   */
  add(reward: number | null): number | null {
    this.#steps++;
    if (reward === null) return null;
    this.#rewarded++;
    this.#world.isRewarding = true;
    this.#sum += reward;
    this.#last = reward;
    return this.#world.rule === "sum" ? reward : null;
  }

  /**
   * The grade. An episode without any reward earned 0, and the metric `rewarded_steps` shows it.
   * Throws a fault "remote-unrewarded" if the episode had steps but the world has rewarded none so
   * far: a 0 would mean nothing.
   */
  grade(): Grade {
    const { rule, unrewarded, isRewarding } = this.#world;
    if (this.#steps > 0 && this.#rewarded === 0 && !isRewarding && unrewarded === "fault") {
      throw remoteFault(
        "remote-unrewarded",
        `Cannot grade the episode: reward absent in all ${this.#steps} steps, and in every episode before it; let the world reward its steps, or add ?unrewarded=zero to its address if no reward means 0.`,
      );
    }
    return {
      reward: rule === "sum" ? this.#sum : this.#last,
      metrics: { steps: this.#steps, rewarded_steps: this.#rewarded },
      log: "",
      info: new Map(),
    };
  }
}
