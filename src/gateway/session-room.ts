// The limits of a session, regardless of which model answers its calls.

import type { EpisodeOptions } from "../rollout/index.ts";
import { GatewayError } from "./request.ts";

type Bounds = {
  readonly id: string;
  /** Maximum number of calls in flight. */
  readonly maxCalls: number;
  readonly episode: Pick<EpisodeOptions, "limits">;
};

/** Usage of a session, compared with its limits. */
export type SessionUse = { readonly running: number; readonly answered: number; readonly sampledTokens: number };

/**
 * The limit that leaves no room for another call; `null` if there is room. Throws a `GatewayError`
 * if too many calls are in flight.
 */
export function spentLimit(
  { id, maxCalls, episode }: Bounds,
  { running, answered, sampledTokens }: SessionUse,
): { readonly limit: "max_turns" | "max_tokens"; readonly error: GatewayError } | null {
  const { maxTurns = Infinity, maxSampledTokens = null } = episode.limits ?? {};
  if (running >= maxCalls) {
    throw new GatewayError(
      "rate-limited",
      `Cannot serve the request: session "${id}" has ${running} calls in flight, the maximum.`,
      { retryAfterMs: 1000 },
    );
  }
  const spent = (limit: "max_turns" | "max_tokens", amount: string) => ({
    limit,
    error: new GatewayError("session-ended", `Cannot serve the request: session "${id}" has had its ${amount}.`),
  });
  if (answered + running >= maxTurns) return spent("max_turns", `${maxTurns} turns`);
  if (maxSampledTokens === null || sampledTokens < maxSampledTokens) return null;
  return spent("max_tokens", `${maxSampledTokens} tokens`);
}
