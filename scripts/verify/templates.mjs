// `npm run verify -- templates`: what our renderers write for random conversations, compared with `apply_chat_template` of the
// pinned transformers, for every chat template in ../shared/models. With --write the counts and SHA-256 go into templates.json
// beside this file; without it they are compared with that file. The rendered texts are vendors' and are never stored.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "../run-command.mjs";
import { CannotVerify, makeEnvironment, versionOf } from "./python.mjs";
import { randomConversation, toolDefinitions } from "./random-conversation.mjs";

/** @typedef {{ readonly rendered: number, readonly refused: number, readonly sha256: string }} FamilyRecord */

const pinned = { transformers: "5.23.0", jinja2: "3.1.6" };
const seed = 16;
const conversations = 400;
const now = "2026-01-15T12:00:00";
const recordFile = join(import.meta.dirname, "templates.json");

/**
 * @param {{ readonly write: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyTemplates({ write }) {
  const models = join(root, "..", "shared", "models");
  if (!existsSync(models)) throw new CannotVerify(`Cannot verify: there are no chat templates at "${models}".`);
  const names = readdirSync(models).filter((name) => existsSync(join(models, name, "chat_template.jinja")));
  const { folder, bin } = makeEnvironment({
    name: "templates",
    packages: Object.entries(pinned).map(([name, version]) => `${name}==${version}`),
  });
  const versions = Object.keys(pinned).map((name) => `${name} ${versionOf(bin("python"), name)}`);
  /** @type {Record<string, FamilyRecord>} */
  const families = {};
  let differences = 0;
  for (const name of names) {
    const template = join(models, name, "chat_template.jinja");
    const { outcomes, requests, specialTokens } = await renderAll(name, readFileSync(template, "utf8"));
    mkdirSync(folder, { recursive: true });
    const [input, output] = [join(folder, "requests.jsonl"), join(folder, "hashes.json")];
    writeFileSync(input, requests.join("\n"));
    const script = join(import.meta.dirname, "render_templates.py");
    const { status } = spawnSync(bin("python"), ["-W", "ignore", script, template, input, output, specialTokens, now], {
      stdio: "inherit",
      env: { ...process.env, HF_HUB_OFFLINE: "1", TRANSFORMERS_VERBOSITY: "error" },
    });
    if (status !== 0)
      throw new CannotVerify(`Cannot verify: transformers ended with ${status} at "${name}"; see above.`);
    const expected = /** @type {string[]} */ (JSON.parse(readFileSync(output, "utf8")));
    const differing = outcomes.flatMap((outcome, index) => (outcome === expected[index] ? [] : [index]));
    const refused = outcomes.filter((outcome) => outcome.startsWith("refused")).length;
    families[name] = {
      rendered: outcomes.length - refused,
      refused,
      sha256: sha256(outcomes.join("\n")),
    };
    differences += differing.length;
    const verdict = differing.length === 0 ? "agree" : `DIFFER: ${differing.slice(0, 5).join(", ")}`;
    process.stdout.write(`${name.padEnd(28)} ${outcomes.length - refused} rendered, ${refused} refused: ${verdict}\n`);
  }
  const record = { seed, conversations, versions, families };
  process.stdout.write(
    `${names.length} templates, ${names.length * conversations} conversations, ${differences} differ\n`,
  );
  if (differences > 0) return 1;
  if (write) writeFileSync(recordFile, `${JSON.stringify(record, null, 2)}\n`);
  if (JSON.stringify(record) === JSON.stringify(JSON.parse(readFileSync(recordFile, "utf8")))) return 0;
  process.stdout.write(`The texts are not those recorded in ${recordFile}.\n`);
  return 1;
}

/**
 * The outcome of each conversation (SHA-256 of the text, or the refusal), and the same conversations for transformers.
 *
 * @param {string} name
 * @param {string} chatTemplate
 */
async function renderAll(name, chatTemplate) {
  const { chooseRenderer, ChatTemplateError, rendererFamily, wireMessages } =
    await import("../../dist/renderers/index.js");
  const { toolFromDefinition } = await import("../../dist/core/index.js");
  const { dumpJson, fromPlain } = await import("../../dist/python-semantics/json/index.js");
  const { createRandom } = await import("../../dist/lib/random.js");
  const family = rendererFamily(name);
  const tokenizer = await byteTokenizer(chatTemplate, [family.startToken, ...family.stopTokens]);
  const tools = toolDefinitions.map((definition) =>
    toolFromDefinition(
      /** @type {import("../../dist/python-semantics/json/index.js").JsonObject} */ (fromPlain(definition)),
    ),
  );
  const thinkingChoices = family.thinkingVariable === null ? [null] : [null, true, false];
  const specialTokens = /** @type {ReadonlyMap<string, string>} */ (family.specialTokens);
  const renderers = thinkingChoices.map((thinking) =>
    chooseRenderer({ tokenizer, chatTemplate, specialTokens, now, ...(thinking === null ? {} : { thinking }) }),
  );
  const random = createRandom(seed);
  /** @type {string[]} */
  const outcomes = [];
  /** @type {string[]} */
  const requests = [];
  for (let index = 0; index < conversations; index++) {
    const { messages, hasTools } = randomConversation(random);
    const choice = index % thinkingChoices.length;
    const thinking = thinkingChoices[choice] ?? null;
    const shown = hasTools ? tools : [];
    const definitions = hasTools ? shown.map(({ definition }) => definition) : family.noTools;
    outcomes.push(
      outcomeOf(
        () =>
          /** @type {import("../../dist/core/index.js").Renderer} */ (renderers[choice]).renderPrompt(messages, shown)
            .text,
        ChatTemplateError,
      ),
    );
    requests.push(
      dumpJson(
        new Map(
          /** @type {[string, any][]} */ ([
            ["messages", wireMessages(family, messages)],
            ["tools", definitions],
            ["kwargs", new Map(thinking === null ? [] : [[family.thinkingVariable, thinking]])],
          ]),
        ),
      ),
    );
  }
  return { outcomes, requests, specialTokens: dumpJson(family.specialTokens) };
}

/**
 * @param {() => string} render
 * @param {typeof import("../../dist/renderers/index.js").ChatTemplateError} ChatTemplateError
 */
function outcomeOf(render, ChatTemplateError) {
  try {
    return sha256(render());
  } catch (error) {
    if (!(error instanceof ChatTemplateError)) throw error;
    return error.kind === "raise" ? `refused: ${sha256(error.message)}` : "refused";
  }
}

/** @param {string} text */
function sha256(text) {
  return createHash("sha256").update(text).digest("hex");
}

/**
 * One token a byte, and one for everything in the template that looks like a control token.
 *
 * @param {string} chatTemplate
 * @param {readonly string[]} further
 */
async function byteTokenizer(chatTemplate, further) {
  const { createTokenizer } = await import("../../dist/tokenizers/index.js");
  const isShown = (/** @type {number} */ byte) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
  let next = 256;
  const characters = Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isShown(byte) ? byte : next++));
  const special = chatTemplate.match(/<[|｜][^<>|｜]+[|｜]>|\[\/?[A-Z_]+\]|<\/?seed:\w+>/g) ?? [];
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const tokens = [...new Set([...special, ...further, "<s>", "</s>"])].map((content, index) => ({
    id: 256 + index,
    content,
    ...flags,
  }));
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false };
  return createTokenizer("bytes", {
    tokenizerJson: {
      version: "1.0",
      added_tokens: tokens,
      normalizer: null,
      pre_tokenizer: byteLevel,
      post_processor: null,
      decoder: byteLevel,
      model: { type: "BPE", vocab: Object.fromEntries(characters.map((text, byte) => [text, byte])), merges: [] },
    },
    tokenizerConfig: null,
  });
}
