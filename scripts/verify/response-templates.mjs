// `npm run verify -- response-templates`: transformers' `parse_response`, and SGLang's copy of it,
// against ours: the templates that TRL ships and our own, on random answers, whole and in pieces.

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { toolFromDefinition } from "../../dist/core/index.js";
import { loadResponseTemplate, parseResponse, ResponseParser } from "../../dist/parsers/index.js";
import { dumpJson, fromPlain } from "../../dist/python-semantics/json/index.js";
import { root } from "../run-command.mjs";
import { installParsers } from "./parsers.mjs";
import { randomOf, randomPieces, randomText } from "./parsers/random-texts.mjs";
import { installInto } from "./python.mjs";
import { answers, ownTemplates, prefixes, tools } from "./response-templates/templates.mjs";

const transformers = "5.24.0";
const trl = "1.16.0";
const oracle = join(root, "scripts", "verify", "response-templates", "oracle.py");

/** The message as JSON, or the class of an exception. @typedef {string | { readonly error: string }} Reading */
/** @import { JsonObject } from "../../dist/python-semantics/json/index.js" */
/** @typedef {Readonly<Record<"whole" | "pieces" | "sglang", Reading>>} Readings */

export function installResponseTemplates() {
  const { python, wheel } = installParsers({ newest: false });
  const wheels = join(wheel, "..");
  return {
    python,
    folders: [
      installInto(join(wheels, "transformers"), `transformers==${transformers}`, false),
      wheel,
      installInto(join(wheels, "trl"), `trl==${trl}`, false),
    ],
  };
}

/**
 * @param {{ readonly quick: boolean, readonly write: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyResponseTemplates({ quick, write }) {
  const installed = installResponseTemplates();
  const started = performance.now();
  process.stdout.write(`transformers ${transformers}, trl ${trl}\n`);
  const ask = startOracle(installed);
  const shipped = /** @type {Readonly<Record<string, object>>} */ (await ask({ templates: true }));
  const cases = [
    ...Object.entries(shipped).map(([name, template]) => ({ name, template, good: answers[name] ?? [] })),
    ...Object.entries(ownTemplates).map(([name, { template, answers: good }]) => ({ name, template, good })),
  ];
  const foreign = cases.flatMap(({ good }) => good);
  let different = 0;
  let texts = 0;
  /**
   * Differences of SGLang 0.5.23's copy, which is older than transformers' version and has its own
   * changes.
   */
  let otherwise = 0;
  /** The first answers of each of our own templates, with the readings of transformers. */
  const golden = [
    JSON.stringify({
      transformers,
      templates: Object.fromEntries(
        cases.flatMap(({ name, template }) => (name in ownTemplates ? [[name, template]] : [])),
      ),
      tools,
    }),
  ];
  for (const { name, template, good } of cases) {
    const failures =
      good.length === 0 ? ["    no answers are known for this template"] : await play(name, template, good);
    different += failures.length;
    texts += count(quick);
    process.stdout.write(
      `  ${name.padEnd(36)} ${String(count(quick) - failures.length).padStart(6)} equal ${String(failures.length).padStart(6)} different\n`,
    );
    for (const failure of failures.slice(0, 3)) process.stdout.write(`${failure}\n`);
  }
  ask.end();
  process.stdout.write(
    `${texts} answers, ${different} different (SGLang's copy reads ${otherwise} of them unlike transformers), in ${((performance.now() - started) / 1000).toFixed(0)} s\n`,
  );
  if (write) writeFileSync(join(root, "tests", "goldens", "response-templates.jsonl"), `${golden.join("\n")}\n`);
  return different === 0 ? 0 : 1;

  /** @param {string} name @param {object} template @param {readonly string[]} good */
  async function play(name, template, good) {
    const random = randomOf(name.length * 7919);
    const loaded = loadResponseTemplate(template);
    const failures = [];
    for (let index = 0; index < count(quick); index++) {
      const text = index < good.length ? (good[index] ?? "") : randomText(good, foreign, random);
      const request = {
        template,
        text,
        prefix: random.pick(prefixes),
        tools: random.pick([[], tools]),
        pieces: randomPieces(text, random),
      };
      const theirs = /** @type {Readings} */ (await ask(request));
      const options = {
        prefix: request.prefix,
        tools: request.tools.map((tool) => toolFromDefinition(/** @type {JsonObject} */ (fromPlain(tool)))),
      };
      const ours = {
        whole: attempt(() => parseResponse(text, loaded, options)),
        pieces: attempt(() => {
          const parser = new ResponseParser(loaded, options);
          for (const piece of request.pieces) parser.feed(piece);
          return parser.finish().message;
        }),
      };
      if (name in ownTemplates && index < 20) {
        const { prefix, pieces } = request;
        golden.push(JSON.stringify({ template: name, text, prefix, typed: request.tools.length > 0, pieces, expected: { whole: theirs.whole, pieces: theirs.pieces } })); // prettier-ignore
      }
      if (shown(theirs.sglang) !== shown(theirs.whole)) otherwise++;
      for (const key of /** @type {const} */ (["whole", "pieces"])) {
        const [their, our] = [shown(theirs[key]), shown(ours[key])];
        if (their === our) continue;
        failures.push(
          `    ${JSON.stringify(text)} behind ${JSON.stringify(request.prefix)}, ${key}\n      theirs ${their}\n      ours   ${our}`,
        );
        break;
      }
    }
    return failures;
  }
}

/** Number of answers per template. @param {boolean} quick */
const count = (quick) => (quick ? 60 : 500);

/** @param {() => JsonObject} read @returns {Reading} */
function attempt(read) {
  try {
    return dumpJson(read(), { ensureAscii: true });
  } catch (error) {
    if (error instanceof Error && error.name === "ResponseParseError") return { error: "any" };
    throw error;
  }
}

/** Classes of exceptions exist only in Python. @param {Reading | undefined} reading */
const shown = (reading) => (typeof reading === "string" ? reading : "an exception");

/** @param {ReturnType<typeof installResponseTemplates>} installed */
function startOracle(installed) {
  const child = spawn(installed.python, [oracle, ...installed.folders], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  /** @type {((answer: unknown) => void)[]} */
  const waiting = [];
  createInterface({ input: child.stdout }).on("line", (line) => waiting.shift()?.(JSON.parse(line)));
  /** @type {Promise<never>} */
  const ended = new Promise((_, reject) => {
    child.on("exit", (code) => reject(new Error(`The oracle ended with ${code} before its last answer.`)));
  });
  ended.catch(() => {});
  /** @param {object} request @returns {Promise<unknown>} */
  const ask = (request) => {
    child.stdin.write(`${JSON.stringify(request)}\n`);
    return Promise.race([ended, new Promise((resolve) => waiting.push(resolve))]);
  };
  return Object.assign(ask, { end: () => child.stdin.end() });
}
