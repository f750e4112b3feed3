// Tokenizer implementations: text to token ids and back.

export { createReadableTokenizer } from "./readable-tokenizer.ts";
