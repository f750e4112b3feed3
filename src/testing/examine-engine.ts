// The contract of engines on a server with a real model, for `trainable-agents doctor engine` and
// `npm run verify`. Nothing here depends on a protocol: the caller brings engines connected to the
// server. It also has a sampler for the suite on fake servers.

import { setTimeout as delay } from "node:timers/promises";

import type { Engine, EngineControl, EngineLoadSource, EngineFailureCode } from "../core/engine.ts";
import { AttributedError } from "../core/failure.ts";
import type { Scorer } from "../core/scoring.ts";
import { EndedEarly, engineConformance, type LiveModel, type EngineBehaviour } from "./engine-conformance.ts";
import {
  SamplerRefusal,
  type Sampler,
  type SamplerOutput,
  createFunctionSampler,
  type SampledAnswer,
  RawText,
  WireFaultError,
} from "./front/sampler.ts";

export type EngineExamination = {
  /** Opens an engine for each check; it is closed after the check. */
  readonly open: () => Engine & EngineControl & EngineLoadSource;
  /**
   * Tokens of prompt and reply together that the server allows; `null` if unknown, and then the
   * limit is not tested.
   */
  readonly contextTokens: number | null;
  /** Reason why the server must not be paused; `null` when it has no other users. */
  readonly unpausable: string | null;
  /** Pause modes to check. Default: all. */
  readonly pauseModes?: LiveModel["pauseModes"];
  /** Duration of a short call, in milliseconds. Default 3,000. */
  readonly settleMs?: number;
  /** Once it aborts, no further check begins. */
  readonly signal?: AbortSignal;
  readonly onOutcome?: (outcome: CheckOutcome) => void;
};

export type CheckOutcome = {
  readonly name: string;
  readonly result: "ok" | "failed" | "not applicable";
  /** Reason why it failed or does not apply; `null` when it is ok. */
  readonly reason: string | null;
};

/** Ids that every vocabulary contains. */
const promptIds = [1, 2, 3];
/**
 * Tokens of a call that continues until it is ended, if the context allows: seconds on a fast
 * server.
 */
const endlessTokens = 8_000;

/**
 * Runs the checks that apply to a model with arbitrary answers, one after the other, and resolves
 * with one outcome for each check of the contract. Never rejects; deadlines of calls are the
 * engine's own.
 *
 * @example
 * const outcomes = await examineEngine({
 *   open: () => createSglangEngine({ url: "http://127.0.0.1:30000" }),
 *   contextTokens: 2048,
 *   unpausable: "others use it",
 * });
 */
export async function examineEngine(options: EngineExamination): Promise<readonly CheckOutcome[]> {
  const { contextTokens, unpausable, settleMs = 3_000, pauseModes = ["abort", "retract", "in-place"] } = options;
  const room = contextTokens === null ? endlessTokens : contextTokens - promptIds.length - 16;
  const checks = engineConformance({
    unscripted: "a model says what it says",
    live: {
      endless: { maxNewTokens: Math.max(8, Math.min(endlessTokens, room)), extra: { ignore_eos: true } },
      contextTokens,
      unpausable,
      pauseModes,
      settle: () => delay(settleMs),
    },
    uncontrolled: null,
    unscored: await unscoredReason(options.open()),
    impossible: {},
    promptIds,
    open: async () => {
      const engine = options.open();
      return {
        engine,
        control: engine,
        begun: (calls) => untilRunning(engine, { calls, settleMs }),
        close: async () => {},
      };
    },
  });
  const outcomes: CheckOutcome[] = [];
  for (const { name, skip, run } of checks) {
    if (options.signal?.aborted === true) break;
    const [result, reason] =
      skip === null
        ? await tried(run).then(
            () => ["ok", null] as const,
            (error: unknown) => ["failed", summaryOf(error)] as const,
          )
        : (["not applicable", skip] as const);
    outcomes.push({ name, result, reason });
    options.onOutcome?.({ name, result, reason });
  }
  return outcomes;
}

/** Reason why a server does not score: it refuses to. A server that fails in another way is checked. */
async function unscoredReason(engine: Engine & Partial<Scorer>): Promise<string | null> {
  try {
    if (engine.score === undefined) return "the engine does not score";
    const tokens = Uint32Array.from(promptIds);
    await engine.score({ tokens, from: 1, topTokens: 0, requestId: "conformance-scores", routingKey: null });
    return null;
  } catch (error) {
    const isRefusal = error instanceof AttributedError && error.failure.code === "bad-request";
    return isRefusal ? `the server does not score: ${error.failure.message}`.slice(0, 300) : null;
  } finally {
    await engine.close();
  }
}

/** Repeats a check, because a fast server may finish a call before anything can be done to it. */
async function tried(run: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof EndedEarly) || attempt === 3) throw error;
    }
  }
}

/**
 * Waits until the server reports that many running calls; if it reports no load, waits for a fixed
 * time.
 */
async function untilRunning(
  engine: EngineLoadSource,
  { calls, settleMs }: { readonly calls: number; readonly settleMs: number },
): Promise<void> {
  const deadline = performance.now() + settleMs;
  while (performance.now() < deadline) {
    const load = await engine.load().catch(() => null);
    if (load === null) return delay(settleMs / 10);
    if (load.running >= calls) return;
    await delay(20);
  }
}

/** Joins the first lines of a message; that of an assertion continues with the values in many lines. */
function summaryOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(0, 8)
    .join(" ")
    .slice(0, 500);
}

export type BehaviourSampler = {
  readonly sampler: Sampler;
  /** Resolves when this many calls have begun. */
  readonly begun: (calls: number) => Promise<void>;
};

export type BehaviourSamplerOptions = {
  /** Called when the weights of a reply are "loaded", for protocols whose replies do not name them. */
  readonly onWeights?: (weightVersion: string) => void;
};

/**
 * A sampler that gives the behaviours of the conformance suite to its calls, in order; further
 * calls get two tokens.
 */
export function createBehaviourSampler(
  behaviours: readonly EngineBehaviour[],
  options: BehaviourSamplerOptions = {},
): BehaviourSampler {
  let calls = 0;
  const waiting: { readonly calls: number; readonly wake: () => void }[] = [];
  const sampler = createFunctionSampler((_request, { signal }) => {
    const behaviour = behaviours[calls++];
    for (const { calls: expected, wake } of waiting) if (calls >= expected) wake();
    return behaviour === undefined ? { ids: [4, 9] } : perform(behaviour, { ...options, signal });
  });
  const begun = (expected: number): Promise<void> =>
    new Promise((resolve) => {
      if (calls >= expected) resolve();
      else waiting.push({ calls: expected, wake: resolve });
    });
  return { sampler, begun };
}

const output: SamplerOutput = { ids: [9], logprobs: [-1], finish: "end", cachedTokens: 0, weightVersion: null };

/**
 * Errors that a sampler throws so that its front answers with a failure; failures that no answer
 * causes are missing.
 */
const failures: Readonly<Partial<Record<EngineFailureCode, () => Error>>> = {
  "context-length": () => new SamplerRefusal(400, "This is more than the context length."),
  "bad-request": () => new SamplerRefusal(400, "on purpose"),
  overloaded: () => new SamplerRefusal(503, "on purpose"),
  "server-error": () => answered(500),
  unauthorized: () => answered(401),
  timeout: () => answered(504),
  "connection-lost": () => new WireFaultError({ type: "drop", output, share: 0.5 }),
  "bad-reply": () => new WireFaultError({ type: "edit", output, edit: () => new RawText("<html>") }),
};

function answered(status: number): WireFaultError {
  return new WireFaultError({ type: "answer", status, headers: {}, text: "on purpose" });
}

function perform(
  behaviour: EngineBehaviour,
  options: BehaviourSamplerOptions & { readonly signal: AbortSignal },
): SampledAnswer | Promise<SampledAnswer> {
  const { signal, onWeights } = options;
  switch (behaviour.type) {
    case "reply":
      onWeights?.(behaviour.weightVersion);
      return { ids: behaviour.tokens, weightVersion: behaviour.weightVersion };
    case "abort":
      return { ids: behaviour.tokens, finish: "abort" };
    case "failure":
      throw failures[behaviour.code]?.() ?? new Error(`Code "${behaviour.code}" is not an answer of a server.`);
    case "hang":
      return new Promise((resolve) => {
        signal.addEventListener("abort", () => resolve({ ids: [], finish: "abort" }), { once: true });
      });
    default:
      return behaviour satisfies never;
  }
}
