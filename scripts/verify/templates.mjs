// `npm run verify -- templates`: our renderers' output for random conversations, compared with
// `apply_chat_template` of the pinned transformers, for every family with a template in
// ../shared/models or in the packages of `-- families`. --write stores the counts and SHA-256 in
// templates.json beside this file; without it they are compared with that file. The rendered texts
// are vendors' and are never stored.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { AttributedError } from "../../dist/core/index.js";
import { root } from "../run-command.mjs";
import { byteTokenizer } from "./families/byte-tokenizer.mjs";
import { installFamilies } from "./families/templates-at-hand.mjs";
import { CannotVerify, makeEnvironment, versionOf } from "./python.mjs";
import { randomConversation, toolDefinitions } from "./random-conversation.mjs";

/** @typedef {{ readonly rendered: number, readonly refused: number, readonly sha256: string }} FamilyRecord */

const pinned = { transformers: "5.23.0", jinja2: "3.1.6" };
const seed = 16;
const conversations = 400;
const now = "2026-01-15T12:00:00";
const lost = "refused: a message is not shown";
const recordFile = join(import.meta.dirname, "templates.json");

/**
 * @param {{ readonly write: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyTemplates({ write }) {
  installFamilies({ quick: false });
  const { rendererFamilyNames } = await import("../../dist/renderers/index.js");
  const files = await templateFiles();
  const names = rendererFamilyNames.filter((name) => files.has(name)).toSorted();
  const { folder, bin } = makeEnvironment({
    name: "templates",
    packages: Object.entries(pinned).map(([name, version]) => `${name}==${version}`),
  });
  const versions = Object.keys(pinned).map((name) => `${name} ${versionOf(bin("python"), name)}`);
  /** @type {Record<string, FamilyRecord>} */
  const families = {};
  let differences = 0;
  for (const name of names) {
    const template = files.get(name) ?? "";
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
    const differing = outcomes.flatMap((outcome, index) =>
      outcome === expected[index] || (outcome === lost && !expected[index]?.startsWith("refused")) ? [] : [index],
    );
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

/** The file with the template of each family that has one. @returns {Promise<ReadonlyMap<string, string>>} */
async function templateFiles() {
  const { rendererFamily, rendererFamilyNames } = await import("../../dist/renderers/index.js");
  return new Map(
    rendererFamilyNames.flatMap((name) => {
      const shared = join(root, "..", "shared", "models", name, "chat_template.jinja");
      const unpacked = rendererFamily(name).fingerprints.map((one) => join(root, "build", "templates", `${one}.jinja`));
      const file = [shared, ...unpacked].find((path) => existsSync(path));
      return file === undefined ? [] : [/** @type {const} */ ([name, file])];
    }),
  );
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
  const tokenizer = await byteTokenizer(chatTemplate, [family.startToken, ...family.stopTokens, "<s>", "</s>"]);
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
    // Our renderer refuses a prompt without a tool result; the template silently omits the result.
    if (error instanceof AttributedError && error.failure.code === "message-not-shown") return lost;
    if (!(error instanceof ChatTemplateError)) throw error;
    return error.kind === "raise" ? `refused: ${sha256(error.message)}` : "refused";
  }
}

/** @param {string} text */
function sha256(text) {
  return createHash("sha256").update(text).digest("hex");
}
