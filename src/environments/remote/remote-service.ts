// The contract of environments that run elsewhere, in another process or behind an address: one service holds sessions, one
// session is the world of one episode. A protocol implements this and nothing more; `remote-source.ts` makes an
// `EnvironmentSource` of it, and alone keeps deadlines, bounds, capacity and the promise that a session is closed once.

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
 * Where sessions are opened.
 *
 * Guarantees: tasks are known before the first session. `open`, and every method of a session, rejects with a
 * {@link remoteFault} when the service, or the way to it, is at fault, and stops waiting when its signal aborts; a refused or
 * failed tool call is a `ToolResult` with `isError`, never a rejection. An opening that rejects has left nothing open.
 * Not promised: that anything is well-formed or of bounded size beyond what a protocol reads, that calls come back in time,
 * that `capacity` is right.
 */
export interface RemoteService {
  /** Of the environment, as in the ids of its tasks. */
  readonly name: string;
  readonly splits: readonly string[];
  /** Names of the user simulators that can run its tasks, the usual one first. */
  readonly users: readonly string[];
  readonly argumentErrors: EnvironmentSource["argumentErrors"];
  /** The same field of an environment's source. */
  readonly unknownTools: NonNullable<EnvironmentSource["unknownTools"]>;
  /**
   * Sessions that it holds at a time; more openings wait. `null`: it does not say, and one beyond it is refused with
   * "remote-capacity", which waits, too.
   */
  readonly capacity: number | null;
  /** Whether the same calls under the same seed give the same results: a killed episode then resumes by replay. */
  readonly isDeterministic: boolean;
  taskset(split: string): Taskset;
  open(task: Task, options: { readonly signal: AbortSignal; readonly seed: number }): Promise<RemoteSession>;
  /** Ends what the service keeps beside its sessions (a pool of processes, a connection). Idempotent. */
  close(): Promise<void>;
}

/** The world of one episode. Calls arrive one at a time; nothing is called after a rejection except `close`. */
export interface RemoteSession {
  readonly guidelines: string;
  /** Shown to the policy from the first turn to the last. */
  readonly tools: readonly Tool[];
  readonly info: JsonObject;
  /** As of an environment: the text that the world itself begins with. @default null */
  readonly opening?: string | null;
  call(call: EnvironmentCall, options: RemoteCallOptions): Promise<ToolResult>;
  /** What the agent said to the user. A service that has no use for it resolves. */
  hear(utterance: string, options: RemoteCallOptions): Promise<void>;
  grade(ending: Ending, options: RemoteCallOptions): Promise<Grade>;
  /** Called exactly once for every session that was opened, also in the middle of a call. */
  close(): Promise<void>;
}

export type RemoteCallOptions = { readonly signal: AbortSignal };

/**
 * What a remote environment may be at fault with. Each fails its episode, which then has no reward and is not trained:
 * "remote-unreachable" (no connection came about), "remote-lost" (the connection or the process ended), "remote-timeout"
 * (no answer in time), "remote-capacity" (it takes no further session), "remote-expired" (it does not know the session any
 * more), "remote-invalid" (what came back is not what the protocol says, or too large), "remote-error" (it says itself that it is
 * at fault), "remote-unrewarded" (it has never given a reward, so there is none to train on).
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

/** Another session may well succeed; what is invalid or at fault once is so again. */
const retryable: ReadonlySet<RemoteFaultCode> = new Set([
  "remote-unreachable",
  "remote-lost",
  "remote-timeout",
  "remote-capacity",
  "remote-expired",
]);

/** A fault of a remote environment. `message` says what cannot be done, and the remedy. */
export function remoteFault(
  code: RemoteFaultCode,
  message: string,
  options: { readonly cause?: unknown } = {},
): AttributedError {
  return faultAt("environment", code, message, { retryable: retryable.has(code), ...options });
}

// The reward of worlds that reward each step: what a call reports, and the grade that follows from it. Not a grader: nothing is
// judged here, the world has done so.

/**
 * What the reward of an episode is. "sum": of the rewards of its steps, the undiscounted return. "last": that of the last step that had
 * one, for worlds that repeat a score so far with each step.
 */
export type RewardRule = "sum" | "last";

export const rewardRules: readonly RewardRule[] = ["sum", "last"];

/**
 * What an episode without any reward comes to: "fault" while the world has rewarded no step of any episode, 0 from then on; "zero" says
 * that the world rewards nothing but success.
 */
export type UnrewardedRule = "fault" | "zero";

export const unrewardedRules: readonly UnrewardedRule[] = ["fault", "zero"];

/** How the sessions of one service are rewarded, and whether any of them was. */
export class WorldRewards {
  readonly rule: RewardRule;
  readonly unrewarded: UnrewardedRule;
  /** Whether a step of any session had a reward. */
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

  /** Counts a step; what its result reports as reward. Under "last" nothing: a score so far is not earned by one step. */
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
   * An episode without any reward has earned nothing: 0, with the metric `rewarded_steps` saying so. Throws a fault
   * "remote-unrewarded" for one with steps of a world that has rewarded none so far: its 0 would mean nothing.
   */
  grade(): Grade {
    const { rule, unrewarded, isRewarding } = this.#world;
    if (this.#steps > 0 && this.#rewarded === 0 && !isRewarding && unrewarded === "fault") {
      throw remoteFault(
        "remote-unrewarded",
        `Cannot grade the episode: reward absent in all ${this.#steps} steps, and in every episode before it; make the world reward its steps, or write ?unrewarded=zero behind its address where no reward means 0.`,
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
