// Sampling parameters of a call: the session's, because rows sampled with other parameters would be
// off-policy. Parameters that a client sets are counted, used or refused, as the gateway is
// configured; its token cap and its stop strings always apply.

import type { SamplingParams } from "../core/index.ts";
import { deriveSeed } from "../lib/random.ts";
import { GatewayError, type GatewayRequest } from "./request.ts";

/** Handling of sampling parameters that clients set; see `GatewayOptions`. */
export type ClientSampling = "ignore" | "obey" | "refuse";

export type CallSampling = {
  readonly sampling: SamplingParams;
  /** Strings at which the call ends: the client's, and the session's own. */
  readonly stop: readonly string[];
  /** Names of unused parameters in the dialect. */
  readonly unused: readonly string[];
};

/** `call`: number of the call in the session. Throws a `GatewayError` for a refused parameter. */
export function samplingOfCall(
  { sampling: wished, samplingNames, maxTokens, stop }: GatewayRequest,
  session: { readonly sampling: SamplingParams; readonly clientSampling: ClientSampling; readonly seed: number },
  call: number,
): CallSampling {
  const { clientSampling, seed } = session;
  if (clientSampling === "refuse" && samplingNames.length > 0) {
    throw new GatewayError(
      "unsupported",
      `Cannot serve the request: it sets ${samplingNames.join(", ")}, and sampling belongs to the session; remove it.`,
      { param: samplingNames[0] ?? null },
    );
  }
  const obeyed = clientSampling === "obey" ? wished : {};
  const { stop: own = [], ...extra } = { ...session.sampling.extra, ...obeyed.extra };
  const caps = [session.sampling.maxNewTokens, maxTokens].filter((cap) => cap !== null);
  return {
    sampling: {
      ...session.sampling,
      seed: session.sampling.seed === null ? null : deriveSeed(session.sampling.seed, seed, "call", call),
      ...obeyed,
      maxNewTokens: caps.length === 0 ? null : Math.min(...caps),
      extra,
    },
    stop: [...stop, ...[own].flat().filter((one) => typeof one === "string")],
    unused: clientSampling === "ignore" ? samplingNames : [],
  };
}
