// The vocabulary and the contracts, with only the behaviour that is needed to state a contract.

export * from "./agent.ts";
export type * from "./constraint.ts";
export * from "./engine.ts";
export type * from "./adapters.ts";
export type * from "./agenda.ts";
export type * from "./environment.ts";
export * from "./episode.ts";
export type * from "./episode-summary.ts";
export * from "./failure.ts";
export type * from "./grading.ts";
export type * from "./judge.ts";
export type * from "./local-engine.ts";
export * from "./message.ts";
export * from "./renderer.ts";
export type * from "./scoring.ts";
export type * from "./judge.ts";
export * from "./token-buffer.ts";
export * from "./turn.ts";
export * from "./use-environment.ts";
export * from "./user.ts";
export type * from "./tokenizer.ts";
