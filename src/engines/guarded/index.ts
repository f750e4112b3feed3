// One engine built from servers that may fail: circuit breakers, sticky routing, failover.

export type { CircuitStatus, CircuitState } from "./circuit-breaker.ts";
export { createGuardedEngine, type GuardedEngine, type GuardedEngineOptions } from "./guarded-engine.ts";
