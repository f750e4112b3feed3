// The settings of a guarded engine.

import { ConfigurationError } from "../../core/failure.ts";
import type { Clock } from "../../lib/clock.ts";
import type { CircuitStatus } from "./circuit-breaker.ts";

export type GuardedEngineOptions = {
  /** Failures in a row that open the circuit of a server. Default 5; at least 1. */
  readonly failures?: number;
  /** How long a circuit stays open at first, in milliseconds; each failed look doubles it. Default 1,000. */
  readonly openMs?: number;
  /** The longest that it stays open between two looks. Default 30,000; at least `openMs`. */
  readonly maxOpenMs?: number;
  /** How long a call waits for a server that can be asked, in milliseconds; then it fails for good. Default 300,000. */
  readonly maxWaitMs?: number;
  /** Told of every change of a circuit, for logs and metrics. Must be quick and must not throw. */
  readonly onChange?: (change: CircuitStatus) => void;
  /** Default: the real one. */
  readonly clock?: Clock;
};

/** Throws a `ConfigurationError` that names the option and its value. */
export function checkGuardedOptions(
  options: Required<Pick<GuardedEngineOptions, "failures" | "openMs" | "maxOpenMs" | "maxWaitMs">>,
): void {
  const refuse = (name: keyof typeof options, wanted: string): never => {
    throw new ConfigurationError(`Cannot guard an engine: ${name} is ${options[name]}, ${wanted} is needed.`);
  };
  const { failures, openMs, maxOpenMs, maxWaitMs } = options;
  if (!Number.isInteger(failures) || failures < 1) refuse("failures", "a whole number of at least 1");
  if (!(openMs > 0)) refuse("openMs", "a positive number");
  if (!(maxOpenMs >= openMs)) refuse("maxOpenMs", `a number of at least ${openMs}`);
  if (!(maxWaitMs >= 0)) refuse("maxWaitMs", "a number of at least 0");
}
