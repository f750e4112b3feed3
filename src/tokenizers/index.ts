// Tokenizer implementations: text to token ids and back.

export { createTokenizer, type TokenizerDefinition, UnsupportedTokenizerError } from "./create-tokenizer.ts";
export { loadModelFolder, loadTokenizer, type ModelFolder, readModelFile } from "./load-tokenizer.ts";
export { createReadableTokenizer } from "./readable-tokenizer.ts";
export { type ChatTokenizerFiles, trainChatTokenizer, type TrainChatTokenizerOptions } from "./chat-tokenizer.ts";
