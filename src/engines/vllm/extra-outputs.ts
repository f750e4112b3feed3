// Kept ids and routed experts in a choice of vLLM; a server reports them for every call if it was started
// with --return-sampling-mask or --enable-return-routed-experts (0.32). The chunks of a stream have the
// kept ids of their tokens, and the last one has all experts. Loaded only where they are requested.

import type { SampleRequest, SampleResult } from "../../core/engine.ts";
import { asFields, badReply, type FailureContext, readSamplingMask } from "../../http/index.ts";
import { readNpy } from "./npy.ts";

/** The result with the parts that were requested. Throws an `AttributedError` with code "bad-reply". */
export function withExtraOutputs(
  result: SampleResult,
  value: unknown,
  input: {
    readonly request: SampleRequest;
    readonly vocabularySize: number | null;
    readonly context: FailureContext;
  },
): SampleResult {
  const { request, vocabularySize, context } = input;
  const choices = asFields(value)?.["choices"];
  const choice = Array.isArray(choices) ? asFields(choices[0]) : null;
  const experts = (request.routedExpertsFrom ?? null) === null ? {} : readExperts(choice?.["routed_experts"], context);
  if (request.samplingMask !== true) return { ...result, ...experts };
  const samplingMask = readSamplingMask(choice?.["sampling_mask"], result.sampledTokens, {
    name: "sampling_mask",
    vocabularySize,
    remedy: "start the server with --return-sampling-mask (vLLM 0.32 or newer), or do not request it",
    context,
  });
  return { ...result, ...experts, samplingMask };
}

/** Experts as base64 of `.npy`: (tokens, layers, experts per token). */
function readExperts(
  text: unknown,
  context: FailureContext,
): Pick<SampleResult, "routedExpertBytes" | "routedExpertShape"> {
  if (text === undefined || text === null) return { routedExpertBytes: null };
  const refuse = (state: string) => badReply(context, `routed_experts cannot be read: ${state}`, { retryable: false });
  if (typeof text !== "string") throw refuse("it is not a string");
  const bytes = Buffer.from(text, "base64");
  // Buffer skips characters that are not base64.
  if (bytes.toString("base64") !== text) throw refuse("it is not base64");
  const array = readNpy(bytes);
  if (typeof array === "string") throw refuse(array);
  const [, layers, topk] = array.shape;
  if (array.shape.length !== 3 || layers === undefined || topk === undefined) {
    throw refuse(`its shape is (${array.shape.join(", ")}), expected (tokens, layers, experts per token)`);
  }
  const routedExpertBytes = new Uint8Array(array.numbers.length * 4);
  const view = new DataView(routedExpertBytes.buffer);
  for (let at = 0; at < array.numbers.length; at++) view.setInt32(at * 4, array.numbers[at]!, true);
  return { routedExpertBytes, routedExpertShape: { layers, topk } };
}
