// Tokenizer implementations: text to token ids and back.

export { createTokenizer, type TokenizerDefinition, UnsupportedTokenizerError } from "./create-tokenizer.ts";
export { loadModelFolder, loadTokenizer, readModelFile } from "./load-tokenizer.ts";
export type { ModelFolder } from "./model-folder.ts";
export { createReadableTokenizer } from "./readable-tokenizer.ts";
export { type ChatTokenizerFiles, trainChatTokenizer, type TrainChatTokenizerOptions } from "./chat-tokenizer.ts";
