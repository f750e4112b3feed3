// `npm run verify -- values`: how many of 46 kinds of arguments come back where each chat template in ../shared/models writes a call and
// its family's parser reads it, and which do not. Prints the figures; a test holds them (src/renderers/audit/argument-values.test.ts).

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { auditTemplate, familyOfChatTemplate, rendererFamily } from "../../dist/renderers/index.js";
import { createTokenizer } from "../../dist/tokenizers/index.js";
import { root } from "../run-command.mjs";
import { CannotVerify } from "./python.mjs";

/** @returns {Promise<number>} The exit code. */
export async function verifyValues() {
  const models = join(root, "..", "shared", "models");
  if (!existsSync(models)) throw new CannotVerify(`Cannot verify: there are no chat templates at "${models}".`);
  const names = readdirSync(models).filter((name) => existsSync(join(models, name, "chat_template.jinja")));
  for (const name of names) {
    const chatTemplate = readFileSync(join(models, name, "chat_template.jinja"), "utf8");
    const family = rendererFamily(familyOfChatTemplate(chatTemplate));
    const specialTokens = /** @type {ReadonlyMap<string, string>} */ (family.specialTokens);
    const markers = [...specialTokens.values(), family.startToken, ...family.stopTokens];
    if (family.endToken !== null) markers.push(family.endToken);
    const tokenizer = await byteTokenizer(markers);
    const { values } = auditTemplate({ tokenizer, chatTemplate, specialTokens });
    process.stdout.write(`${name.padEnd(28)} ${family.toolCallParser.padEnd(12)} ${described(values)}\n`);
  }
  return 0;
}

/** @param {import("../../dist/renderers/index.js").TemplateAudit["values"]} values */
function described(values) {
  if (values === null) return "the template writes no call that the parser reads";
  const { written, lost, refused } = values;
  const parts = [`${written - lost.length} of ${written}`];
  if (lost.length > 0) parts.push(`not ${lost.join(", ")}`);
  if (refused.length > 0) parts.push(`the template raises for ${refused.join(", ")}`);
  return parts.join("; ");
}

/**
 * One token a byte, and one a marker: what is read does not depend on the words of a vocabulary.
 *
 * @param {readonly string[]} markers
 */
function byteTokenizer(markers) {
  const isShown = (/** @type {number} */ byte) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
  let next = 256;
  const vocab = Object.fromEntries(
    Array.from({ length: 256 }, (_, byte) => [String.fromCodePoint(isShown(byte) ? byte : next++), byte]),
  );
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const tokenizerJson = {
    version: "1.0",
    added_tokens: [...new Set(markers)].map((content, index) => ({ id: 256 + index, content, ...flags })),
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
    model: { type: "BPE", vocab, merges: [], ignore_merges: false },
  };
  return createTokenizer("bytes", { tokenizerJson, tokenizerConfig: null });
}
