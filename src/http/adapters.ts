// Parts of the engines of servers that only calls with a LoRA adapter need: spans that name it, and
// the comparison of its answers with the base's.

import { randomUUID } from "node:crypto";
import { defaultSampling, type SampleRequest, type SampleResult } from "../core/engine.ts";
import { TokenBuffer } from "../core/token-buffer.ts";
import { engineFailure, type FailureContext } from "./engine-failure.ts";
import { answerDistance } from "./reply.ts";

/**
 * The result with the adapter as the version of all its tokens: a base does not change under an
 * adapter. Throws an `AttributedError` if the base's weights changed during the call, because the
 * adapter's name would then stand for two different policies.
 */
export function underAdapter(adapter: string, result: SampleResult, context: FailureContext): SampleResult {
  const { weightSpans, sampledTokens } = result;
  const bases = new Set(weightSpans.flatMap(({ dispatch, reply }) => [dispatch ?? reply, reply ?? dispatch]));
  bases.delete(null);
  if (bases.size > 1) {
    throw engineFailure(context, {
      code: "server-error",
      retryable: true,
      state: `the weights of the base changed during a call with adapter ${JSON.stringify(adapter)} (${[...bases].join(", ")})`,
      remedy: "load new weights as a new adapter, or update the base while no calls run",
    });
  }
  return { ...result, weightSpans: [{ tokenCount: sampledTokens.length, dispatch: adapter, reply: adapter }] };
}

/** Ids that every vocabulary contains. */
const promptIds = Uint32Array.of(1, 2, 3, 4, 5, 6, 7, 8);
const probedTokens = 8;
/** A difference must be this many times larger than that of two equal calls, whose caches differ. */
const leastRatio = 2;

/**
 * Rejects with an `AttributedError` if the answer with the adapter is the base's own. Two calls to
 * the base show by how much equal calls differ.
 */
export async function compareWithBase(
  name: string,
  sample: (request: SampleRequest) => Promise<SampleResult>,
  context: FailureContext,
): Promise<void> {
  const base = await sample(probeOf(null));
  const named = await sample(probeOf(name));
  const again = await sample(probeOf(null));
  const difference = answerDistance(base, named);
  const noise = answerDistance(base, again);
  // A server whose equal calls differ in their tokens shows nothing.
  if (noise === Infinity || difference > leastRatio * noise) return;
  throw engineFailure(context, {
    code: "bad-request",
    retryable: false,
    state:
      "its answer has the same tokens and logprobs as the base's, so the server ignores the name, or the adapter " +
      "changes nothing (as one that was never trained)",
    remedy:
      "start the server with LoRA enabled and load the adapter there; begin with the base while an adapter is untrained",
  });
}

function probeOf(adapter: string | null): SampleRequest {
  return {
    prompt: TokenBuffer.from(promptIds),
    sampling: {
      ...defaultSampling,
      temperature: 0,
      maxNewTokens: probedTokens,
      extra: { ignore_eos: true },
      adapter,
    },
    stopTokenIds: [],
    requestId: `adapter-${randomUUID()}`,
    routingKey: null,
  };
}
