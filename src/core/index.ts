// The vocabulary and the contracts. No behaviour beyond what a contract needs to be stated.

export * from "./agent.ts";
export * from "./engine.ts";
export * from "./environment.ts";
export * from "./episode.ts";
export * from "./episode-summary.ts";
export * from "./failure.ts";
export * from "./grading.ts";
export * from "./judge.ts";
export * from "./message.ts";
export * from "./renderer.ts";
export * from "./judge.ts";
export * from "./token-buffer.ts";
export * from "./turn.ts";
export * from "./use-environment.ts";
export * from "./user.ts";
