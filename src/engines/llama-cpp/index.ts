// llama.cpp in this process, through the optional package node-llama-cpp: for users with a GGUF
// file of a real model.

export { createLlamaCppEngine, type LlamaCppEngine, type LlamaCppEngineOptions } from "./llama-cpp-engine.ts";
export type { LlamaContext, LlamaLibrary, LlamaModel, Llama, LlamaSequence, LlamaRow } from "./llama-library.ts";
