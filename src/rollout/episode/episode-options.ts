// The parts and options of one episode: frozen values given to one loop. Implementations are chosen by the caller; this module
// imports none.

import type { AgentStrategy } from "../../core/agent.ts";
import { type Engine, defaultSampling, type SampleResult, type SamplingParams } from "../../core/engine.ts";
import type { EnvironmentSource } from "../../core/environment.ts";
import type { EpisodeEvent } from "../../core/episode.ts";
import type { Failure } from "../../core/failure.ts";
import type { Grading } from "../../core/grading.ts";
import type { Renderer } from "../../core/renderer.ts";
import type { RoutedExperts } from "../../core/turn.ts";
import type { UserSource } from "../../core/user.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { requireWhole, type RetryPolicy } from "../../lib/limits.ts";
import type { SamplingMaskSink } from "./kept-ids.ts";

/** The implementations of an episode. All are shared by concurrent episodes. */
export type EpisodeParts = {
  readonly environment: EnvironmentSource;
  readonly user: UserSource;
  readonly engine: Engine;
  readonly renderer: Renderer;
  readonly strategy: AgentStrategy;
  /**
   * Models that grade beside the environment. Rankings belong to the scheduler: see `groupRanking`.
   * Default: only the environment grades.
   */
  readonly grading?: Grading | undefined;
};

/** Limits of an episode. Every ending by a limit is "truncated" and graded. */
export type EpisodeLimits = {
  /** Engine calls of an episode, at least 1. */
  readonly maxTurns: number;
  /** Sampled tokens of an episode; `null`: not bounded. */
  readonly maxSampledTokens: number | null;
  /**
   * The context of the served model, in tokens. When set, a call requests no more new tokens than
   * fit, and an episode with a full context stops with "context_length" before the server has to
   * refuse; `null`: left to the server.
   */
  readonly maxContextTokens: number | null;
};

/**
 * Deadlines of the steps of an episode, in milliseconds; a step that exceeds its deadline fails
 * with code "timeout". `Infinity`: no bound.
 */
export type PhaseTimeouts = {
  /**
   * Opening the environment, which may start a process or a container. An environment that opens
   * later is closed at once.
   */
  readonly openMs: number;
  /** One tool call. A call that blocks the event loop cannot be stopped. */
  readonly environmentMs: number;
  /** One line of the user, including all attempts of its model. */
  readonly userMs: number;
  readonly graderMs: number;
  /**
   * Closing the environment. When it is exceeded, the episode ends without waiting, with the same
   * outcome.
   */
  readonly closeMs: number;
};

/** Reaction of a turn when the server aborts its call, as servers do to load new weights. */
export type EngineAbortPolicy = {
  /**
   * "continue": the turn continues from its partial tokens under the weights that the server has by
   * then; its weight spans record which weights sampled which tokens. "restart": the partial tokens
   * are dropped with reason "discarded-turn" and the turn is sampled again. "end": the episode ends
   * as aborted, and nothing of it is trained.
   */
  readonly onAbort: "continue" | "restart" | "end";
  /** Maximum number of aborts of one turn; a further one ends the episode as aborted. At least 0. */
  readonly maxAborts: number;
  /**
   * Time that an aborted turn waits for a server that does not take requests (paused, loading
   * weights, starting), in milliseconds; after that the episode fails with code "timeout".
   */
  readonly maxPauseMs: number;
};

/** Generous, because long turns span many weight updates, and loading large weights takes minutes. */
export const defaultEngineAbort: EngineAbortPolicy = Object.freeze({
  onAbort: "continue",
  maxAborts: 32,
  maxPauseMs: 900_000,
});

export type EpisodeOptions = {
  /** Default: `<task id>#<sample index>`. Unique within a run. */
  readonly episodeId?: string;
  /** Default: the task id. */
  readonly groupId?: string;
  /** Place in the group. Default: 0. */
  readonly sampleIndex?: number;
  /** Seed of all randomness of the episode. Default: 0. */
  readonly seed?: number;
  /** Overrides {@link defaultSampling}. */
  readonly sampling?: Partial<SamplingParams>;
  /** Gives every turn a sampling seed derived from the episode's. Default: false; servers without deterministic sampling ignore or refuse one. */
  readonly seedTurns?: boolean;
  /** Override {@link defaultLimits}. */
  readonly limits?: Partial<EpisodeLimits>;
  /** Retries of engine calls. Default: {@link defaultEngineRetry}. */
  readonly retry?: RetryPolicy;
  /**
   * Deadline of one engine call, in milliseconds; exceeding it is a retryable fault. Default:
   * 600,000.
   */
  readonly turnTimeoutMs?: number;
  /** Deadlines of every step except engine calls. Override {@link defaultTimeouts}. */
  readonly timeouts?: Partial<PhaseTimeouts>;
  /**
   * Maximum characters of a tool result that the policy reads; of a longer one it reads the
   * beginning, with a note that says so. Default: 100,000.
   */
  readonly maxResultCharacters?: number;
  /** Reaction to aborts of engine calls by the server. Overrides {@link defaultEngineAbort}. */
  readonly engineAbort?: Partial<EngineAbortPolicy>;
  /** Cancels the episode: outcome "aborted". */
  readonly signal?: AbortSignal;
  /**
   * The events of this episode from processes that died or were stopped. The same loop replays
   * them: recorded turns replace the engine and recorded lines the user, calls are made in the
   * environment again, and computed values must equal the recorded ones; a difference is a failure
   * with code "replay-diverged". Then the episode continues live. `onEvent` gets only new events.
   * Default: none, the episode begins.
   */
  readonly resumeFrom?: readonly EpisodeEvent[];
  /**
   * Part of the ids of this episode's engine calls, and of nothing else: no seed derives from it. A
   * server refuses an id that it is still executing, such as that of the last call of a process
   * that died, so each process has its own tag. Default: none.
   */
  readonly requestTag?: string;
  /**
   * Failure known before the episode begins: it ends with this failure, and its environment is not
   * opened. @default null
   */
  readonly failure?: Failure | null;
  /**
   * Receives every event before it counts; the episode waits for it. An error that it throws is a
   * failure at boundary "store".
   */
  readonly onEvent?: (event: EpisodeEvent) => void | Promise<void>;
  readonly clock?: Clock;
  /**
   * Requests the experts that a mixture-of-experts model chooses, and hands them to this hook:
   * `keepExperts(sink)` writes them to a file. A turn whose reply has none fails the episode at
   * boundary "engine". @default null
   */
  readonly routedExperts?: ExpertsHook | null;
  /**
   * Requests the ids that top-k, top-p and min-p keep at each sampled token, and writes them to this
   * sink. A turn whose reply has none fails the episode at boundary "engine". @default null
   */
  readonly samplingMasks?: SamplingMaskSink | null;
};

/**
 * Called at the beginning of each turn. `start`: first token whose experts are not known yet.
 * `turn`: its name in messages.
 */
export type ExpertsHook = (turn: { readonly start: number; readonly turn: string }) => TurnExperts;

/** Takes the experts of one turn. Single use. */
export interface TurnExperts {
  /** First token to request experts for. */
  readonly from: number;
  /**
   * Takes the experts of a call. Throws an `AttributedError` at boundary "engine" when they are
   * missing, or do not match the tokens in number.
   */
  take(result: SampleResult, promptLength: number): void;
  /** Called when the turn is read. Resolves with their place, for the record. */
  keep(): Promise<RoutedExperts>;
}

export const defaultLimits: EpisodeLimits = Object.freeze({
  maxTurns: 30,
  maxSampledTokens: null,
  maxContextTokens: null,
});

/** Far above normal durations: a user's model may queue for minutes while it serves other episodes. */
export const defaultTimeouts: PhaseTimeouts = Object.freeze({
  openMs: 300_000,
  environmentMs: 60_000,
  userMs: 900_000,
  graderMs: 120_000,
  closeMs: 30_000,
});

/**
 * A server that restarts with new weights is back within minutes; longer faults are not worth
 * waiting for.
 */
export const defaultEngineRetry: RetryPolicy = Object.freeze({
  maxAttempts: 12,
  maxElapsedMs: 300_000,
  baseDelayMs: 250,
  maxDelayMs: 20_000,
});

export type ResolvedOptions = Required<
  Omit<EpisodeOptions, "signal" | "onEvent" | "sampling" | "limits" | "engineAbort" | "timeouts">
> & {
  readonly sampling: SamplingParams;
  readonly limits: EpisodeLimits;
  readonly engineAbort: EngineAbortPolicy;
  readonly timeouts: PhaseTimeouts;
  readonly signal: AbortSignal | null;
  readonly onEvent: ((event: EpisodeEvent) => void | Promise<void>) | null;
};

/** Fills in the defaults and validates, before any side effect. Throws a `RangeError` that names the option and its value. */
export function resolveOptions(taskId: string, options: EpisodeOptions): ResolvedOptions {
  const sampleIndex = options.sampleIndex ?? 0;
  const resolved: ResolvedOptions = {
    episodeId: options.episodeId ?? `${taskId}#${sampleIndex}`,
    groupId: options.groupId ?? taskId,
    sampleIndex,
    seed: options.seed ?? 0,
    sampling: { ...defaultSampling, ...options.sampling },
    seedTurns: options.seedTurns ?? false,
    limits: { ...defaultLimits, ...options.limits },
    retry: options.retry ?? defaultEngineRetry,
    turnTimeoutMs: options.turnTimeoutMs ?? 600_000,
    timeouts: { ...defaultTimeouts, ...options.timeouts },
    maxResultCharacters: options.maxResultCharacters ?? 100_000,
    engineAbort: { ...defaultEngineAbort, ...options.engineAbort },
    signal: options.signal ?? null,
    resumeFrom: options.resumeFrom ?? [],
    requestTag: options.requestTag ?? "",
    failure: options.failure ?? null,
    onEvent: options.onEvent ?? null,
    clock: options.clock ?? systemClock,
    routedExperts: options.routedExperts ?? null,
    samplingMasks: options.samplingMasks ?? null,
  };
  const { limits, engineAbort, turnTimeoutMs, timeouts } = resolved;
  requireWhole("run an episode", "limits.maxTurns", limits.maxTurns);
  requireWhole("run an episode", "maxResultCharacters", resolved.maxResultCharacters);
  requireWhole("run an episode", "limits.maxSampledTokens", limits.maxSampledTokens ?? 1);
  requireWhole("run an episode", "limits.maxContextTokens", limits.maxContextTokens ?? 1);
  requireWhole("run an episode", "engineAbort.maxAborts", engineAbort.maxAborts, 0);
  if (!["continue", "restart", "end"].includes(engineAbort.onAbort)) {
    refuse("engineAbort.onAbort", engineAbort.onAbort, "continue, restart or end");
  }
  if (!(engineAbort.maxPauseMs >= 0)) refuse("engineAbort.maxPauseMs", engineAbort.maxPauseMs, "at least 0");
  const durations = Object.entries(timeouts).map(([name, ms]) => [`timeouts.${name}`, ms] as const);
  for (const [name, ms] of [["turnTimeoutMs", turnTimeoutMs] as const, ...durations]) {
    if (!(ms > 0)) refuse(name, ms, "more than 0");
  }
  return resolved;
}

function refuse(name: string, value: unknown, expected: string): never {
  throw new RangeError(`Cannot run an episode: ${name} is ${String(value)}, expected ${expected}.`);
}
