// `npm run verify -- tokenizers`: our tokenizers against Hugging Face tokenizers. A script creates
// definitions of every kind of model, normalizer, pre-tokenizer, decoder and added token
// (tokenizer_cases.py); each is loaded by both, encodes 40 hostile texts, and decodes them and 40
// lists of ids, whole and id by id. A definition must yield equal ids and texts, or be refused when
// it is loaded. --write stores the figures in tokenizers.json beside this file, and a few texts and
// lists of each definition in the fixtures of src/tokenizers; without it they are compared with
// that file.

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "../run-command.mjs";
import { CannotVerify, makeEnvironment, versionOf } from "./python.mjs";

/**
 * @template Value
 * @typedef {{ readonly value?: Value, readonly error?: string }} Attempt
 */
/**
 * @typedef {object} Case
 * @property {string} name
 * @property {object} definition A tokenizer.json.
 * @property {string | null} refusal Why tokenizers does not load it.
 * @property {readonly { readonly text: string, readonly ids: Attempt<number[]>, readonly decoded: Attempt<string> | null }[]} texts
 * @property {readonly { readonly ids: readonly number[], readonly decoded: Attempt<string>, readonly skipped: Attempt<string> }[]} lists
 */

const pinned = { tokenizers: "0.23.3", sentencepiece: "0.2.1" };
const counts = { texts: 40, lists: 40 };
const recordFile = join(import.meta.dirname, "tokenizers.json");
const fixtureFile = join(root, "src", "tokenizers", "fixtures", "kinds.jsonl");

/**
 * @param {{ readonly write: boolean, readonly newest: boolean }} options
 * @returns {Promise<number>} The exit code: 0 when nothing differs.
 */
export async function verifyTokenizers({ write, newest }) {
  const { folder, bin } = makeEnvironment({
    name: "tokenizers",
    packages: Object.entries(pinned).map(([name, version]) => (newest ? name : `${name}==${version}`)),
  });
  const output = join(folder, "cases.jsonl");
  const script = join(import.meta.dirname, "tokenizer_cases.py");
  const { status, stderr } = spawnSync(bin("python"), [script, output, `${counts.texts}`, `${counts.lists}`], {
    encoding: "utf8",
    env: { ...process.env, RUST_BACKTRACE: "0", PYTHONDONTWRITEBYTECODE: "1" },
  });
  if (status !== 0) throw new CannotVerify(`Cannot verify: tokenizer_cases.py ended with ${status}: ${stderr}`);
  const cases = /** @type {Case[]} */ (
    readFileSync(output, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => /** @type {unknown} */ (JSON.parse(line)))
  );
  /** @type {Record<string, string>} */
  const outcomes = {};
  let differing = 0;
  for (const one of cases) {
    const { outcome, differences } = await compare(one);
    outcomes[one.name] = outcome;
    differing += differences.length > 0 ? 1 : 0;
    process.stdout.write(`${one.name.padEnd(40)} ${outcome}\n`);
    for (const difference of differences.slice(0, 3)) process.stdout.write(`    ${difference}\n`);
  }
  const equal = Object.values(outcomes).filter((outcome) => outcome === "equal").length;
  process.stdout.write(
    `${cases.length} definitions x ${counts.texts} texts x ${counts.lists} lists of ids: ` +
      `${equal} equal, ${cases.length - equal - differing} refused, ${differing} differ\n`,
  );
  if (differing > 0) return 1;
  const versions = Object.keys(pinned).map((name) => `${name} ${versionOf(bin("python"), name)}`);
  if (!write) return checkRecord(versions, outcomes);
  const date = new Date().toISOString().slice(0, 10);
  writeFileSync(recordFile, `${JSON.stringify({ date, versions, ...counts, outcomes }, null, 2)}\n`);
  writeFileSync(
    fixtureFile,
    fixtures(cases, { recordedWith: versions, date, how: "npm run verify -- tokenizers --write" }),
  );
  return 0;
}

/**
 * The definitions, with vocabularies and merges stored separately because many share them, and for
 * each the next few of the texts and lists. Tables of SentencePiece are too large.
 *
 * @param {readonly Case[]} cases
 * @param {object} provenance
 */
function fixtures(cases, provenance) {
  /** @type {Map<string, number>} */
  const tables = new Map();
  const place = (/** @type {unknown} */ table) => {
    const text = JSON.stringify(table) ?? "null";
    if (!tables.has(text)) tables.set(text, tables.size);
    return tables.get(text);
  };
  const kept = cases.filter(({ definition }) => !JSON.stringify(definition).includes("precompiled_charsmap"));
  const lines = kept.map(({ name, definition, refusal, texts, lists }, index) => {
    const { model, ...rest } = /** @type {{ readonly model: Readonly<Record<string, unknown>> }} */ (definition);
    const shared = { ...model, vocab: place(model["vocab"]), merges: place(model["merges"]) };
    const some = (/** @type {readonly unknown[]} */ all, /** @type {number} */ count) =>
      all.filter((_, at) => (at + all.length - (index % 7)) % 7 === 0).slice(0, count);
    const recorded = { texts: some(texts, 5), lists: some(lists, 4) };
    return JSON.stringify({ name, definition: { ...rest, model: shared }, isRefused: refusal !== null, ...recorded });
  });
  return `${[JSON.stringify(provenance), JSON.stringify([...tables.keys()].map((text) => /** @type {unknown} */ (JSON.parse(text)))), ...lines].join("\n")}\n`;
}

/**
 * @param {readonly string[]} versions
 * @param {Readonly<Record<string, string>>} outcomes
 */
function checkRecord(versions, outcomes) {
  const recorded = /** @type {{ readonly versions: unknown, readonly outcomes: unknown }} */ (
    JSON.parse(readFileSync(recordFile, "utf8"))
  );
  if (JSON.stringify(recorded.versions) !== JSON.stringify(versions)) return 0;
  if (JSON.stringify(recorded.outcomes) === JSON.stringify(outcomes)) return 0;
  process.stdout.write(`The outcomes are not those recorded in ${recordFile}.\n`);
  return 1;
}

/** @param {Case} one */
async function compare({ name, definition, refusal, texts, lists }) {
  const { createTokenizer } = await import("../../dist/tokenizers/index.js");
  const { ConfigurationError } = await import("../../dist/core/index.js");
  /** @type {import("../../dist/core/index.js").Tokenizer} */
  let tokenizer;
  try {
    tokenizer = await createTokenizer(name, { tokenizerJson: definition, tokenizerConfig: null });
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const reason = error.message
      .replace(/^Cannot \w+ tokenizer "[^"]*": /, "")
      .replace(/, which is not proven.*|;.*/s, "");
    return { outcome: `refused: ${reason}`, differences: [] };
  }
  if (refusal !== null) return { outcome: "DIFFERS", differences: [`tokenizers refuses it: ${refusal}`] };
  /** @type {string[]} */
  const differences = [];
  const expectEqual = (
    /** @type {string} */ what,
    /** @type {Attempt<unknown> | null} */ expected,
    /** @type {unknown} */ ours,
  ) => {
    if (expected === null) return;
    const [theirs, given] = [JSON.stringify(expected.value ?? expected), JSON.stringify(ours)];
    if (theirs !== given) differences.push(`${what}: ${given}, ${theirs} expected`);
  };
  for (const { text, ids, decoded } of texts) {
    const own = [...tokenizer.encode(text)];
    expectEqual(`encode(${JSON.stringify(text)})`, ids, own);
    if (ids.value !== undefined) expectEqual(`decode of ${JSON.stringify(text)}`, decoded, tokenizer.decode(ids.value));
  }
  for (const { ids, decoded, skipped } of lists) {
    const list = ids.join();
    expectEqual(`decode([${list}])`, decoded, tokenizer.decode(ids));
    expectEqual(`decode([${list}]) id by id`, decoded, decodeOneByOne(tokenizer, ids));
    expectEqual(
      `decode([${list}]) without special tokens`,
      skipped,
      tokenizer.decode(ids, { skipSpecialTokens: true }),
    );
  }
  return { outcome: differences.length === 0 ? "equal" : `DIFFERS in ${differences.length}`, differences };
}

/**
 * @param {import("../../dist/core/index.js").Tokenizer} tokenizer
 * @param {readonly number[]} ids
 */
function decodeOneByOne(tokenizer, ids) {
  const decoder = tokenizer.startDecoding();
  return ids.map((id) => decoder.push(id)).join("") + decoder.finish();
}
