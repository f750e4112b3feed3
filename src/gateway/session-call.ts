// A call of a session as data: the answer for its client, and the request that is sampled.

import type { Constraint } from "../core/constraint.ts";
import type { Engine, SamplingParams } from "../core/engine.ts";
import type { EpisodeEvent } from "../core/episode.ts";
import type { Renderer } from "../core/renderer.ts";
import type { Clock } from "../lib/clock.ts";
import type { ClientAgent } from "./client-agents.ts";
import type { SampledTurn } from "./history.ts";
import type { Prompt, PromptCounters } from "./record.ts";
import type { DialectName, GatewayAnswer, GatewayRequest } from "./request.ts";
import type { Deltas } from "./streaming.ts";
import type { UnusedCounters } from "./unused-fields.ts";

export type SessionParts = {
  readonly engine: Engine;
  readonly renderer: Renderer;
  /** Records an event. Resolves once the event has left the process. */
  readonly record: (event: EpisodeEvent) => Promise<void>;
  readonly clock: Clock;
};

/** Counts of prompts by how they were built, and of client settings that were not followed. */
export type SessionCounters = Readonly<PromptCounters> &
  UnusedCounters & {
    readonly calls: number;
    /**
     * Number of calls that were answered from the record, because their client had not received the
     * answer.
     */
    readonly replayed: number;
  };

/** A call whose prompt is rendered. */
export type SessionCall = {
  readonly head: Pick<GatewayAnswer, "call" | "idPrefix" | "createdAt">;
  readonly promptTokens: number;
  /** Parts of the answer that are known before its end. */
  readonly deltas: Deltas;
  /** Resolves once the turn is recorded. Rejects with a `GatewayError`. */
  readonly answer: Promise<GatewayAnswer>;
  /** Call it once the whole answer has been sent. */
  readonly delivered: () => void;
  /** Call it if the client leaves before that: the next equal request gets this answer. */
  readonly left: () => void;
};

export type CallAnswer = Omit<SessionCall, "delivered" | "left">;

/** A request whose answer is being sampled. */
export type RunningCall = {
  readonly request: GatewayRequest;
  readonly number: number;
  readonly dialect: DialectName;
  readonly digest: string;
  readonly client: ClientAgent | null;
  readonly prompt: Prompt;
  readonly sampling: SamplingParams;
  /** Constraint on the text; `null` for none. */
  readonly constraint: Constraint | null;
  /** Strings at which the answer ends. */
  readonly stop: readonly string[];
  /** Names of sampling parameters and constraints that are not used. */
  readonly unused: readonly string[];
  readonly deltas: Deltas;
};

/** The answer of a sampled turn. */
export function answerOf(
  { call, action, turn, length }: SampledTurn,
  { idPrefix, cachedTokens }: { readonly idPrefix: string; readonly cachedTokens: number | null },
): GatewayAnswer {
  const count = turn.sampledTokens.length;
  return {
    call,
    idPrefix,
    action,
    finish: turn.finish,
    createdAt: seconds(),
    sampledTokens: turn.sampledTokens,
    logprobs: turn.logprobs,
    weightSpans: turn.weightSpans,
    usage: { promptTokens: length - count, cachedTokens, sampledTokens: count },
  };
}

/** The time now, in seconds since 1970. */
export const seconds = (): number => Math.floor(Date.now() / 1000);
