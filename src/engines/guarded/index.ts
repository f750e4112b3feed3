// One engine out of servers that may fail: circuit breakers, sticky routing, failover.

export type { CircuitStatus, CircuitState } from "./circuit-breaker.ts";
export { createGuardedEngine, type GuardedEngine } from "./guarded-engine.ts";
export type { GuardedEngineOptions } from "./guarded-options.ts";
