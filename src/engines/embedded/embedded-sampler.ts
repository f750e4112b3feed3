// The embedded engine as something to put behind the SGLang protocol front. Fits the front's sampler by shape: adapters
// import nothing of `testing/`.

import { readCheckpoint } from "../../learner/model/index.ts";
import { CallFault } from "./engine-thread.ts";
import type { EngineThreads } from "./engine-threads.ts";
import type { GenerationParams } from "../../sampling/index.ts";

/** As the front has it: checked, with defaults filled in. */
export type EmbeddedSamplerParams = Omit<GenerationParams, "stopTokenIds" | "logitBias" | "seed"> & {
  readonly stopTokenIds: ReadonlySet<number>;
  readonly logitBias: ReadonlyMap<number, number>;
  /** `null`: the engine's own randomness. */
  readonly seed: number | null;
};

export type EmbeddedSamplerRequest = {
  readonly promptIds: Uint32Array;
  readonly params: EmbeddedSamplerParams;
  readonly routingKey: string | null;
};

export type EmbeddedSamplerOptions = {
  readonly signal: AbortSignal;
  readonly onTokens: (ids: ArrayLike<number>, logprobs: ArrayLike<number>) => "continue" | "stop";
};

export type EmbeddedSamplerOutput = {
  readonly ids: Uint32Array;
  readonly logprobs: Float32Array;
  readonly finish: "end" | "abort";
  readonly cachedTokens: number;
  readonly weightVersion: string | null;
};

export interface EmbeddedSampler {
  sample(request: EmbeddedSamplerRequest, options: EmbeddedSamplerOptions): Promise<EmbeddedSamplerOutput>;
  /** Loads the weights of a model folder of the same shape; their version is then for the front to say. */
  updateWeights(modelPath: string): Promise<void>;
  flushCache(): Promise<void>;
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/** What a front answers with this status and message; by shape, as all of this file. */
function refusal(status: number, message: string): Error {
  return Object.assign(new Error(message), { name: "SamplerRefusal", status });
}

export function createEmbeddedSampler(
  threads: EngineThreads,
  options: { readonly freshSeed: () => number; readonly parameterCount: number },
): EmbeddedSampler {
  const { freshSeed, parameterCount } = options;
  return {
    sample: async ({ promptIds, params, routingKey }, { signal, onTokens }) => {
      const thread = threads.pick(routingKey);
      const generation: GenerationParams = {
        ...params,
        stopTokenIds: [...params.stopTokenIds],
        logitBias: [...params.logitBias],
        seed: params.seed ?? freshSeed(),
      };
      let isStopped = false;
      const { call, finished } = thread.generate(promptIds.slice(), generation, (ids, logprobs) => {
        if (isStopped || onTokens(ids, logprobs) === "continue") return;
        isStopped = true;
        thread.abort(call);
      });
      const onAbort = (): void => thread.abort(call);
      signal.addEventListener("abort", onAbort, { once: true });
      if (signal.aborted) onAbort();
      try {
        const { ids, logprobs, reason, versions, cachedTokens } = await finished;
        const finish = reason === "abort" && !isStopped ? "abort" : "end";
        const weightVersion = versions.at(-1)?.version ?? threads.weightVersion;
        return { ids, logprobs, finish, cachedTokens, weightVersion };
      } catch (error) {
        throw error instanceof CallFault ? refusal(500, `Cannot sample: ${error.message}.`) : error;
      } finally {
        signal.removeEventListener("abort", onAbort);
      }
    },
    updateWeights: async (modelPath) => {
      const { weights } = await readCheckpoint(modelPath);
      if (weights.length !== parameterCount) {
        throw new Error(
          `The model in "${modelPath}" has ${weights.length} parameters, this server's has ${parameterCount}.`,
        );
      }
      await threads.updateWeights(weights, null);
    },
    flushCache: () => threads.flushCache(),
    pause: () => threads.pause("in-place"),
    resume: () => threads.continue(),
  };
}
