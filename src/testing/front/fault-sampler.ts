// All faults of inference servers, each with its own rate, on top of a working sampler. The seed
// and the request's id determine which fault a request meets, never the order of requests, so a run
// can be repeated.

import { systemClock, type Clock } from "../../lib/clock.ts";
import { createRandom, deriveSeed, type Random } from "../../lib/random.ts";
import {
  SamplerRefusal,
  type Sampler,
  type SamplerOptions,
  type SamplerOutput,
  type SamplerRequest,
  RawText,
  WireFaultError,
} from "./sampler.ts";

/** Two faults that do not change the answer, and eight of which a request meets at most one. */
export const faultNames = [
  /** The answer is late. */
  "slow",
  /** The weights change during the request: the reply names an unknown version. */
  "weight-bump",
  /** HTTP 400. */
  "bad-request",
  /** HTTP 429 with a `retry-after` of one second. */
  "rate-limited",
  /** HTTP 500. */
  "server-error",
  /** HTTP 503: the queue is full. */
  "queue-full",
  /** The answer is aborted inside HTTP 200, with some of its tokens or none; never with the last. */
  "abort",
  /** The answer is truncated by the server's own limit before its last token. */
  "cut",
  /** The answer is malformed. */
  "garbage",
  /** The connection ends in the middle of the answer. */
  "drop",
] as const;

export type FaultName = (typeof faultNames)[number];

export type FaultSamplerOptions = {
  readonly seed: number;
  /** Probability of each fault, from 0 to 1. Default 0. */
  readonly rates: Partial<Readonly<Record<FaultName, number>>>;
  /**
   * Garbles an answer in the shapes of its protocol. Default: pages and fragments that are not
   * valid JSON.
   */
  readonly garble?: (random: Random) => (item: unknown) => unknown;
  /** Longest delay of a slow answer; the shortest is half of it. Default 50. */
  readonly slowMs?: number;
  /** Default: the real clock. */
  readonly clock?: Clock;
};

export type FaultSampler = Sampler & {
  /** Number of times that each fault has happened. */
  readonly counts: Readonly<Record<FaultName, number>>;
};

/** Throws a `RangeError` for a rate that is not a probability. */
export function createFaultSampler(inner: Sampler, options: FaultSamplerOptions): FaultSampler {
  const { seed, rates, slowMs = 50, clock = systemClock, garble: spoilItem = garbleText } = options;
  const counts = Object.fromEntries(faultNames.map((name) => [name, 0])) as Record<FaultName, number>;
  for (const [name, rate] of Object.entries(rates)) {
    if (!(rate >= 0 && rate <= 1))
      throw new RangeError(`Cannot make a fault sampler: rate of "${name}" is ${rate}, expected 0 to 1.`);
  }
  let version = 0;

  const sample = async (request: SamplerRequest, call: SamplerOptions): Promise<SamplerOutput> => {
    const random = createRandom(deriveSeed(seed, request.requestId));
    const met = new Set(faultNames.filter((name) => random.next() < (rates[name] ?? 0)));
    const main = faultNames.slice(2).find((name) => met.has(name)) ?? null;
    for (const name of faultNames) if (name === main || (met.has(name) && isHarmless(name))) counts[name] += 1;
    if (met.has("slow")) await clock.sleep(slowMs * (0.5 + random.next() / 2), call.signal);
    refuse(main);
    // A fault of the answer is decided before its first token is sent.
    const isQuiet = main !== null;
    const output = await inner.sample(request, isQuiet ? { ...call, onTokens: () => "continue" } : call);
    if (met.has("weight-bump")) version += 1;
    const answer = met.has("weight-bump") ? { ...output, weightVersion: `bumped-${version}` } : output;
    return spoil(answer, main, { random, spoilItem });
  };

  return { ...operationsOf(inner), sample, counts };
}

/** Operations of the inner sampler besides sampling, and no others. */
function operationsOf(inner: Sampler): Omit<Sampler, "sample"> {
  return {
    ...(inner.updateWeights && { updateWeights: (modelPath: string) => inner.updateWeights!(modelPath) }),
    ...(inner.flushCache && { flushCache: () => inner.flushCache!() }),
    ...(inner.pause && { pause: () => inner.pause!() }),
    ...(inner.resume && { resume: () => inner.resume!() }),
  };
}

function isHarmless(name: FaultName): boolean {
  return name === "slow" || name === "weight-bump";
}

function refuse(fault: FaultName | null): void {
  if (fault === "bad-request") throw new SamplerRefusal(400, "This request is refused on purpose.");
  if (fault === "queue-full") throw new SamplerRefusal(503, "The request queue is full.");
  if (fault === "server-error") throw new Error("This request crashes on purpose.");
  if (fault !== "rate-limited") return;
  const text = JSON.stringify({ error: { type: "rate_limit", code: "rate_limited", message: "Too many requests." } });
  const headers = { "content-type": "application/json", "retry-after": "1" };
  throw new WireFaultError({ type: "answer", status: 429, headers, text });
}

function spoil(
  output: SamplerOutput,
  fault: FaultName | null,
  options: { readonly random: Random; readonly spoilItem: (random: Random) => (item: unknown) => unknown },
): SamplerOutput {
  const { random, spoilItem } = options;
  switch (fault) {
    case "abort":
      return { ...shorten(output, random.next() < 0.5 ? 0 : random.integer(output.ids.length)), finish: "abort" };
    case "cut":
      return { ...shorten(output, random.integer(output.ids.length)), finish: "length" };
    case "garbage":
      throw new WireFaultError({ type: "edit", output, edit: spoilItem(random) });
    case "drop":
      throw new WireFaultError({ type: "drop", output, share: random.next() });
    default:
      return output;
  }
}

function shorten(output: SamplerOutput, count: number): SamplerOutput {
  return {
    ...output,
    ids: Array.from(output.ids).slice(0, count),
    logprobs: Array.from(output.logprobs).slice(0, count),
  };
}

function garbleText(random: Random): (item: unknown) => unknown {
  const text = random.pick(["<html><body>502 Bad Gateway</body></html>", "", "null"]);
  return () => new RawText(text);
}
