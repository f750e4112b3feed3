// A tokenizer for templates whose own is not available: one token per byte, and one for every
// string in the template that looks like a special token. The renderer's findings about a template
// do not depend on the vocabulary.

import { createTokenizer } from "../../../dist/tokenizers/index.js";

/** Control tokens in the spelling of families, including those that templates build from a role. */
const control = /<[|｜][^<>|｜\s{}]+[|｜]>|<\|[a-z_]+>|<[a-z_]+\|>|\[\/?[A-Z_]+\]|<\/?seed:\w+>|<\/?s>|<\/?(?:start|end)_\w+>|<_\w+>|<\/?(?:assistant|user|system)>|\[gMASK\]|<sop>|\]~!?b[[\]]|\[e~\[/g; // prettier-ignore
const roles = ["system", "user", "assistant", "tool", "end"].map((role) => `<|${role}|>`);
/** Special tokens that users may not spell either, but that are text to a decoder. */
const tags = /<\/?(?:think|tool_call|tool_response|arg_key|arg_value|mm:think|minimax:tool_call)>/g;

/**
 * @param {string} chatTemplate
 * @param {readonly string[]} [further] Control tokens that the template only names by a variable.
 */
export function byteTokenizer(chatTemplate, further = []) {
  const isShown = (/** @type {number} */ byte) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
  let next = 256;
  const vocab = Object.fromEntries(
    Array.from({ length: 256 }, (_, byte) => [String.fromCodePoint(isShown(byte) ? byte : next++), byte]),
  );
  const special = new Set([...(chatTemplate.match(control) ?? []), ...roles, ...further]);
  const plain = new Set(chatTemplate.match(tags) ?? []);
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false };
  const tokenizerJson = {
    version: "1.0",
    added_tokens: [...new Set([...special, ...plain])].map((content, index) => ({
      id: 256 + index,
      content,
      ...flags,
      special: special.has(content),
    })),
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: { type: "BPE", vocab, merges: [], ignore_merges: false },
  };
  return createTokenizer("bytes", { tokenizerJson, tokenizerConfig: null });
}
