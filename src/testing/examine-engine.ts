// The contract of engines put to a server with a real model: what `trainable-agents doctor engine` and `npm run verify` run.
// Nothing here knows a protocol: whoever calls brings engines in front of the server.

import { setTimeout as delay } from "node:timers/promises";
import type { Engine, EngineControl, EngineLoadSource } from "../core/engine.ts";
import { EndedEarly, engineConformance, type LiveModel } from "./engine-conformance.ts";

export type EngineExamination = {
  /** Called for each check; the engine is closed after it. */
  readonly open: () => Engine & EngineControl & EngineLoadSource;
  /** Tokens of prompt and reply together, as the server has it; `null`: not known, and then it is not exceeded. */
  readonly contextTokens: number | null;
  /** Why the server must not be paused; `null` when nobody else uses it. */
  readonly unpausable: string | null;
  /** Default: all. */
  readonly pauseModes?: LiveModel["pauseModes"];
  /** How long a short call takes, in milliseconds. Default 3,000. */
  readonly settleMs?: number;
  /** Once it is aborted, no further check begins. */
  readonly signal?: AbortSignal;
  readonly onOutcome?: (outcome: CheckOutcome) => void;
};

export type CheckOutcome = {
  readonly name: string;
  readonly result: "ok" | "failed" | "not applicable";
  /** Why it failed or does not apply; `null` when it is ok. */
  readonly reason: string | null;
};

/** Ids that every vocabulary has. */
const promptIds = [1, 2, 3];
/** Of a call that goes on until it is ended, where the context allows: seconds on a fast server. */
const endlessTokens = 8_000;

/**
 * Runs the checks that apply to a model that says what it likes, one after the other, and resolves with one outcome for each
 * check of the contract. Never rejects; how long a call may take is the engine's own affair.
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

/** A fast server may be done with a call before anything can be done to it. */
async function tried(run: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof EndedEarly) || attempt === 3) throw error;
    }
  }
}

/** Until the server says that so many calls run; where it does not say, until they may be expected to. */
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

/** An assertion's message goes on with the values in many lines. */
function summaryOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(0, 8)
    .join(" ")
    .slice(0, 500);
}
