// What an engine is asked, read as what its sampler is told. Refuses what the model cannot do, by the codes of engines.

import type { EngineFailureCode, SampleRequest } from "../core/engine.ts";
import { AttributedError } from "../core/failure.ts";
import type { GenerationParams } from "./generation-params.ts";

/** Makes an error of the boundary; `state` completes "Cannot sample from <engine>: ...". Not retryable by default. */
export type FailureMaker = (
  code: EngineFailureCode,
  state: string,
  options?: { readonly retryable?: boolean; readonly cause?: unknown },
) => AttributedError;

export function engineFailure(engine: string): FailureMaker {
  return (code, state, { retryable = false, cause } = {}) => {
    const message = `Cannot sample from ${engine}: ${state}.`;
    const causeText = cause instanceof Error ? cause.message : null;
    return new AttributedError({ boundary: "engine", code, message, retryable, cause: causeText }, { cause });
  };
}

export type ModelLimits = {
  readonly vocabularySize: number;
  /** Most tokens of prompt and answer together. */
  readonly contextLength: number;
};

/**
 * Copies the prompt and fills in the parameters. A bound beyond the context is lowered to it: the generation then ends with
 * "length". Throws an `AttributedError` with code "bad-request" or "context-length".
 */
export function readRequest(
  request: SampleRequest,
  limits: ModelLimits,
  { freshSeed, failure }: { readonly freshSeed: () => number; readonly failure: FailureMaker },
): { readonly prompt: Uint32Array; readonly params: GenerationParams } {
  const { sampling, stopTokenIds } = request;
  const { vocabularySize, contextLength } = limits;
  const prompt = request.prompt.view().slice();
  if (prompt.length === 0) throw failure("bad-request", "the prompt is empty");
  const unknown = prompt.findIndex((id) => id >= vocabularySize);
  if (unknown >= 0) {
    const state = `token ${unknown} of the prompt is ${prompt[unknown]}, the vocabulary has ${vocabularySize}`;
    throw failure("bad-request", `${state}; encode prompts with the tokenizer of this model`);
  }
  if (prompt.length >= contextLength) {
    const state = `the prompt has ${prompt.length} tokens, the model takes fewer than ${contextLength}`;
    throw failure("context-length", state);
  }
  const room = contextLength - prompt.length;
  const extra = readExtra(sampling.extra, failure);
  const isGreedy = sampling.temperature >= 0 && sampling.temperature < 1e-6;
  const params = {
    maxNewTokens: Math.min(sampling.maxNewTokens ?? room, room),
    minNewTokens: extra.minNewTokens,
    temperature: isGreedy ? 1 : sampling.temperature,
    topP: sampling.topP,
    topK: isGreedy ? 1 : sampling.topK,
    minP: sampling.minP,
    frequencyPenalty: extra.frequencyPenalty,
    presencePenalty: extra.presencePenalty,
    repetitionPenalty: sampling.repetitionPenalty,
    stopTokenIds,
    logitBias: extra.logitBias.filter(([token]) => token < vocabularySize),
    seed: sampling.seed ?? freshSeed(),
  };
  checkRanges(params, failure);
  return { prompt, params };
}

/** The parameters of SGLang that the core does not name and this engine has too. */
function readExtra(extra: Readonly<Record<string, unknown>>, failure: FailureMaker) {
  const values = { min_new_tokens: 0, frequency_penalty: 0, presence_penalty: 0 };
  let logitBias: (readonly [number, number])[] = [];
  for (const [name, value] of Object.entries(extra)) {
    if (name in values && typeof value === "number") {
      values[name as keyof typeof values] = value;
    } else if (name === "logit_bias" && typeof value === "object" && value !== null) {
      logitBias = Object.entries(value).map(([id, bias]) => [Number(id), Number(bias)]);
    } else {
      const known = [...Object.keys(values), "logit_bias"].join(", ");
      const shown = JSON.stringify(value) ?? typeof value;
      throw failure("bad-request", `sampling.extra has "${name}": ${shown}, it may have numbers for ${known}`);
    }
  }
  return {
    minNewTokens: values.min_new_tokens,
    frequencyPenalty: values.frequency_penalty,
    presencePenalty: values.presence_penalty,
    logitBias,
  };
}

function checkRanges(params: GenerationParams, failure: FailureMaker): void {
  const { temperature, topP, topK, minP, maxNewTokens, repetitionPenalty } = params;
  const ranges: readonly (readonly [name: string, value: number, isFine: boolean, wanted: string])[] = [
    ["temperature", temperature, temperature > 0 && temperature < Infinity, "0 or more"],
    ["topP", topP, topP > 0 && topP <= 1, "more than 0 and at most 1"],
    ["topK", topK, topK === -1 || (Number.isInteger(topK) && topK >= 1), "-1 or at least 1"],
    ["minP", minP, minP >= 0 && minP <= 1, "0 to 1"],
    ["maxNewTokens", maxNewTokens, Number.isInteger(maxNewTokens) && maxNewTokens >= 0, "0 or more"],
    [
      "repetitionPenalty",
      repetitionPenalty,
      repetitionPenalty > 0 && repetitionPenalty <= 2,
      "more than 0 and at most 2",
    ],
  ];
  for (const [name, value, isFine, wanted] of ranges) {
    if (!isFine) throw failure("bad-request", `${name} is ${value}, ${wanted} wanted`);
  }
}
