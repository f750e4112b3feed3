// What an engine is asked, read as what a thread is told. Refuses what the model cannot do, by the codes of engines.

import type { EngineFailureCode, SampleRequest } from "../../core/engine.ts";
import { AttributedError } from "../../core/failure.ts";
import type { ModelConfig } from "../../model/index.ts";
import type { GenerationParams } from "./generation-params.ts";

/** The boundary's errors; `state` completes "Cannot sample from the embedded engine: ...". */
export function embeddedFailure(
  code: EngineFailureCode,
  state: string,
  options: { readonly retryable?: boolean; readonly cause?: unknown } = {},
): AttributedError {
  const { retryable = false, cause } = options;
  const message = `Cannot sample from the embedded engine: ${state}.`;
  const causeText = cause instanceof Error ? cause.message : null;
  return new AttributedError({ boundary: "engine", code, message, retryable, cause: causeText }, { cause });
}

/**
 * Copies the prompt and fills in the parameters. A bound beyond the context is lowered to it: the generation then ends with
 * "length". Throws an `AttributedError` with code "bad-request" or "context-length".
 */
export function readRequest(
  request: SampleRequest,
  config: ModelConfig,
  freshSeed: () => number,
): { readonly prompt: Uint32Array; readonly params: GenerationParams } {
  const { sampling, stopTokenIds } = request;
  const { vocabularySize, contextLength } = config;
  const prompt = request.prompt.view().slice();
  if (prompt.length === 0) throw embeddedFailure("bad-request", "the prompt is empty");
  const unknown = prompt.findIndex((id) => id >= vocabularySize);
  if (unknown >= 0) {
    const state = `token ${unknown} of the prompt is ${prompt[unknown]}, the vocabulary has ${vocabularySize}`;
    throw embeddedFailure("bad-request", `${state}; encode prompts with the tokenizer of this model`);
  }
  if (prompt.length >= contextLength) {
    const state = `the prompt has ${prompt.length} tokens, the model takes fewer than ${contextLength}`;
    throw embeddedFailure("context-length", state);
  }
  const room = contextLength - prompt.length;
  const extra = readExtra(sampling.extra);
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
  checkRanges(params);
  return { prompt, params };
}

/** The parameters of SGLang that the core does not name and this engine has too. */
function readExtra(extra: Readonly<Record<string, unknown>>) {
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
      throw embeddedFailure("bad-request", `sampling.extra has "${name}": ${shown}, it may have numbers for ${known}`);
    }
  }
  return {
    minNewTokens: values.min_new_tokens,
    frequencyPenalty: values.frequency_penalty,
    presencePenalty: values.presence_penalty,
    logitBias,
  };
}

function checkRanges(params: GenerationParams): void {
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
    if (!isFine) throw embeddedFailure("bad-request", `${name} is ${value}, ${wanted} wanted`);
  }
}
