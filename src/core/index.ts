// The vocabulary and the contracts. No behaviour beyond what a contract needs to be stated.

export * from "./agenda.ts";
export * from "./agent-strategy.ts";
export * from "./chat-agent.ts";
export * from "./engine.ts";
export * from "./engine-load.ts";
export * from "./environment.ts";
export * from "./episode.ts";
export * from "./failure.ts";
export * from "./group.ts";
export * from "./message.ts";
export * from "./model-usage.ts";
export * from "./renderer.ts";
export * from "./sample.ts";
export * from "./sampling.ts";
export * from "./stop-reason.ts";
export * from "./task.ts";
export * from "./token-buffer.ts";
export * from "./tokenizer.ts";
export * from "./tool.ts";
export * from "./turn.ts";
export * from "./user.ts";
