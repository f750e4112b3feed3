// The contract of engines on a GGUF file in this process: auditEngine() without a server.

import { resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { createLlamaCppEngine } from "../engines/llama-cpp/index.ts";
import { type CheckOutcome, engineConformance } from "../testing/index.ts";

type GgufAudit = {
  readonly gguf: string;
  readonly cwd: string;
  /** `null`: what the file says, at most 8,192. */
  readonly contextTokens: number | null;
  readonly onContext: (contextTokens: number) => void;
  readonly onOutcome: (outcome: CheckOutcome) => void;
  readonly signal: AbortSignal | undefined;
};

/** Milliseconds in which a call has begun. */
const settleMs = 300;

/**
 * Runs the checks that apply to an engine in this process, each on a model that is loaded for it.
 * Rejects with a `ConfigurationError` if the file cannot be loaded.
 */
export async function auditGguf({ gguf, cwd, contextTokens, onContext, onOutcome, signal }: GgufAudit): Promise<void> {
  const options = { modelPath: resolve(cwd, gguf), sequences: 4, contextTokens: contextTokens ?? 2048 };
  const first = await createLlamaCppEngine(options);
  const promptIds = [1, 2, 3].filter((id) => id < first.limits.vocabularySize);
  const context = first.limits.contextLength;
  onContext(context);
  await first.close();
  const checks = engineConformance({
    unscripted: "a model says what it says",
    live: {
      endless: { maxNewTokens: Math.max(8, context - 64), extra: {} },
      contextTokens: context,
      unpausable: "weights are never changed",
      pauseModes: [],
      settle: () => delay(settleMs),
    },
    uncontrolled: "weights are never changed",
    unscored: null,
    impossible: {},
    promptIds,
    streams: true,
    open: async () => ({
      engine: await createLlamaCppEngine(options),
      control: null,
      begun: () => delay(settleMs),
      close: async () => {},
    }),
  });
  for (const { name, skip, run } of checks) {
    if (signal?.aborted === true) return;
    const failure = skip === null ? await run().then(() => null, shortReason) : null;
    const result = skip !== null ? "not applicable" : failure === null ? "ok" : "failed";
    onOutcome({ name, result, reason: skip ?? failure });
  }
}

function shortReason(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 500);
}
