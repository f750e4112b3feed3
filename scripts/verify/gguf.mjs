// `npm run verify -- gguf <model.gguf> [folder]`: the tokenizer that our reader makes from the
// metadata of a file, against llama.cpp's own on the same file and, if a folder is named, against
// that folder's tokenizer.json. Random texts and every token of the vocabulary.

import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import fc from "fast-check";

import { loadModelFolder } from "../../dist/tokenizers/index.js";
import { installLlama } from "./peers.mjs";

/**
 * The part of node-llama-cpp's interface that is used.
 *
 * @typedef {{ tokenize(text: string, specialTokens: boolean, options: "trimLeadingSpace" | undefined): number[], dispose(): Promise<void> }} Model
 * @typedef {{ loadModel(options: { modelPath: string, vocabOnly: boolean }): Promise<Model>, dispose(): Promise<void> }} Llama
 * @typedef {{ getLlama(options: object): Promise<Llama> }} Library
 */

const snippets = [
  "<|im_start|>",
  "<|im_end|>",
  "<tool_call>",
  "</tool_call>",
  "The order",
  " of ",
  "'s",
  "'ll",
  "don't",
  "12345",
  "  ",
  "     ",
  "\t",
  "\n",
  "\r\n",
  "\n\n\n",
  " \n ",
  "\u00a0",
  "\u3000",
  "é",
  "ß",
  "日本語",
  "カタカナ",
  "한국",
  "ไทย",
  "हिन्दी",
  "العربية",
  "Привет",
  "👨‍👩‍👧‍👦",
  "👍🏽",
  '{"name": "get_order", "arguments": {}}',
  "//",
  "...",
  "!?\n\n",
  "#W1042",
  "snake_case",
  "camelCase",
  "HTTPServer",
  "aaaaaaaa",
];

/**
 * @param {readonly string[]} parameters Path of the file, and of the folder.
 * @returns {Promise<number>} Exit code.
 */
export async function verifyGguf(parameters) {
  const [path, folder] = parameters.map((one) => resolve(process.env["INIT_CWD"] ?? ".", one));
  if (path === undefined) {
    process.stderr.write("Cannot verify: no model is named; pass the path of a GGUF file.\n");
    return 2;
  }
  const install = installLlama();
  const found = createRequire(join(install, "package.json")).resolve("node-llama-cpp");
  const library = /** @type {Library} */ (await import(pathToFileURL(found).href));
  const { tokenizer } = await loadModelFolder(path);
  const texts = fc.sample(
    fc
      .array(fc.oneof(fc.constantFrom(...snippets), fc.string({ unit: "grapheme-ascii", maxLength: 8 })), {
        maxLength: 16,
      })
      .map((parts) => parts.join("")),
    { seed: 1, numRuns: 10_000 },
  );
  let failed = 0;
  /** @type {(name: string, encode: (text: string) => readonly number[] | Uint32Array) => void} */
  const compare = (name, encode) => {
    const different = texts.filter((text) => encode(text).join() !== tokenizer.encode(text).join());
    process.stdout.write(`${name}: ${texts.length - different.length} of ${texts.length} texts have the same ids\n`);
    for (const text of different.slice(0, 3)) process.stdout.write(`  ${JSON.stringify(text)}\n`);
    failed += different.length;
  };
  const llama = await library.getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: 1 });
  const model = await llama.loadModel({ modelPath: path, vocabOnly: true });
  compare("llama.cpp", (text) => model.tokenize(text, true, undefined));
  await llama.dispose();
  if (folder !== undefined) {
    const other = (await loadModelFolder(folder)).tokenizer;
    compare(folder, (text) => other.encode(text));
  }
  return failed === 0 ? 0 : 1;
}
